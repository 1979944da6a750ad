package access_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/access"
	"sluice/access/keys"
	"sluice/database/sqlstore"
	"sluice/database/whole"
	"sluice/metastore"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openStores returns n handles on one real store. Every test runs in a bubble or does not read the
// clock, so the store uses package time's.
func openStores(t testing.TB, n int) []*sqlstore.Store {
	t.Helper()
	path := filepath.Join(testenv.MemoryDir(t), "meta.db")
	var stores []*sqlstore.Store
	for range n {
		s := testenv.Must(sqlstore.OpenSQLite(path, sqlstore.Options{Now: time.Now}))(t)
		testenv.AtEnd(t, s.Close)
		stores = append(stores, s)
	}
	return stores
}

// line is the connection to a store. It counts lookups, can fail, and can delay a result.
type line struct {
	whole.Database
	lookups atomic.Int64                         // number of keys looked up
	asked   atomic.Int64                         // number of usages looked up
	cut     atomic.Pointer[error]                // the error of every call
	hangs   atomic.Bool                          // Versions does not return
	origin  atomic.Int64                         // the first version's number
	answer  atomic.Pointer[func()]               // called when a key was read, before it is returned
	usage   atomic.Pointer[func(metastore.Used)] // the same for a usage
}

func (l *line) down(err error) { l.cut.Store(&err) }
func (l *line) up()            { l.cut.Store(nil) }

func (l *line) Key(ctx context.Context, id string) (keys.Key, error) {
	l.lookups.Add(1)
	if err := l.cut.Load(); err != nil {
		return keys.Key{}, *err
	}
	k, err := l.Database.Key(ctx, id)
	if then := l.answer.Load(); then != nil {
		(*then)()
	}
	if err == nil {
		err = ctx.Err() // the caller has been cancelled
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
	version, err := l.Database.KeysVersion(ctx)
	return version - l.origin.Load(), err
}

func (l *line) Usage(ctx context.Context, owner string) (metastore.Used, error) {
	l.asked.Add(1)
	if err := l.cut.Load(); err != nil {
		return metastore.Used{}, *err
	}
	used, err := l.Database.Usage(ctx, owner)
	if then := l.usage.Load(); then != nil {
		(*then)(used)
	}
	if err == nil {
		err = ctx.Err() // the caller has been cancelled
	}
	return used, err
}

// makeKey creates a key for reading and writing, unless it is described otherwise.
func makeKey(t testing.TB, store keys.Store, n access.NewKey) (keys.Key, string) {
	t.Helper()
	if n.Scopes == nil && n.Grants == nil {
		n.Scopes = []access.Scope{access.ScopeRead, access.ScopeWrite}
	}
	issued := testenv.Must(access.Create(context.Background(), store, n))(t)
	return issued.Key, issued.Credential
}

// callerOf returns a new key's holder.
func callerOf(t testing.TB, store *sqlstore.Store, n access.NewKey) *access.Caller {
	t.Helper()
	_, credential := makeKey(t, store, n)
	return testenv.Must(access.NewAuthenticator(store, access.AuthenticatorOptions{}).Authenticate(context.Background(), credential))(t)
}

// poll returns when the next poll has ended. It must be called in a bubble.
func poll() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// within reports whether got differs from want by at most the given share.
func within(got, want, share float64) bool { return got >= want*(1-share) && got <= want*(1+share) }

// since returns the seconds since start.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
