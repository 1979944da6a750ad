package sqlstore

import (
	"sync/atomic"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/internal/boottime"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// clocked is a database with a clock that a test moves.
type clocked struct {
	open func() *Store            // starts a process
	set  func(jump time.Duration) // sets the clock
	run  func(d time.Duration)    // lets the time pass
}

// start starts a process. If killed is not nil, that process ends before, without keeping the time.
func (c clocked) start(t *testing.T, killed *Store) *Store {
	t.Helper()
	if killed != nil {
		testenv.Check(t, killed.Close())
	}
	return c.open()
}

// onClocks runs a test on a database of each engine.
func onClocks(t *testing.T, test func(t *testing.T, c clocked)) {
	t.Run("SQLite", func(t *testing.T) {
		m, path := newMachine(), databasePath(t)
		test(t, clocked{
			open: func() *Store {
				return newStore(enginetest.OpenSQLite(t, path, engine.Options{Wall: m.wall, Passed: m.passed}), nil)
			},
			set: m.set, run: m.run,
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		testenv.Postgres(t)
		dsn, set := testenv.MovedPostgres(t, 0)
		var slept atomic.Int64
		passed := func() time.Duration { return boottime.Now() + time.Duration(slept.Load()) }
		var ahead time.Duration
		move := func(d time.Duration) {
			ahead += d
			set(ahead)
		}
		test(t, clocked{
			open: func() *Store {
				return newStore(enginetest.OpenPostgres(t, dsn, engine.Options{Passed: passed}), nil)
			},
			set: move,
			run: func(d time.Duration) {
				slept.Add(int64(d))
				move(d)
			},
		})
	})
}

// keep keeps the time, which also reads the clock.
func keep(t *testing.T, s *Store) {
	t.Helper()
	testenv.OK(t, s.KeepTime(t.Context()))
}

// TestRestartAfterTheClockWasSet: the clock is set between two processes. Nothing is deleted by age
// and nothing is forgotten before the new time has been shown for an hour, by several processes if
// need be; then it is adopted.
// Invariant 103.
func TestRestartAfterTheClockWasSet(t *testing.T) {
	for _, jump := range []time.Duration{25 * time.Hour, 100 * 24 * time.Hour} {
		onClocks(t, func(t *testing.T, c clocked) {
			s := c.open()
			check := storeUndue(t, s)
			keep(t, s)
			c.set(jump)
			s = c.start(t, s)
			refusesToDelete(t, s, 0)
			testenv.Is(t, s.DeletionErr(), database.ErrLongStop, "a clock that is ahead")
			check(s)
			c.run(jumpPause / 2)
			keep(t, s)
			c.run(time.Minute)
			s = c.start(t, s)
			refusesToDelete(t, s, 1)
			check(s)
			c.run(jumpPause/2 - time.Minute)
			keep(t, s)
			refusesToDelete(t, s, 2)
			check(s)
			c.run(time.Minute)
			deletesAgain(t, s)
			keep(t, s)
			s = c.start(t, s)
			testenv.Is(t, s.DeletionErr(), nil, "deletions by a process that starts after the time was adopted")
		})
	}
}

// TestRestartAfterTheClockWasCorrected: a time that was in doubt is known as soon as the clock is
// right again, whether that is seen by a process that runs or by the next.
// Invariant 103.
func TestRestartAfterTheClockWasCorrected(t *testing.T) {
	for _, jump := range []time.Duration{25 * time.Hour, -25 * time.Hour} {
		onClocks(t, func(t *testing.T, c clocked) {
			s := c.open()
			check := storeUndue(t, s)
			keep(t, s)
			c.set(jump)
			s = c.start(t, s)
			refusesToDelete(t, s, 0)
			check(s)
			c.run(20 * time.Minute)
			keep(t, s)
			c.set(-jump)
			keep(t, s)
			testenv.Is(t, s.DeletionErr(), nil, "deletions after the clock was corrected")
			check(s)
			c.set(jump)
			keep(t, s)
			refusesToDelete(t, s, 1)
			c.run(20 * time.Minute)
			keep(t, s)
			c.set(-jump)
			s = c.start(t, s)
			testenv.Is(t, s.DeletionErr(), nil, "deletions by a process that starts after the clock was corrected")
			testenv.Must(s.Purge(t.Context(), 100))(t)
			check(s)
		})
	}
}

// TestRestartWhileTheTimeIsInDoubt: the clock was set while a process ran. Another process that
// starts beside it, or after it, doubts the time as well.
// Invariant 103.
func TestRestartWhileTheTimeIsInDoubt(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		first := c.open()
		check := storeUndue(t, first)
		keep(t, first)
		c.set(25 * time.Hour)
		keep(t, first)
		second := c.open()
		for _, s := range []*Store{first, second} {
			refusesToDelete(t, s, 0)
			check(s)
		}
		testenv.Check(t, first.Close())
		c.run(time.Minute)
		third := c.start(t, second)
		refusesToDelete(t, third, 0)
		c.set(24 * time.Hour) // once more
		c.run(jumpPause - 2*time.Minute)
		keep(t, third)
		refusesToDelete(t, third, 1)
	})
}

// TestRestartsAreBelieved: a clock that has gone on since a process ended, and a database in which
// no time was kept, are believed at once. After a longer stop the time is in doubt.
// Invariant 103.
func TestRestartsAreBelieved(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		var s *Store
		for _, stop := range []time.Duration{0, 0, time.Second, 4 * time.Minute} {
			c.run(stop)
			s = c.start(t, s)
			testenv.Is(t, s.DeletionErr(), nil, "deletions after a stop for %v", stop)
			keep(t, s)
		}
		c.run(6 * time.Minute)
		s = c.start(t, s)
		testenv.Is(t, s.DeletionErr(), database.ErrLongStop, "deletions after a stop for 6 minutes")
	})
}

