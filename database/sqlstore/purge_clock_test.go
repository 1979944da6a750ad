package sqlstore

import (
	"sync/atomic"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/internal/boottime"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// The documentation's promises about the engines' clocks.
const (
	jumpPause         = time.Hour   // without deletions after a clock was set
	measurementMaxAge = time.Minute // how long a measurement of a server's clock is valid
)

// machine is a machine's wall clock and elapsed time.
type machine struct {
	shown time.Time
	ran   time.Duration
}

func newMachine() *machine {
	return &machine{shown: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), ran: time.Hour}
}

func (m *machine) wall() time.Time       { return m.shown }
func (m *machine) passed() time.Duration { return m.ran }

// run advances the time, and set sets the wall clock.
func (m *machine) run(d time.Duration) { m.shown, m.ran = m.shown.Add(d), m.ran+d }
func (m *machine) set(d time.Duration) { m.shown = m.shown.Add(d) }

// storeUndue stores one row of each kind that a purge handles. All are due within a day, but for an
// upload that has ended and a session. check fails the test unless all are there.
func storeUndue(t *testing.T, s *Store) (check func(*Store)) {
	t.Helper()
	ctx := t.Context()
	fatal := func(err error) {
		t.Helper()
		testenv.OK(t, err)
	}
	now := s.Now()
	_, err := s.BeginUpload(ctx, metastore.Upload{ID: "upload", Account: "a", Name: "n", Content: metastore.NewContentID(now), PartSize: 1})
	fatal(err)
	_, err = s.CreateSession(ctx, ledger.Session{ID: "session", Total: 9, Left: 9, Expires: now.Add(60 * 24 * time.Hour)}, nil)
	fatal(err)
	idem := &database.Idempotency{Scope: "s", Key: "k"}
	_, err = s.UseSession(ctx, "session", 2, idem)
	fatal(err)
	testenv.Must(s.BeginUpload(ctx, metastore.Upload{ID: "ended", Account: "a", Name: "n", Content: metastore.NewContentID(now), PartSize: 1}))(t)
	fatal(testenv.Error(s.AbortUpload(ctx, "ended")))
	blob := metastore.Blob{Account: "a", Name: "live", Content: metastore.NewContentID(now), Expires: now.Add(time.Hour)}
	_, err = s.CommitBlob(ctx, blob, nil, nil)
	fatal(err)
	expireOn(t, s, metastore.NextMidnight(now))
	return func(s *Store) {
		t.Helper()
		testenv.Equal(t, testenv.Must(s.Upload(ctx, "upload"))(t).State, metastore.UploadOpen, "the upload")
		testenv.Equal(t, testenv.Must(s.Upload(ctx, "ended"))(t).State, metastore.UploadAborted, "the upload that has ended")
		testenv.Equal(t, testenv.Must(s.UseSession(ctx, "session", 2, idem))(t).Left, 7, "a keyed use, repeated, leaves")
		testenv.Equal(t, testenv.Must(s.Session(ctx, "session"))(t).Left, 7, "the session")
		holds(t, s, 1, `SELECT COUNT(*) FROM blobs`)
	}
}

// expireOn lets a rule remove the blobs in account a from a midnight on.
func expireOn(t *testing.T, s *Store, at time.Time) {
	t.Helper()
	testenv.Must(s.SetRules(t.Context(), "a", func(rules *[]metastore.Rule) (*actions.Act, error) {
		*rules = []metastore.Rule{{ID: "date", ExpireOn: at}}
		return nil, nil
	}))(t)
}

// refusesToDelete fails the test unless nothing is deleted by age, whichever call is first.
func refusesToDelete(t *testing.T, s *Store, first int) {
	t.Helper()
	calls := []func() error{
		func() error { _, err := s.Purge(t.Context(), 100); return err },
		func() error { _, err := s.Unreferenced(t.Context(), []string{"key"}); return err },
		func() error {
			_, err := s.GarbageContents(t.Context(), time.Hour, metastore.GarbageContent{}, 9)
			return err
		},
		func() error { _, _, err := s.ApplyRules(t.Context(), 9); return err },
		func() error {
			_, _, err := s.PurgeChanges(t.Context(), metastore.ChangeBounds{Changes: 9, Bytes: 1 << 20}, 9)
			return err
		},
	}
	for i := range calls {
		call := (first + i) % len(calls)
		testenv.Is(t, calls[call](), database.ErrClock, "call %d", call)
	}
	testenv.Is(t, s.DeletionErr(), database.ErrClock, "DeletionErr")
	testenv.Is(t, testenv.Error(s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 9)), nil, "garbage whatever its age")
}

// deletesAgain fails the test unless rows that are due are deleted.
func deletesAgain(t *testing.T, s *Store) {
	t.Helper()
	if n, err := s.Purge(t.Context(), 100); err != nil || n == 0 {
		t.Errorf("a purge of rows that are due handled %d of them, %v", n, err)
	}
}

