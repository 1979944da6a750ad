package console

import (
	"strings"
	"testing"

	"sluice/e2e"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// openNames opens a folder with n names, from name-000000 on. A page of a list has 1,000.
func openNames(t *testing.T, n int) *consolePage {
	t.Helper()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "name-000000", "text/plain", "")
	s.Stop()
	addNames(s, n-1)
	s.Launch()
	p := openConsole(t, s, "#/blobs/0x1/")
	p.untilText("[role=grid]", "name-000001")
	return p
}

// TestConsoleReturnsToThePlace opens a blob far down in a list, goes back, and loads the page
// again. Each time the list has the row, the focus and the selection as they were. End goes to the
// end of the list, and another key ends that.
func TestConsoleReturnsToThePlace(t *testing.T) {
	t.Parallel()
	p := openNames(t, 10_000)
	p.tabTo("row name-000000")
	p.keys(kb.ArrowDown, " ", kb.ArrowDown, " ")
	p.untilText(".selection", "2 selected")
	p.keys(kb.End)
	p.until(`document.activeElement.innerText.includes("name-009999")`)
	for range 3 {
		p.keys(kb.PageUp)
	}
	row := p.focused()
	top := evaluate[int](p, `Math.round(document.querySelector("[role=grid]").scrollTop)`)
	if !strings.HasPrefix(row, "row name-0099") || top == 0 {
		t.Fatalf("the focus is on %q at %d", row, top)
	}
	returned := func(how string) {
		t.Helper()
		p.until(`document.activeElement.innerText.startsWith("name-0099")`)
		if got := p.focused(); got != row {
			t.Errorf("after %s the focus is on %q, want %q", how, got, row)
		}
		if got := evaluate[int](p, `Math.round(document.querySelector("[role=grid]").scrollTop)`); got != top {
			t.Errorf("after %s the list is at %d, want %d", how, got, top)
		}
		if got := p.Text(".selection"); !strings.HasPrefix(got, "2 selected") {
			t.Errorf("after %s the selection is %q", how, got)
		}
	}
	p.keys(kb.Enter)
	p.untilText(".stage", "The blob is empty.")
	evaluate[bool](p, "(history.back(), true)")
	returned("going back")
	p.Do(chromedp.Reload())
	returned("a reload")

	p.keys(kb.Home)
	p.until(`document.activeElement.innerText.includes("name-000000")`)
	p.press("Clear the selection")
	evaluate[bool](p, `(location.hash = "#/", true)`)
	p.untilText("[role=grid]", "0x1")
	evaluate[bool](p, `(location.hash = "#/blobs/0x1/", true)`)
	p.untilText("[role=grid]", "name-000001")
	if got := p.focused(); strings.HasPrefix(got, "row") {
		t.Errorf("a view that is opened anew has the focus on %q", got)
	}
}

// TestConsoleFindsNames looks for a part of a name. The console shows in how many names it has
// looked, loads all of them on request, and asks the server for names that begin with the part. The
// filter outlasts a reload.
func TestConsoleFindsNames(t *testing.T) {
	t.Parallel()
	p := openNames(t, 10_000)
	typed := func(text string) {
		t.Helper()
		p.Do(chromedp.Focus(chromedp.CSS("input[type=search]")))
		evaluate[bool](p, `(document.activeElement.select(), true)`)
		p.keys(text)
	}
	typed("E-0000")
	p.untilText(".sub", "100 entries")
	typed("0042")
	p.untilText("main", "Found in the first 1,000 names, which are loaded.")
	p.untilText(".sub", "11 entries") // name-000042 and name-00042?
	p.screenshots("found")
	p.press("Load all names")
	p.untilText("main", "Found in all 10,000 names.")
	p.untilText(".sub", "111 entries")
	p.Do(chromedp.Reload())
	p.untilText("main", "Found in all 10,000 names.")
	p.untilText(".sub", "111 entries")
	p.until(`document.activeElement.getAttribute("aria-label") === "Show names that contain"`)
	evaluate[bool](p, `(() => { const way = document.querySelector(".way"); way.value = "begin"; way.dispatchEvent(new Event("change")); return true; })()`)
	p.untilText("main", "No name begins with this.")
	typed("name-0042")
	p.untilText(".sub", "100 entries")
}