// TestDoubtOfOneNode: one node takes a pause that only its machine had for a clock that was set. A
// node that starts then believes the time, which another node knows.
// Invariant 103.
func TestDoubtOfOneNode(t *testing.T) {
	testenv.Postgres(t)
	dsn, set := testenv.MovedPostgres(t, 0)
	paused, _ := openSleeper(t, dsn)
	other, slept := openSleeper(t, dsn)
	slept.Store(int64(time.Hour))
	set(time.Hour)
	keep(t, other)
	keep(t, paused)
	testenv.Is(t, other.DeletionErr(), nil, "the node that was not paused")
	testenv.Is(t, paused.DeletionErr(), database.ErrClock, "the node that was paused")
	started, _ := openSleeper(t, dsn)
	testenv.Is(t, started.DeletionErr(), nil, "a node that starts")
}

// TestChargeIsReturnedWhileTheTimeIsInDoubt: a killed process's charge can be returned, although
// the time shows that it is too old, and although there were more charges since.
func TestChargeIsReturnedWhileTheTimeIsInDoubt(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		s := c.open()
		session := ledger.Session{ID: "session", Total: 9, Left: 9, Expires: s.Now().Add(60 * 24 * time.Hour)}
		testenv.Must(s.CreateSession(t.Context(), session, nil))(t)
		testenv.Must(s.ChargeSession(t.Context(), "session", 2, "lost"))(t)
		keep(t, s)
		c.set(25 * time.Hour)
		s = c.start(t, s)
		testenv.Must(s.ChargeSession(t.Context(), "session", 3, "other"))(t)
		testenv.Equal(t, testenv.Must(s.ReturnCharge(t.Context(), "session", "lost"))(t).Left, 6, "chunksets left after the return")
	})
}

// TestDateWhileTheTimeIsInDoubt: a blob that is deleted while its date seems to be old is
// remembered, so that its name's next one has no earlier date.
func TestDateWhileTheTimeIsInDoubt(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		s := c.open()
		keep(t, s)
		put := func() time.Time {
			t.Helper()
			b := metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(s.Now())}
			return testenv.Must(s.CommitBlob(t.Context(), b, nil, nil))(t).Modified
		}
		c.set(25 * time.Hour)
		s = c.start(t, s)
		first := put()
		c.set(25 * time.Hour)
		s = c.start(t, s)
		_, _, err := dbtest.Remove(t.Context(), s, "a", "n", nil)
		testenv.OK(t, err)
		c.set(-50 * time.Hour)
		s = c.start(t, s)
		if second := put(); second.Before(first) {
			t.Errorf("the next blob is dated %v, the one before %v", second, first)
		}
	})
}

// versionsPaused returns why the task versions is paused; "": it is not.
func versionsPaused(t *testing.T, s *Store) string {
	t.Helper()
	for _, one := range testenv.Must(s.ListTasks(t.Context()))(t) {
		if one.Name == "versions" && !one.Paused.IsZero() {
			return one.Reason
		}
	}
	return ""
}

