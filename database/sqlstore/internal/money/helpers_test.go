package money

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/test/testenv"
)

// TestMain checks that no goroutines outlive the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.KeepPostgres(m)) }

func databasePath(tb testing.TB) string { return filepath.Join(testenv.MemoryDir(tb), "meta.db") }

// openAt opens a ledger and closes its database when the test ends.
func openAt(tb testing.TB, path string, opt engine.Options) *Ledger {
	tb.Helper()
	return New(enginetest.OpenSQLite(tb, path, opt))
}
