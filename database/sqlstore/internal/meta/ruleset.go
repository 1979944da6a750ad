package meta

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"sluice/access/actions"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/internal/task"
	"sluice/metastore"
)

// rulesRow is a row in the table rules as it is scanned.
type rulesRow struct {
	metastore.AccountRules
	rules, progress, last []byte // in JSON; the last two may be nil
}

const rulesColumns = `account, rules, changed, due, progress, last`

func (r *rulesRow) fields() engine.Args {
	return engine.Args{&r.Account, &r.rules, (*engine.Instant)(&r.Changed), (*engine.Instant)(&r.Due), &r.progress, &r.last}
}

// decoded returns the row's account, and how far its rules were applied.
func (r *rulesRow) decoded() (a metastore.AccountRules, p ruleProgress, err error) {
	a = metastore.AccountRules{Account: r.Account, Changed: r.Changed, Due: r.Due}
	if r.rules != nil {
		err = json.Unmarshal(r.rules, &a.Rules)
	}
	if err == nil && r.last != nil {
		err = json.Unmarshal(r.last, &a.Last)
	}
	if err == nil && r.progress != nil {
		err, a.Running = json.Unmarshal(r.progress, &p), &p.RuleRun
	}
	if err != nil {
		err = fmt.Errorf("sqlstore: the rules of account %q: %w", r.Account, err)
	}
	return a, p, err
}

// Rules implements metastore.Rules.
func (s *Metastore) Rules(ctx context.Context, account string) (metastore.AccountRules, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (metastore.AccountRules, error) {
		a, _, err := t.rules(account)
		return a, err
	})
}

func (t tx) rules(account string) (metastore.AccountRules, []byte, error) {
	var r rulesRow
	if _, err := t.Row(`SELECT `+rulesColumns+` FROM rules WHERE account = $1`, engine.Args{[]byte(account)}, r.fields()...); err != nil {
		return metastore.AccountRules{}, nil, err
	}
	a, _, err := r.decoded()
	a.Account = account
	return a, r.rules, err
}

// ListRules implements metastore.Rules.
func (s *Metastore) ListRules(ctx context.Context, after string, limit int) ([]metastore.AccountRules, error) {
	return engine.ResultOf(ctx, s.in.ReadList, func(t tx) (list []metastore.AccountRules, err error) {
		var r rulesRow
		err = t.Each(`SELECT `+rulesColumns+` FROM rules WHERE account > $1 ORDER BY account LIMIT ($2 + 0)`, engine.Args{[]byte(after), int64(limit)}, r.fields(), func() error {
			a, _, err := r.decoded()
			list = append(list, a)
			return err
		})
		return list, err
	})
}

// SetRules implements metastore.Rules.
func (s *Metastore) SetRules(ctx context.Context, account string, change func(*[]metastore.Rule) (*actions.Act, error)) (metastore.AccountRules, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t tx) (metastore.AccountRules, error) {
		was, stored, err := t.rules(account)
		if err != nil {
			return was, err
		}
		is := was
		act, err := change(&is.Rules)
		if err == nil {
			err = acts.Record(t.Tx, act)
		}
		if err != nil {
			return was, err
		}
		text, err := json.Marshal(is.Rules)
		switch {
		case err != nil:
			return was, err
		case len(is.Rules) == 0:
			_, err := t.Exec(`DELETE FROM rules WHERE account = $1`, []byte(account))
			return metastore.AccountRules{Account: account}, err
		case bytes.Equal(text, stored):
			return was, nil
		}
		is.Changed, is.Due, is.Running = t.Now, t.Now, nil
		return is, t.Change(`INSERT INTO rules (account, rules, changed, due) VALUES ($1, $2, $3, $3)
			ON CONFLICT (account) DO UPDATE SET rules = $2, changed = $3, due = $3, progress = NULL`, []byte(account), text, t.Now.UnixMicro())
	})
}

// ApplyRules implements metastore.Rules.
func (s *Metastore) ApplyRules(ctx context.Context, limit int) (removed int64, more bool, err error) {
	err = s.db.WriteLockedForDeletion(ctx, s.in.On(func(t tx) (err error) {
		removed, more, err = t.applyRules(limit)
		return err
	}))
	return removed, more, err
}

func (t tx) applyRules(limit int) (removed int64, more bool, err error) {
	if waits, err := t.waits(task.Rules); err != nil || waits {
		return 0, false, err
	}
	var r rulesRow
	found, err := t.Row(`SELECT `+rulesColumns+` FROM rules WHERE due <= $1 ORDER BY due, account LIMIT 1`+t.ForUpdate(), engine.Args{t.Now.UnixMicro()}, r.fields()...)
	if err != nil || !found {
		return 0, false, err
	}
	a, p, err := r.decoded()
	if err != nil {
		return 0, false, err
	}
	if r.progress == nil {
		p.Began = t.Now
	}
	w := t.walk(a.Account, a.Rules, &p)
	w.removes = true
	ended, err := w.step(limit)
	if err == nil {
		err = usage.Record(t.Tx, w.deltas...)
	}
	if err != nil {
		return 0, false, err
	}
	if !ended {
		text, err := json.Marshal(p)
		if err != nil {
			return 0, false, err
		}
		return w.taken, true, t.Change(`UPDATE rules SET progress = $2 WHERE account = $1`, []byte(a.Account), text)
	}
	p.Ended = t.Now
	text, err := json.Marshal(p.RuleRun)
	if err != nil {
		return 0, false, err
	}
	return w.taken, true, t.Change(`UPDATE rules SET due = $2, progress = NULL, last = $3 WHERE account = $1`,
		[]byte(a.Account), metastore.NextMidnight(p.Began).UnixMicro(), text)
}

// CountRules implements metastore.Rules.
func (s *Metastore) CountRules(ctx context.Context, account string, rules []metastore.Rule, after string, limit int) (run metastore.RuleRun, next string, err error) {
	var begin ruleCursor
	if after != "" {
		text, err := base64.RawURLEncoding.DecodeString(after)
		if err == nil {
			err = json.Unmarshal(text, &begin)
		}
		if err != nil || begin.Unit < 0 {
			return run, "", fmt.Errorf("%w: after is not the next of a count", metastore.ErrRules)
		}
	}
	err = s.in.SnapshotList(ctx, func(t tx) error {
		p := ruleProgress{RuleRun: metastore.RuleRun{Began: t.Now}, At: begin}
		w := t.walk(account, rules, &p)
		ended, err := w.step(limit)
		if run, next = p.RuleRun, ""; err != nil || ended {
			run.Ended = t.Now
			return err
		}
		text, err := json.Marshal(p.At)
		next = base64.RawURLEncoding.EncodeToString(text)
		return err
	})
	return run, next, err
}
