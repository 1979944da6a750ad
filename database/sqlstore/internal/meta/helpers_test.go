package meta

import (
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/test/testenv"
)

// TestMain checks that no goroutines outlive the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.KeepPostgres(m)) }

func openSQLite(tb testing.TB, opt engine.Options) *Metastore {
	tb.Helper()
	return New(enginetest.OpenSQLite(tb, filepath.Join(testenv.MemoryDir(tb), "meta.db"), opt), nil)
}

// openCached opens a store with a cache of this size.
func openCached(tb testing.TB, size int64, readers int) *Metastore {
	tb.Helper()
	cache := NewBlobCache(size)
	opt := engine.Options{Readers: readers, Rows: cache}
	return New(enginetest.OpenSQLite(tb, filepath.Join(testenv.MemoryDir(tb), "meta.db"), opt), cache)
}

// openPostgres opens a store and a connection to its database.
func openPostgres(tb testing.TB) (*Metastore, *pgx.Conn) {
	tb.Helper()
	return openServer(tb, testenv.Postgres(tb))
}

// openServer is openPostgres for the database of dsn.
func openServer(tb testing.TB, dsn string) (*Metastore, *pgx.Conn) {
	tb.Helper()
	return New(enginetest.OpenPostgres(tb, dsn, engine.Options{}), nil), enginetest.Connect(tb, dsn)
}

// opened opens a blob of account a.
func opened(tb testing.TB, s *Metastore, name string) {
	tb.Helper()
	_, _, err := s.OpenBlob(tb.Context(), "a", name)
	testenv.OK(tb, err)
}