// keptVersion stores a version that is due after 30 days, and returns a function that purges
// versions and returns how many.
func keptVersion(t *testing.T, s *Store) (purge func(*Store) int) {
	t.Helper()
	testenv.Must(s.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State, k.For = metastore.KeepOn, 30*24*time.Hour
		return nil, nil
	}))(t)
	for range 2 {
		testenv.Must(s.CommitBlob(t.Context(), metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(s.Now())}, nil, nil))(t)
	}
	return func(s *Store) int {
		n, err := s.PurgeVersions(t.Context(), 100)
		if err != nil {
			testenv.Is(t, err, database.ErrClock, "a purge of versions")
		}
		return n
	}
}

// TestAdoptedJumpPausesVersions: a clock that is set while a process runs deletes no version once
// its time is adopted, before that is kept either, until an operator resumes the task. The process
// that adopts it may be another than the one that saw it.
// Invariant 215.
func TestAdoptedJumpPausesVersions(t *testing.T) {
	for _, restart := range []bool{false, true} {
		onClocks(t, func(t *testing.T, c clocked) {
			s := c.open()
			purge := keptVersion(t, s)
			keep(t, s)
			c.set(60 * 24 * time.Hour)
			keep(t, s)
			testenv.Equal(t, purge(s), 0, "versions purged in doubt")
			if restart {
				s = c.start(t, s)
			}
			c.run(jumpPause / 2)
			keep(t, s)
			c.run(jumpPause / 2)
			for range 2 {
				testenv.Equal(t, purge(s), 0, "versions purged after the time was adopted")
			}
			testenv.Is(t, s.DeletionErr(), nil, "deletions")
			testenv.Equal(t, versionsPaused(t, s), "", "the reason before the time is kept")
			for range 2 {
				keep(t, s)
				testenv.Equal(t, versionsPaused(t, s), "the clock was set by 60d", "the reason")
				testenv.Equal(t, purge(s), 0, "versions purged in the pause")
				s = c.start(t, s)
			}
			testenv.Must(s.ChangeTask(t.Context(), "versions", func(_ time.Time, one *database.Task) (*actions.Act, error) {
				one.Paused, one.Reason = time.Time{}, ""
				return nil, nil
			}))(t)
			keep(t, s)
			testenv.Equal(t, versionsPaused(t, s), "", "the reason after the task was resumed")
			testenv.Equal(t, purge(s), 1, "versions purged after the task was resumed")
		})
	}
}

// TestStopPausesNoVersions: neither a long stop, nor a clock that is corrected in time, nor a jump
// that a start would believe at once pauses the task.
// Invariant 215.
func TestStopPausesNoVersions(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		s := c.open()
		purge := keptVersion(t, s)
		keep(t, s)
		c.set(60 * 24 * time.Hour)
		keep(t, s)
		c.run(time.Minute)
		c.set(-60 * 24 * time.Hour)
		keep(t, s)
		c.set(time.Hour)
		keep(t, s)
		c.set(4*time.Minute - time.Hour)
		keep(t, s)
		c.run(jumpPause)
		keep(t, s)
		testenv.Equal(t, versionsPaused(t, s), "", "the reason after a corrected jump, and a short one")
		c.run(60 * 24 * time.Hour)
		s = c.start(t, s)
		testenv.Is(t, s.DeletionErr(), database.ErrLongStop, "deletions after a stop")
		keep(t, s)
		c.run(jumpPause)
		keep(t, s)
		testenv.Is(t, s.DeletionErr(), nil, "deletions an hour later")
		testenv.Equal(t, versionsPaused(t, s), "", "the reason after a stop")
		testenv.Equal(t, purge(s), 1, "versions purged after a stop")
	})
}

// TestPausedMachinePausesNoVersions: a node whose machine alone was paused adopts the time that the
// other nodes know.
// Invariant 215.
func TestPausedMachinePausesNoVersions(t *testing.T) {
	testenv.Postgres(t)
	dsn, set := testenv.MovedPostgres(t, 0)
	paused, ran := openSleeper(t, dsn)
	other, slept := openSleeper(t, dsn)
	keptVersion(t, other)
	keep(t, other)
	slept.Store(int64(time.Hour))
	set(time.Hour)
	keep(t, other)
	keep(t, paused)
	slept.Store(int64(2*time.Hour + time.Minute))
	ran.Store(int64(time.Hour + time.Minute))
	set(2*time.Hour + time.Minute)
	keep(t, other)
	keep(t, paused)
	testenv.Is(t, paused.DeletionErr(), nil, "deletions by the node that was paused")
	keep(t, paused)
	testenv.Equal(t, versionsPaused(t, other), "", "the reason")
}
