package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

const (
	year = 365 * 24 * time.Hour
	step = 4 * time.Minute // after which the time is kept, without a gap
)

// locked is a version with a lock, and one behind it that is not current.
type locked struct {
	current, kept metastore.Blob
	until         time.Time
}

// lockUntil stores two versions of a name in an account with locks, each locked for a time.
func lockUntil(t *testing.T, s *Store, lasts time.Duration) (l locked) {
	t.Helper()
	testenv.OK(t, testenv.Error(s.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State, k.Locks, k.For = metastore.KeepOn, true, time.Second
		return nil, nil
	})))
	l.until = s.Now().Truncate(time.Second).Add(lasts)
	for _, b := range []*metastore.Blob{&l.kept, &l.current} {
		*b = testenv.Must(s.CommitBlob(t.Context(), metastore.Blob{
			Account: "a", Name: "n", Content: metastore.NewContentID(s.Now()), Lock: metastore.Lock{Mode: metastore.LockCompliance, Until: l.until},
		}, nil, nil))(t)
	}
	return l
}

// remove deletes the versions for good, or returns the error for the first one that stays.
func (l *locked) remove(t *testing.T, s *Store) error {
	for _, b := range []metastore.Blob{l.kept, l.current} {
		v := metastore.VersionName{BlobName: metastore.BlobName{Account: "a", Name: "n"}, Version: metastore.VersionOf(&b)}
		if err := testenv.Error(s.DeleteVersion(t.Context(), metastore.Deletion{VersionName: v})); err != nil {
			return err
		}
	}
	return nil
}

// stay requires that no call and no purge removes the versions, that both are listed, and that
// their locks are shown to end behind the time.
func (l *locked) stay(t *testing.T, s *Store, when string) {
	t.Helper()
	for _, purge := range []func(context.Context, int) (int, error){s.Purge, s.PurgeVersions} {
		if _, err := purge(t.Context(), 100); err != nil && !errors.Is(err, database.ErrClock) {
			t.Errorf("a purge %s: %v", when, err)
		}
	}
	testenv.Is(t, l.remove(t, s), metastore.ErrLocked, "a deletion %s", when)
	page := testenv.Must(s.ListVersions(t.Context(), metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "a", Limit: 10}}))(t)
	if len(page.Versions) != 2 {
		t.Fatalf("%s there are %d versions", when, len(page.Versions))
	}
	for _, v := range page.Versions {
		if !v.Lock.Until.After(s.Now()) && s.DeletionErr() == nil {
			t.Errorf("%s a lock is shown to end at %v, before %v", when, v.Lock.Until, s.Now())
		}
	}
}

// adopt lets the clock show its time until that is adopted.
func adopt(t *testing.T, c clocked, s *Store) {
	t.Helper()
	for range int(jumpPause/step) + 1 {
		c.run(step)
		keep(t, s)
	}
	testenv.Is(t, s.DeletionErr(), nil, "the time is in doubt after the pause")
}

// TestRepeatedCommitHasItsLock lets the transactions of commits run twice while the clock of locks
// is behind: the second one stores the lock that the writer wants, too.
func TestRepeatedCommitHasItsLock(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		s := c.open()
		keep(t, s)
		c.set(time.Hour)
		keep(t, s)
		adopt(t, c, s)
		again := errors.New("again")
		enginetest.Hook(s.db, enginetest.Hooks{WriteLocked: func(write enginetest.Transactor) enginetest.Transactor {
			return func(ctx context.Context, fn func(*engine.Tx) error) error {
				err := write(ctx, func(t *engine.Tx) error { return errors.Join(fn(t), again) })
				if !errors.Is(err, again) {
					return err
				}
				return write(ctx, fn)
			}
		}})
		l := lockUntil(t, s, 6*time.Hour)
		testenv.Equal(t, l.current.Lock.Until.Equal(l.until), true, "whether the lock ends at %v: it is %+v", l.until, l.current.Lock)
	})
}

// TestJumpsEndNoLock sets the clock ahead by a year, beside a process and between two, and lets
// each time be adopted. Locks that have hours left stay, whatever asks. After the clock has been
// set right again they end when that much time has passed.
// Invariant 216.
func TestJumpsEndNoLock(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		s := c.open()
		keep(t, s)
		l := lockUntil(t, s, 6*time.Hour)
		l.stay(t, s, "at first")

		c.set(year)
		l.stay(t, s, "when the clock was set")
		keep(t, s)
		l.stay(t, s, "when the doubt was kept")
		adopt(t, c, s)
		l.stay(t, s, "when the time was adopted")

		keep(t, s)
		c.set(year)
		s = c.start(t, s)
		l.stay(t, s, "after a start with a clock that was set")
		keep(t, s)
		adopt(t, c, s)
		l.stay(t, s, "when that time was adopted")
		c.set(3 * time.Minute)
		s = c.start(t, s)
		l.stay(t, s, "after a short stop")

		c.set(-2*year - 3*time.Minute)
		keep(t, s)
		l.stay(t, s, "when the clock was set right")
		adopt(t, c, s)
		l.stay(t, s, "when the right time was adopted")
		s = c.start(t, s)
		l.stay(t, s, "after a start")
		b := testenv.Must(s.Blob(t.Context(), "a", "n"))(t)
		if late := b.Lock.Until.Sub(l.until); late < 0 || late > 30*time.Minute {
			t.Errorf("the lock is shown to end %v later than stated", late)
		}
		for range int(6 * time.Hour / step) {
			c.run(step)
			keep(t, s)
		}
		testenv.OK(t, l.remove(t, s))
	})
}

// TestStopsLengthenLocks: a lock does not end while no process runs, also if the time that is
// adopted after a stop was not kept before, and in a database whose time was not kept, as in a
// restored one; and the purge that comes first removes nothing.
// Invariant 216.
func TestStopsLengthenLocks(t *testing.T) {
	onClocks(t, func(t *testing.T, c clocked) {
		s := c.open()
		keep(t, s)
		l := lockUntil(t, s, 2*time.Hour)
		c.run(2 * time.Hour)
		s = c.start(t, s)
		l.stay(t, s, "after a stop")
		keep(t, s)
		l.stay(t, s, "when the time was kept")
		adopt(t, c, s)
		l.stay(t, s, "when the time was adopted")
		c.run(24 * time.Hour)
		s = c.start(t, s)
		for range int(jumpPause/step) + 1 {
			l.stay(t, s, "while no time is kept")
			c.run(step)
		}
		l.stay(t, s, "when a time was adopted that had not been kept")
		testenv.Is(t, s.DeletionErr(), nil, "the time is in doubt after the pause")
		keep(t, s)
		l.stay(t, s, "when that time was kept")
		execute(t, s, `DELETE FROM facts WHERE name = $1`, []byte(database.TimeProperty))
		c.run(year)
		s = c.start(t, s)
		l.stay(t, s, "without a time that was kept")
		keep(t, s)
		l.stay(t, s, "after the first one")
		testenv.Must(s.PurgeVersions(t.Context(), 100))(t)
		l.stay(t, s, "after a purge")
		for range int(time.Hour/step) + 2 {
			c.run(step)
			keep(t, s)
		}
		testenv.Must(s.PurgeVersions(t.Context(), 100))(t)
		testenv.OK(t, l.remove(t, s))
	})
}