// TestJumpOfTheWallClockPurgesNothing: a single node's wall clock jumps by 25 h immediately before
// a purge.
// Invariant 103.
func TestJumpOfTheWallClockPurgesNothing(t *testing.T) {
	m := newMachine()
	db := enginetest.OpenSQLite(t, databasePath(t), engine.Options{Wall: m.wall, Passed: m.passed})
	s := newStore(db, nil)
	check := storeUndue(t, s)
	m.set(25 * time.Hour)
	refusesToDelete(t, s, 0)
	check(s)
	m.run(jumpPause)
	deletesAgain(t, s)
}

// openSleeper opens a store on a machine that has also slept for slept.
func openSleeper(t *testing.T, dsn string) (s *Store, slept *atomic.Int64) {
	t.Helper()
	slept = new(atomic.Int64)
	passed := func() time.Duration { return boottime.Now() + time.Duration(slept.Load()) }
	return newStore(enginetest.OpenPostgres(t, dsn, engine.Options{Passed: passed}), nil), slept
}

// TestPostgresUsesTheServersClock: a node with a clock that is wrong by three days uses the
// server's clock for the times that it stores and compares.
// Invariant 102.
func TestPostgresUsesTheServersClock(t *testing.T) {
	testenv.Postgres(t)
	for _, ahead := range []time.Duration{72 * time.Hour, -72 * time.Hour} {
		dsn, _ := testenv.MovedPostgres(t, ahead)
		s := openNode(t, dsn)
		want := time.Now().Add(ahead)
		if got := s.Now(); got.Sub(want).Abs() > time.Minute {
			t.Errorf("the time is %v, want about %v", got, want)
		}
		commit := func(name string, age time.Duration) (metastore.Blob, error) {
			created := s.Now().Add(-age)
			b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(created), Size: 1}
			return s.CommitBlob(t.Context(), b, []metastore.Extent{{Size: 1, Object: "key " + name, Created: created}}, nil)
		}
		testenv.Is(t, testenv.Error(commit("stale", metastore.MaxExtentAge+time.Minute)), metastore.ErrStaleExtent, "server ahead by %v: a stale extent is committed", ahead)
		b, err := commit("fresh", metastore.MaxExtentAge-time.Minute)
		if err != nil || b.Modified.Sub(want).Abs() > time.Minute {
			t.Errorf("server ahead by %v: a fresh extent: %v, %v", ahead, b.Modified, err)
		}
		testenv.Check(t, s.DeletionErr())
		expireOn(t, s, metastore.NextMidnight(time.Now()))
		removed, _, err := s.ApplyRules(t.Context(), 9)
		if err != nil || (removed == 1) != (ahead > 0) {
			t.Errorf("server ahead by %v: a rule for tomorrow removed %d, %v", ahead, removed, err)
		}
	}
}

// TestPostgresClockThatIsSet: the server's clock jumps by 25 h immediately before a purge. Nothing
// that was not due is purged, even before the next measurement, in whatever order the calls are.
// Requests succeed.
// Invariant 103.
func TestPostgresClockThatIsSet(t *testing.T) {
	testenv.Postgres(t)
	for first := range 4 {
		dsn, set := testenv.MovedPostgres(t, 0)
		s, slept := openSleeper(t, dsn)
		check := storeUndue(t, s)
		set(25 * time.Hour)
		refusesToDelete(t, s, first)
		holds(t, s, 2, `SELECT (SELECT COUNT(*) FROM uploads WHERE state = 0) + (SELECT COUNT(*) FROM idempotency)`)
		check(s)
		set(0)                                                              // correct again
		if err := s.SetProperty(t.Context(), "name", "value"); err != nil { // a write reads the server's clock
			t.Fatal(err)
		}
		testenv.Is(t, s.DeletionErr(), nil, "deletions, after the clock was corrected")
		testenv.Must(s.Purge(t.Context(), 100))(t)
		check(s)
		slept.Store(int64(26 * time.Hour))
		set(26 * time.Hour) // time passes
		deletesAgain(t, s)
	}
}

// TestPostgresClockNotMeasured: a node that could not reach its server for long deletes
// nothing and is not ready, and measures the clock before it uses the time.
func TestPostgresClockNotMeasured(t *testing.T) {
	testenv.Postgres(t)
	dsn, set := testenv.MovedPostgres(t, 0)
	s, slept := openSleeper(t, dsn)
	now := s.Now()
	testenv.Must(s.CommitBlob(t.Context(), metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(now), Expires: now.Add(time.Hour)}, nil, nil))(t)
	slept.Store(int64(2 * measurementMaxAge))
	for _, err := range []error{s.ClockErr(), s.DeletionErr()} {
		testenv.Is(t, err, database.ErrClock, "not measured for %v", 2*measurementMaxAge)
	}
	set(2 * time.Hour) // the machine was paused without noticing
	testenv.Is(t, testenv.Error(s.Blob(t.Context(), "a", "n")), database.ErrExpired, "an expired blob")
	testenv.Is(t, s.ClockErr(), nil, "after it was measured")
}
