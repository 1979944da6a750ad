package console

import (
	"strings"
	"testing"

	"sluice/e2e"
)

// TestConsoleFollowsChanges: the page of a folder shows what other clients store and delete in it,
// and keeps the row that has the focus. Another view follows nothing.
func TestConsoleFollowsChanges(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: []string{"--admin-addr", "127.0.0.1:0"}})
	p := openConsole(t, s, "")
	store(s, "0x1", "docs/a.txt", "text/plain", "first")
	p.Open("#/blobs/0x1/docs%2F")
	p.untilText("[role=grid]", "a.txt")
	p.tabTo("row a.txt")
	s.Eventually("the page does not follow changes", func() bool { return s.Counter("sluice_changes_readers") == 1 })
	store(s, "0x1", "docs/b.txt", "text/plain", "second")
	p.untilText("[role=grid]", "b.txt")
	if got := p.focused(); !strings.HasPrefix(got, "row a.txt") {
		t.Errorf("the focus is on %q", got)
	}
	s.Must(204, "DELETE", "/v1/blobs/0x1/docs/b.txt", nil)
	p.until("!document.querySelector('[role=grid]').textContent.includes('b.txt')")
	store(s, "0x1", "other", "text/plain", "elsewhere")
	p.Open("#/")
	p.untilText("[role=grid]", "0x1")
	s.Eventually("the page follows changes of a folder that it does not show", func() bool { return s.Counter("sluice_changes_readers") == 0 })
}
