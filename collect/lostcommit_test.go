package collect

import (
	"context"
	"errors"
	"slices"
	"testing"

	"sluice/database"
	"sluice/ledger"
	"sluice/test/fault"
)

// lostCommit is a store with a fault of BeginSubmission.
type lostCommit struct {
	Store
	fault.Point[string]
}

func (l *lostCommit) BeginSubmission(ctx context.Context, s ledger.Submission) error {
	return l.Do("BeginSubmission", func() error { return l.Store.BeginSubmission(ctx, s) })
}

// TestLostCommitOfASubmission loses the answer to the COMMIT that begins a submission. The payment
// is collected once, whether it has committed or not.
// Invariant 165.
func TestLostCommitOfASubmission(t *testing.T) {
	onEachEngine(t, func(t *testing.T, m *onFullnode) {
		for i, kind := range []fault.Kind{fault.Lose, fault.Fail} {
			c := m.fund(uint64(i+1), 1000)
			m.over = &lostCommit{m.store, fault.Point[string]{Kind: kind, Err: database.ErrUnknownOutcome}}
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
