package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/metastore"
	"sluice/wire"
)

// previewed is how many things a part of a count looks at.
const previewed = 10_000

// RuledAccounts returns the accounts with rules, sorted: those that the administrator administers
// as a whole.
func (s *Service) RuledAccounts(ctx context.Context, by By, after string, limit int) (out wire.RulesPage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	list, err := administered(a, after, limit+1, func(limit int) ([]metastore.AccountRules, error) {
		return s.store.ListRules(ctx, after, limit)
	}, func(account string) (metastore.AccountRules, bool, error) {
		r, err := s.store.Rules(ctx, account)
		return r, len(r.Rules) > 0, err
	})
	if err != nil {
		return out, err
	}
	out.Accounts = []wire.Rules{}
	left := pageBytes
	for i, r := range list {
		text, _ := json.Marshal(r.Rules)
		if left -= len(text); i == limit || i > 0 && left < 0 {
			out.Next = list[i-1].Account
			break
		}
		out.Accounts = append(out.Accounts, rulesOf(&r))
	}
	return out, nil
}

// Rules returns an account's rules, and how far they were applied.
func (s *Service) Rules(ctx context.Context, by By, account string) (out wire.Rules, err error) {
	r, err := s.rules(ctx, by, account)
	return rulesOf(&r), err
}

func (s *Service) rules(ctx context.Context, by By, account string) (r metastore.AccountRules, err error) {
	if account, err = blob.ParseAccount(account); err != nil {
		return r, err
	}
	a, err := s.actorOf(ctx, by)
	if err == nil {
		err = a.mayKeep(account)
	}
	if err != nil {
		return r, err
	}
	return s.store.Rules(ctx, account)
}

// SetRules sets an account's rules; without rules it removes them. match is a condition on the
// rules before; nil: there is none.
func (s *Service) SetRules(ctx context.Context, by By, account string, match func(etag string) bool, in wire.SetRules) (wire.Rules, error) {
	return s.ChangeRules(ctx, by, account, match, func(now *[]metastore.Rule) error {
		*now = rulesIn(in.Rules)
		return nil
	})
}

// ChangeRules changes an account's rules, and returns them as stored. change may be called several
// times. match is as in SetRules. It returns a metastore.ErrRules for rules that no account can
// have.
func (s *Service) ChangeRules(
	ctx context.Context, by By, account string, match func(etag string) bool, change func(*[]metastore.Rule) error,
) (out wire.Rules, err error) {
	if account, err = blob.ParseAccount(account); err != nil {
		return out, err
	}
	defer s.opt.SettingsChanged()
	err = s.decide(ctx, by, func(a actor) error {
		if err := a.mayKeep(account); err != nil {
			return err
		}
		is, err := s.store.SetRules(ctx, account, func(now *[]metastore.Rule) (*actions.Act, error) {
			before := rulesOf(&metastore.AccountRules{Account: account, Rules: *now})
			if match != nil && !match(before.ETag) {
				return nil, ErrChanged
			}
			if err := change(now); err != nil {
				return nil, err
			}
			if err := metastore.CheckRules(*now); err != nil {
				return nil, err
			}
			after := rulesOf(&metastore.AccountRules{Account: account, Rules: *now})
			if after.ETag == before.ETag {
				return nil, nil
			}
			return a.act("rules.set", account, []string{account}, before.SetRules, after.SetRules)
		})
		out = rulesOf(&is)
		return err
	})
	return out, err
}

// PreviewRules returns a part of a count of things that rules would remove now.
func (s *Service) PreviewRules(ctx context.Context, by By, account string, in wire.PreviewRules) (out wire.RulesPreview, err error) {
	r, err := s.rules(ctx, by, account)
	if err != nil {
		return out, err
	}
	rules := r.Rules
	if in.Rules != nil {
		rules = rulesIn(*in.Rules)
	}
	if err := metastore.CheckRules(rules); err != nil {
		return out, err
	}
	run, next, err := s.store.CountRules(ctx, r.Account, rules, in.After, previewed)
	return wire.RulesPreview{Looked: run.Looked, Taken: takenOf(run.Taken), Next: next}, err
}

func rulesIn(list []wire.Rule) (rules []metastore.Rule) {
	for _, r := range list {
		if len(r.Tags) == 0 {
			r.Tags = nil
		}
		r.ExpireOn = r.ExpireOn.UTC()
		rules = append(rules, metastore.Rule(r))
	}
	return rules
}

// rulesOf returns an account's rules. Its ETag differs for different rules.
func rulesOf(r *metastore.AccountRules) wire.Rules {
	out := wire.Rules{Account: r.Account, SetRules: wire.SetRules{Rules: []wire.Rule{}}, Changed: r.Changed, Running: runOf(r.Running), Last: runOf(r.Last)}
	for _, rule := range r.Rules {
		out.Rules = append(out.Rules, wire.Rule(rule))
	}
	if r.Running == nil {
		out.Next = r.Due
	}
	text, _ := json.Marshal(out.Rules)
	sum := sha256.Sum256(append([]byte(r.Account+"\n"), text...))
	out.ETag = fmt.Sprintf(`"%x"`, sum[:16])
	return out
}

func runOf(r *metastore.RuleRun) *wire.RuleRun {
	if r == nil {
		return nil
	}
	return &wire.RuleRun{Began: r.Began, Ended: r.Ended, Looked: r.Looked, Taken: takenOf(r.Taken)}
}

func takenOf(taken map[string]metastore.RuleCounts) map[string]wire.RuleCounts {
	out := map[string]wire.RuleCounts{}
	for id, c := range taken {
		out[id] = wire.RuleCounts(c)
	}
	return out
}
