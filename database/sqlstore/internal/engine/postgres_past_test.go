package engine

import (
	"fmt"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// TestAsynchronousPromotionLosesCommits: a standby that had not received everything becomes the
// primary. The node that has acknowledged the rest notices, and reads.
// Invariant 98.
func TestAsynchronousPromotionLosesCommits(t *testing.T) {
	t.Parallel()
	r := replicated{T: t, primary: testenv.StartPostgres(t)}
	r.standby = testenv.StartStandby(t, r.primary)
	s, _ := openNode(t, r.eitherHost())
	ids := r.counters(s, "counter", 2)
	r.do(r.primary.AwaitStandby(), r.standby.Stop(), <-r.use(s, ids[0]))
	r.do(r.primary.StopFast(), r.standby.Start(), r.standby.Promote())
	testenv.Equal(t, r.used(s, ids[0]), 0, "uses on the new primary")
	testenv.Is(t, s.LostCommits(), database.ErrSetBack, "after the promotion")
	s.ForgetCommits()
	r.do(s.LostCommits(), <-r.use(s, ids[1]))
	testenv.Equal(t, r.used(s, ids[1]), 1, "uses in the new generation")
	r.do(s.LostCommits())
}

// TestSynchronousPromotionLosesNothing: a standby that had to acknowledge everything becomes the
// primary, and no node takes it for one that was set back.
// Invariant 98.
func TestSynchronousPromotionLosesNothing(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	s, _ := openNode(t, r.eitherHost())
	ids := r.counters(s, "counter", 3)
	var all []<-chan error
	for _, id := range ids {
		all = append(all, r.use(s, id))
	}
	r.do(r.primary.Stop(), r.standby.Exec(`SELECT 1`), r.standby.Promote())
	for _, used := range all {
		r.do(<-used)
	}
	for _, id := range ids {
		testenv.Equal(t, r.used(s, id), 1, "uses on the new primary")
	}
	r.do(s.LostCommits())
}

// TestDeletedIDsAreNotLost: a server deletes ids by age. That does not look like a loss, even if
// its clock has run ahead.
// Invariant 98.
func TestDeletedIDsAreNotLost(t *testing.T) {
	s, node := openNode(t, testenv.Postgres(t))
	for i := range 5 {
		testenv.OK(t, s.setFact(t.Context(), fmt.Sprint("name", i), "value"))
	}
	node.deleteIDs(t.Context(), 0)
	node.pool.Reset()
	testenv.Must(s.fact(t.Context(), "name0"))(t)
	testenv.OK(t, s.LostCommits())
	testenv.OK(t, s.setFact(t.Context(), "another", "value"))
	c := testenv.Must(node.pool.Acquire(t.Context()))(t)
	testenv.Must(c.Exec(t.Context(), `DELETE FROM transactions WHERE id = (SELECT id FROM transactions ORDER BY id DESC LIMIT 1)`))(t)
	c.Release()
	node.pool.Reset()
	testenv.Must(s.fact(t.Context(), "name0"))(t)
	testenv.Is(t, s.LostCommits(), database.ErrSetBack, "without the last transaction")
}
