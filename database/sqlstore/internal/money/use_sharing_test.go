package money

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/test/testenv"
)

// occupied opens a ledger on PostgreSQL, and occupies all its writers until release is called.
func occupied(t *testing.T, dsn string) (s *Ledger, release func()) {
	t.Helper()
	s = New(enginetest.OpenPostgres(t, dsn+"&pool_max_conns=8&idle_in_transaction_session_timeout=0", engine.Options{}))
	return s, occupy(t, s)
}

// TestUsesOfManySessionsShareTransactionsOfPostgres: uses that wait together need a transaction for
// each shared lane, and leave every session with the right count.
func TestUsesOfManySessionsShareTransactionsOfPostgres(t *testing.T) {
	dsn := testenv.Postgres(t)
	setup := New(enginetest.OpenPostgres(t, dsn, engine.Options{}))
	const sessions, uses = 20, 3
	for i := range sessions {
		mustCreateSession(t, setup, fmt.Sprint("session", i), int64(uses+i))
	}
	s, release := occupied(t, dsn)
	var wg sync.WaitGroup
	var mu sync.Mutex
	sums := map[string]int64{}
	for i := range sessions * uses {
		id := fmt.Sprint("session", i%sessions)
		wg.Go(func() {
			got, err := s.UseSession(t.Context(), id, 1, nil)
			testenv.Check(t, err)
			mu.Lock()
			defer mu.Unlock()
			sums[id] += got.Left
		})
	}
	waiting(s, sessions*uses)
	before := s.db.Stats().Commits.Counts().Count
	release()
	wg.Wait()
	if got := s.db.Stats().Commits.Counts().Count - before; got > sharedLanes {
		t.Errorf("%d transactions, want one for each of %d lanes", got, sharedLanes)
	}
	for i := range int64(sessions) {
		id := fmt.Sprint("session", i)
		testenv.Equal(t, sums[id], 3*i+uses*(uses-1)/2, "sum of the counts left of %s", id)
		testenv.Equal(t, testenv.Must(s.Session(t.Context(), id))(t).Left, i, "%s", id)
	}
}

// TestUsesThatCannotBeShared: sessions that another node has locked, that have too little left, are
// missing or damaged, have ended or are charged do not affect other sessions' uses that wait with
// them. Only the locked one's uses wait for the lock.
func TestUsesThatCannotBeShared(t *testing.T) {
	dsn := testenv.Postgres(t)
	setup := New(enginetest.OpenPostgres(t, dsn+"&idle_in_transaction_session_timeout=0", engine.Options{}))
	for _, id := range []string{"locked", "damaged", "charged", "ended", "good"} {
		mustCreateSession(t, setup, id, 9)
	}
	mustCreateSession(t, setup, "few", 2)
	conn := enginetest.Connect(t, dsn)
	for _, statement := range []string{
		`UPDATE sessions SET expires = created WHERE id = 'ended'`,
		`SET session_replication_role = replica`, // no trigger removes the checksum
		`UPDATE sessions SET user_identity = 'w' WHERE id = 'damaged'`,
		`SET session_replication_role = DEFAULT`,
	} {
		testenv.Must(conn.Exec(t.Context(), statement))(t)
	}
	s, release := occupied(t, dsn)
	const each = 3
	results := map[string][]error{}
	var mu sync.Mutex
	var free, locked sync.WaitGroup
	use := func(wg *sync.WaitGroup, id string, use func(i int) error) {
		for i := range each {
			wg.Go(func() {
				err := use(i)
				mu.Lock()
				defer mu.Unlock()
				results[id] = append(results[id], err)
			})
		}
	}
	once := func(id string) func(int) error {
		return func(int) error { return testenv.Error(s.UseSession(context.Background(), id, 1, nil)) }
	}
	for _, id := range []string{"damaged", "ended", "good", "few", "missing"} {
		use(&free, id, once(id))
	}
	use(&free, "charged", func(i int) error {
		return testenv.Error(s.ChargeSession(context.Background(), "charged", 1, fmt.Sprint("charge", i)))
	})
	use(&locked, "locked", once("locked"))
	waiting(s, 7*each)
	testenv.OK(t, setup.in.WriteLocked(t.Context(), func(t tx) error {
		if _, err := t.liveSession("locked"); err != nil {
			return err
		}
		release()
		free.Wait() // while the lock is held
		return t.recordUse("locked", 7)
	}))
	locked.Wait()
	for id, want := range map[string]struct {
		err  error
		n    int // of the uses have it
		left int64
	}{
		"good": {nil, each, 6}, "charged": {nil, each, 6}, "locked": {ledger.ErrExhausted, 1, 0}, "few": {ledger.ErrExhausted, 1, 0},
		"damaged": {database.ErrDamagedRow, each, 9}, "ended": {database.ErrExpired, each, 9}, "missing": {database.ErrNotFound, each, 0},
	} {
		n := 0
		for _, err := range results[id] {
			if errors.Is(err, want.err) {
				n++
			} else if err != nil {
				t.Errorf("a use of %s: %v", id, err)
			}
		}
		testenv.Equal(t, n, want.n, "uses of %s with the outcome %v", id, want.err)
		if id == "missing" {
			continue
		}
		var left int64
		testenv.OK(t, conn.QueryRow(t.Context(), `SELECT remaining FROM sessions WHERE id = $1`, []byte(id)).Scan(&left))
		testenv.Equal(t, left, want.left, "left of %s", id)
	}
}

