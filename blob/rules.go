package blob

import (
	"context"
	"time"

	"sluice/access/actions"
	"sluice/metastore"
)

// Rules returns an account's rules, and how far they were applied.
func (s *Service) Rules(ctx context.Context, account string) (metastore.AccountRules, error) {
	return s.meta.Rules(ctx, account)
}

// RulesOf returns an account's rules as they were within the last seconds, and not before the last
// call of ForgetSettings. They must not be modified.
func (s *Service) RulesOf(ctx context.Context, account string) ([]metastore.Rule, error) {
	some, err := s.ruled.get("", func() ([]metastore.Rule, error) {
		list, err := s.meta.ListRules(ctx, "", 1)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return list[0].Rules, nil
	})
	if err != nil || len(some) == 0 { // most instances have no rules
		return nil, err
	}
	return s.ruled.get(account, func() ([]metastore.Rule, error) {
		r, err := s.meta.Rules(ctx, account)
		return r.Rules, err
	})
}

// ForgetSettings must be called after this node has changed rules, or which versions an account
// keeps.
func (s *Service) ForgetSettings() {
	s.ruled.forget()
	s.unkept.forget()
}

// rulesRun is how long the task applies rules in one run, before another one goes on.
const rulesRun = time.Minute

// applyRules removes blobs by rules, and returns how many. It sets rulesLeft if there is more.
func (s *Service) applyRules(ctx context.Context) (removed int64, err error) {
	const batch = 500
	pace := s.newPacer()
	defer s.FreeSoon()
	for began := time.Now(); ; {
		size, err := pace.next(ctx, batch)
		if err != nil {
			return removed, err
		}
		n, more, err := s.meta.ApplyRules(ctx, size)
		if removed += n; err != nil || !more {
			return removed, err
		}
		if time.Since(began) > rulesRun {
			s.rulesLeft.Store(true)
			return removed, nil
		}
	}
}

// removeRules removes an account's rules.
func (s *Service) removeRules(ctx context.Context, account string) error {
	r, err := s.meta.Rules(ctx, account)
	if err != nil || len(r.Rules) == 0 {
		return err
	}
	defer s.ForgetSettings()
	_, err = s.meta.SetRules(ctx, account, func(rules *[]metastore.Rule) (*actions.Act, error) {
		*rules = nil
		return nil, nil
	})
	return err
}
