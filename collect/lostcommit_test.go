package collect

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"sluice/database"
	"sluice/ledger"
)

// lostCommit is a store that loses how the next BeginSubmission ended, which has committed or not.
type lostCommit struct {
	Store
	commits bool
	lost    atomic.Bool
}

func (l *lostCommit) BeginSubmission(ctx context.Context, s ledger.Submission) error {
	if l.lost.Swap(true) {
		return l.Store.BeginSubmission(ctx, s)
	}
	if l.commits {
		if err := l.Store.BeginSubmission(ctx, s); err != nil {
			return err
		}
	}
	return database.ErrUnknownOutcome
}

// TestLostCommitOfASubmission loses the answer to the COMMIT that begins a submission. The payment
// is collected once, whether it has committed or not.
// Invariant 165.
func TestLostCommitOfASubmission(t *testing.T) {
	onEachEngine(t, func(t *testing.T, m *onFullnode) {
		for i, commits := range []bool{true, false} {
			c := m.fund(uint64(i+1), 1000)
			m.over = &lostCommit{Store: m.store, commits: commits}
			stop := m.run()
			c.payNow(10)
			c.settled()
			c.payNow(5)
			c.settled()
			stop()
			m.paid(c.number, 10, 5)
		}
		unknown := func(err error) bool { return errors.Is(err, database.ErrUnknownOutcome) }
		if !slices.ContainsFunc(m.errors(), unknown) {
			t.Errorf("reports: %v", m.errors())
		}
		m.audit()
	})
}
