package access_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/access"
	"sluice/metastore"
	"sluice/metastore/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openStores gives n handles on one real store. Every test runs in a bubble or
// does not look at the clock, so the store's is that of package time.
func openStores(t testing.TB, n int) []*sqlstore.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meta.db")
	var stores []*sqlstore.Store
	for range n {
		s, err := sqlstore.OpenSQLite(path, sqlstore.Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		stores = append(stores, s)
	}
	return stores
}

// line is the way to a store: it counts the keys that are looked up, can be
// cut, and can hold an answer back.
type line struct {
	metastore.Store
	lookups atomic.Int64                         // keys asked for
	asked   atomic.Int64                         // usages asked for
	cut     atomic.Pointer[error]                // what every question gets
	hangs   atomic.Bool                          // versions have no answer
	origin  atomic.Int64                         // from which versions are counted
	answer  atomic.Pointer[func()]               // runs when a key was read, before it is given
	usage   atomic.Pointer[func(metastore.Used)] // the same of a usage
}

func (l *line) down(err error) { l.cut.Store(&err) }
func (l *line) up()            { l.cut.Store(nil) }

func (l *line) Key(ctx context.Context, id string) (metastore.Key, error) {
	l.lookups.Add(1)
	if err := l.cut.Load(); err != nil {
		return metastore.Key{}, *err
	}
	k, err := l.Store.Key(ctx, id)
	if then := l.answer.Load(); then != nil {
		(*then)()
	}
	return k, err
}

func (l *line) KeysVersion(ctx context.Context) (int64, error) {
	if err := l.cut.Load(); err != nil {
		return 0, *err
	}
	if l.hangs.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	version, err := l.Store.KeysVersion(ctx)
	return version - l.origin.Load(), err
}

func (l *line) Usage(ctx context.Context, owner string) (metastore.Used, error) {
	l.asked.Add(1)
	if err := l.cut.Load(); err != nil {
		return metastore.Used{}, *err
	}
	used, err := l.Store.Usage(ctx, owner)
	if then := l.usage.Load(); then != nil {
		(*then)(used)
	}
	if err == nil {
		err = ctx.Err() // nobody waits for the answer any more
	}
	return used, err
}

// makeKey makes a key for reading and writing, unless it is described.
func makeKey(t testing.TB, store metastore.Keys, n access.NewKey) (metastore.Key, string) {
	t.Helper()
	if n.Scopes == nil {
		n.Scopes = []access.Scope{access.ScopeRead, access.ScopeWrite}
	}
	key, credential, err := access.Create(context.Background(), store, n)
	if err != nil {
		t.Fatal(err)
	}
	return key, credential
}

// callerOf gives the holder of a fresh key.
func callerOf(t testing.TB, store *sqlstore.Store, n access.NewKey) *access.Caller {
	t.Helper()
	_, credential := makeKey(t, store, n)
	caller, err := access.NewAuthenticator(store, access.AuthenticatorOptions{}).Authenticate(context.Background(), credential)
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

// within reports whether got is want, give or take a share of it.
func within(got, want, share float64) bool { return got >= want*(1-share) && got <= want*(1+share) }

// since gives the seconds that passed.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