// TestSessionThatCannotBeChanged: the server's error for one session's row fails no other session's
// uses.
func TestSessionThatCannotBeChanged(t *testing.T) {
	dsn := testenv.Postgres(t)
	setup := New(enginetest.OpenPostgres(t, dsn, engine.Options{}))
	const others = 16 // in every lane
	mustCreateSession(t, setup, "refused", 9)
	conn := enginetest.Connect(t, dsn)
	for _, statement := range []string{
		`CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RAISE data_corrupted; END'`,
		`CREATE TRIGGER refuse BEFORE UPDATE ON sessions FOR EACH ROW WHEN (NEW.id = 'refused') EXECUTE FUNCTION refuse()`,
	} {
		testenv.Must(conn.Exec(t.Context(), statement))(t)
	}
	for i := range others {
		mustCreateSession(t, setup, fmt.Sprint("session", i), 9)
	}
	s, release := occupied(t, dsn)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.UseSession(context.Background(), "refused", 1, nil); err == nil {
			t.Error("a row that the server does not change was used")
		}
	})
	for i := range others {
		wg.Go(func() {
			testenv.Check(t, testenv.Error(s.UseSession(context.Background(), fmt.Sprint("session", i), 1, nil)))
		})
	}
	waiting(s, others+1)
	release()
	wg.Wait()
	testenv.Equal(t, enginetest.Value(t, s.db, `SELECT CAST(SUM(used) AS BIGINT) FROM sessions`), others, "uses")
}

// TestSharedUsesRace uses, charges and refills sessions on two nodes at the same time: no chunkset
// is lost, and none is used twice.
func TestSharedUsesRace(t *testing.T) {
	dsn := testenv.Postgres(t)
	nodes := []*Ledger{New(enginetest.OpenPostgres(t, dsn, engine.Options{})), New(enginetest.OpenPostgres(t, dsn, engine.Options{}))}
	const sessions, callers, each, left = 5, 8, 40, 50
	for i := range sessions {
		mustCreateSession(t, nodes[0], fmt.Sprint("session", i), left)
	}
	var mu sync.Mutex
	used := map[string]int64{}
	var wg sync.WaitGroup
	for c := range callers {
		s := nodes[c%2]
		wg.Go(func() {
			for i := range each {
				id, n, err := fmt.Sprint("session", (c+i)%sessions), int64(1+i%2), error(nil)
				if i%8 == 0 {
					_, err = s.ChargeSession(context.Background(), id, n, fmt.Sprint("charge", c, i))
				} else {
					_, err = s.UseSession(context.Background(), id, n, nil)
				}
				switch {
				case err == nil:
					mu.Lock()
					used[id] += n
					mu.Unlock()
				case !errors.Is(err, ledger.ErrExhausted):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range sessions {
		id := fmt.Sprint("session", i)
		got := testenv.Must(nodes[1].Session(t.Context(), id))(t)
		if got.Used != used[id] || got.Left != left-used[id] || got.Left > 1 {
			t.Errorf("%s: %d used and %d left, of %d; %d were acknowledged", id, got.Used, got.Left, left, used[id])
		}
	}
}

// TestSharedUseIsWithdrawn: a caller that waits for a shared transaction can leave, and nothing is
// used.
func TestSharedUseIsWithdrawn(t *testing.T) {
	dsn := testenv.Postgres(t)
	setup := New(enginetest.OpenPostgres(t, dsn, engine.Options{}))
	mustCreateSession(t, setup, "session", 9)
	s, release := occupied(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- testenv.Error(s.UseSession(ctx, "session", 1, nil)) }()
	waiting(s, 1)
	cancel()
	testenv.Is(t, <-left, context.Canceled, "a cancelled caller")
	release()
	testenv.Equal(t, testenv.Must(s.UseSession(database.WithPatience(t.Context(), time.Minute), "session", 1, nil))(t).Left, 8, "the next use")
}
