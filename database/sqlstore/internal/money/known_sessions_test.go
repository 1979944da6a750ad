package money

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

func mustCreateSession(t *testing.T, s *Ledger, id string, left int64) {
	t.Helper()
	testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: id, Total: left, Left: left, Expires: s.db.Now().Add(time.Hour)}, nil))(t)
}

// TestUsesOfManySessionsShareATransaction holds the writer while several sessions are used. The
// uses become one transaction, and those that are impossible do not affect the rest.
// Invariant 18.
func TestUsesOfManySessionsShareATransaction(t *testing.T) {
	clock := testclock.New()
	s := openAt(t, databasePath(t), engine.Options{Now: clock.Now})
	mustCreateSession(t, s, "ended", 5)
	clock.Advance(2 * time.Hour)
	mustCreateSession(t, s, "few", 3)
	mustCreateSession(t, s, "many", 100)
	for _, id := range []string{"ended", "few", "many", "many"} { // few and many are known
		if _, err := s.UseSession(t.Context(), id, 1, nil); err != nil && id != "ended" {
			t.Fatal(err)
		}
	}
	g := enginetest.Hold(t, s.db)
	type result struct {
		session string
		left    int64
		err     error
	}
	results := make(chan result)
	n := 0
	use := func(id, charge string) {
		go func() {
			var got ledger.Session
			var err error
			if charge == "" {
				got, err = s.UseSession(t.Context(), id, 1, nil)
			} else {
				got, err = s.ChargeSession(t.Context(), id, 10, charge)
			}
			results <- result{id + charge, got.Left, err}
		}()
		n++
		waiting(s, n) // they arrive in this order
	}
	for range 4 {
		use("few", "")
		use("many", "")
	}
	use("ended", "")
	use("missing", "")
	use("many", "charge")
	g.Queued(1)
	testenv.Equal(t, g.Waiting(), 1, "transactions")
	g.Release()
	sums := map[string]int64{}
	for range n {
		r := <-results
		var want error
		switch {
		case r.session == "ended":
			want = database.ErrExpired
		case r.session == "missing":
			want = database.ErrNotFound
		case r.session == "few" && r.left == 0 && r.err != nil:
			want = ledger.ErrExhausted
		}
		testenv.Is(t, r.err, want, "%s", r.session)
		if r.err == nil {
			sums[r.session] += r.left
		}
	}
	testenv.Check(t, g.Result())
	want := map[string]int64{"few": 1 + 0, "many": 97 + 96 + 95 + 94, "manycharge": 84}
	if fmt.Sprint(sums) != fmt.Sprint(want) {
		t.Errorf("the sums of the counts left are %v, want %v", sums, want)
	}
}

// TestKnownSessionsAreCompared changes a session that was used before, in each way in which the
// store does not learn of it. The next use must count from the database's row.
// Invariant 18.
func TestKnownSessionsAreCompared(t *testing.T) {
	path := databasePath(t)
	s, other := openAt(t, path, engine.Options{}), openAt(t, path, engine.Options{})
	var undo atomic.Bool
	unsure(s, func() (before, after bool) { return undo.Load(), false })
	mustCreateSession(t, s, "session", 100)
	use := func(left int64) {
		t.Helper()
		got, err := s.UseSession(t.Context(), "session", 1, nil)
		if err != nil || got.Left != left {
			t.Fatalf("%+v, %v, want %d left", got, err, left)
		}
		stored, err := other.Session(t.Context(), "session")
		if err != nil || stored != got {
			t.Fatalf("%+v is stored, %v, and %+v was returned", stored, err, got)
		}
	}
	write := func(on *Ledger, fn func(*engine.Tx) error) {
		t.Helper()
		testenv.OK(t, on.db.WriteLocked(t.Context(), fn))
	}
	use(99)
	use(98)
	testenv.Must(other.UseSession(t.Context(), "session", 8, nil))(t)
	use(89)
	for _, on := range []*Ledger{s, other} {
		write(on, func(t *engine.Tx) error {
			_, err := tx{t}.refillSession("session", 10)
			return err
		})
	}
	use(108)
	testenv.Must(s.ReturnChunksets(t.Context(), "session", 2, "request"))(t)
	use(109)
	undo.Store(true)
	testenv.Is(t, testenv.Error(s.UseSession(t.Context(), "session", 50, nil)), database.ErrUnknownOutcome, "a use in doubt")
	undo.Store(false)
	use(108)
	write(s, func(t *engine.Tx) error { return t.Change(`UPDATE sessions SET remaining = 0, used = total`) })
	testenv.Is(t, testenv.Error(s.UseSession(t.Context(), "session", 1, nil)), ledger.ErrExhausted, "an exhausted session")
	write(other, func(t *engine.Tx) error { return t.Change(`DELETE FROM sessions`) })
	testenv.Is(t, testenv.Error(s.UseSession(t.Context(), "session", 1, nil)), database.ErrNotFound, "a deleted session")
	mustCreateSession(t, other, "session", 7)
	use(6)
}

// TestKnownSessionsAreBounded checks that sessions are forgotten after a long time without a use,
// and that used ones are not.
func TestKnownSessionsAreBounded(t *testing.T) {
	var k knownSessions
	for i := range int64(3 * maxKnownSessions) {
		k.put(ledger.Session{ID: "used", Left: i})
		k.put(ledger.Session{ID: fmt.Sprint(i)})
		if got, ok := k.get("used"); !ok || got.Left != i {
			t.Fatalf("after %d sessions the one in use is %+v, %v", i, got, ok)
		}
	}
	if n := len(k.recent) + len(k.earlier); n > 2*maxKnownSessions {
		t.Errorf("%d sessions are known", n)
	}
	if _, ok := k.get("0"); ok {
		t.Error("the first session is known")
	}
}
