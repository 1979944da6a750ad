package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"

	"sluice/wire"
)

// Rules returns the accounts with rules, sorted by name.
func (a *Admin) Rules(ctx context.Context) iter.Seq2[wire.Rules, error] {
	return adminList(ctx, a.c, "rules", orderedList[wire.RulesPage, wire.Rules]{
		of: func(p *wire.RulesPage) ([]wire.Rules, string) { return p.Accounts, p.Next },
		at: func(r *wire.Rules) string { return r.Account }, check: checkRules,
	})
}

// AccountRules returns an account's rules, and how far they were applied.
func (a *Admin) AccountRules(ctx context.Context, account string) (wire.Rules, error) {
	return adminCall(ctx, a.c, "show the rules of an account", http.MethodGet, "rules/"+url.PathEscape(account), nil, nil, checkRules)
}

// SetRules sets an account's rules, and returns them. Without rules it removes them. Force has no
// meaning. The rules are applied within minutes, and then each day after midnight in UTC.
func (a *Admin) SetRules(ctx context.Context, account string, rules []wire.Rule, o UpdateOptions) (wire.Rules, error) {
	if rules == nil {
		rules = []wire.Rule{}
	}
	return adminCall(ctx, a.c, "set the rules of an account", http.MethodPut, "rules/"+url.PathEscape(account), wire.SetRules{Rules: rules}, o.set, checkRules)
}

// PreviewRules counts removals that rules would make now, or the account's own ones if they are
// nil. It returns the sums after each request, the last one without a Next.
func (a *Admin) PreviewRules(ctx context.Context, account string, rules []wire.Rule) iter.Seq2[wire.RulesPreview, error] {
	in := wire.PreviewRules{}
	if rules != nil {
		in.Rules = &rules
	}
	return SumPreviews(func(after string) (wire.RulesPreview, error) {
		in.After = after
		return adminCall(ctx, a.c, "preview rules", http.MethodPost, "rules/"+url.PathEscape(account)+"/preview", in, func(r *request) { r.safety = readOnly }, func(p *wire.RulesPreview) error {
			if p.Next == after && p.Next != "" {
				return invalid("next", "is repeated")
			}
			return cmp.Or(checkTaken(p.Looked, p.Taken), checkWord("next", p.Next, maxSubject))
		})
	})
}

// SumPreviews returns the sums after each part of a preview, the last one without a Next. part
// returns the part behind a Next.
func SumPreviews(part func(after string) (wire.RulesPreview, error)) iter.Seq2[wire.RulesPreview, error] {
	return func(yield func(wire.RulesPreview, error) bool) {
		all := wire.RulesPreview{Taken: map[string]wire.RuleCounts{}}
		for more := true; more; more = all.Next != "" {
			p, err := part(all.Next)
			if err != nil {
				yield(wire.RulesPreview{}, err)
				return
			}
			all.Looked, all.Next = all.Looked+p.Looked, p.Next
			for id, c := range p.Taken {
				sum := all.Taken[id]
				all.Taken[id] = wire.RuleCounts{Blobs: sum.Blobs + c.Blobs, Versions: sum.Versions + c.Versions, Marks: sum.Marks + c.Marks, Uploads: sum.Uploads + c.Uploads, Bytes: sum.Bytes + c.Bytes}
			}
			if !yield(all, nil) {
				return
			}
		}
	}
}

// maxTaken is the greatest count of things or bytes.
const maxTaken = 1 << 53

func checkTaken(looked int64, taken map[string]wire.RuleCounts) error {
	for id, c := range taken {
		if err := checkLength("taken", id, maxSubject); err != nil {
			return err
		}
		for _, n := range []int64{c.Blobs, c.Versions, c.Marks, c.Uploads, c.Bytes} {
			if err := checkSize("taken", n, maxTaken); err != nil {
				return err
			}
		}
	}
	return checkSize("looked", looked, maxTaken)
}

func checkRules(r *wire.Rules) error {
	for _, run := range []*wire.RuleRun{r.Running, r.Last} {
		if run != nil {
			if err := checkTaken(run.Looked, run.Taken); err != nil {
				return err
			}
		}
	}
	return cmp.Or(checkID("account", r.Account), checkEach("rules", r.Rules, func(rule *wire.Rule) error {
		return cmp.Or(checkLength("id", rule.ID, maxSubject), checkLength("prefix", rule.Prefix, maxSubject))
	}), checkID("etag", r.ETag))
}
