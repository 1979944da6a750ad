package node

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"sluice/database/sqlstore"
	"sluice/internal/metrics"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// openDatabase opens an empty database, until the test ends, and returns the clock that it uses.
func openDatabase(t *testing.T) (*sqlstore.Store, *testclock.Clock) {
	t.Helper()
	clock := testclock.New()
	name := filepath.Join(t.TempDir(), "meta.db")
	meta := testenv.Must(sqlstore.OpenSQLite(name, sqlstore.Options{Now: clock.Now}))(t)
	testenv.AtEnd(t, meta.Close)
	return meta, clock
}

// inBubble calls a function in a synctest bubble with an empty database.
func inBubble(t *testing.T, call func(t *testing.T, meta *sqlstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		meta := testenv.Must(sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{}))(t)
		testenv.AtEnd(t, meta.Close)
		call(t, meta)
	})
}

// exposed returns the admin address's response for the metrics of a set. It begins with an empty
// line, so that each metric is between two line breaks.
func exposed(set *metrics.Set) string {
	w := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/metrics", nil)
	set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, request)
	return "\n" + w.Body.String()
}

// wantLines checks whether lines are among the metrics of a set.
func wantLines(t *testing.T, set *metrics.Set, what string, want bool, lines ...string) {
	t.Helper()
	text := exposed(set)
	for _, line := range lines {
		if strings.Contains(text, "\n"+line+"\n") != want {
			t.Errorf("%s: %q is among the metrics: %t", what, line, !want)
		}
	}
}

// logBuffer is a buffer that is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends p.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the text that was written.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
