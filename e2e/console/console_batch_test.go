package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
)

// faults replaces the faults that the server provokes.
func faults(s *e2e.Server, rules ...string) {
	s.T.Helper()
	list := []map[string]string{}
	for _, rule := range rules {
		list = append(list, map[string]string{"rule": rule})
	}
	s.Must(200, "PUT", "/v1/local/faults", e2e.AsJSON(s.T, map[string]any{"faults": list}))
}

// firstRows is an expression for the texts in the list's first rows.
const firstRows = `[...document.querySelectorAll(".grid-body .grid-row .wide")].slice(0, %d).map((cell) => cell.innerText.trim()).join(" ")`

// settled waits until no dialog is open and the list shows these names.
func (p *consolePage) settled(names ...string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`!document.querySelector("dialog") && %s === %s`, fmt.Sprintf(firstRows, len(names)+1), e2e.AsJSON(p.t, strings.Join(names, " "))))
}

// TestConsoleMovesAndCopiesSelections selects blobs and a folder, and moves, copies and renames
// them, by the keyboard alone.
// Invariant 159.
func TestConsoleMovesAndCopiesSelections(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	for _, name := range []string{"docs/a.txt", "docs/b.txt", "docs/notes.tar.gz", "docs/z/c.txt", "docs/z/deep/d.txt"} {
		store(s, "0x1", name, "text/plain", "content of "+name)
	}
	p := openConsole(t, s, "#/blobs/0x1/docs%2F")
	p.settled("z/", "a.txt", "b.txt", "notes.tar.gz")
	p.tabTo("row z/")
	p.keys(" ", kb.ArrowDown, " ")
	p.chord(kb.ArrowDown, kb.ModifierShift)
	p.untilText(".selection", "3 selected: 2 blobs (42 bytes), 1 folder")
	p.tabBackTo("button Move…")
	p.keys(kb.Enter)
	p.untilText("dialog", "Move 2 blobs and 1 folder")
	p.untilText("dialog", "docs/z/ 2 blobs (")
	p.keys("docs/")
	p.untilText("dialog", "This is where they are.")
	p.chord("a", kb.ModifierCtrl)
	p.keys("docs/z/in")
	p.untilText("dialog", "A folder cannot be put into itself.")
	p.chord("a", kb.ModifierCtrl)
	p.keys("archive/2026")
	p.untilText("dialog", "0x1/archive/2026/z/")
	p.untilText("dialog", "4 blobs (93 bytes) will be moved.")
	p.keys(kb.Enter)
	p.settled("notes.tar.gz")
	p.untilText("#toasts", "4 blobs were moved to 0x1/archive/2026/")
	s.ListsOnly("0x1", "archive/2026/a.txt", "archive/2026/b.txt", "archive/2026/z/c.txt", "archive/2026/z/deep/d.txt", "docs/notes.tar.gz")
	if got := p.focused(); !strings.HasPrefix(got, "row notes.tar.gz") {
		t.Errorf("after the move the focus is on %q", got)
	}

	// Escape cancels, and Enter renames. The part before the extension is selected.
	p.keys(kb.F2)
	p.until(`document.activeElement.matches(".rename")`)
	p.keys("other", kb.Escape)
	if got := p.focused(); !strings.HasPrefix(got, "row notes.tar.gz") {
		t.Errorf("after Escape the focus is on %q", got)
	}
	p.keys(kb.F2)
	p.until(`document.activeElement.matches(".rename")`)
	p.keys("a/b", kb.Enter)
	p.until(`document.querySelector(".rename:invalid")`)
	p.chord("a", kb.ModifierCtrl)
	p.keys("a.txt", kb.Enter)
	p.settled("a.txt")
	if got := p.focused(); !strings.HasPrefix(got, "row a.txt") {
		t.Errorf("after the renaming the focus is on %q", got)
	}

	// A copy skips existing names, unless they are to be replaced.
	copyHere := func(replace bool) {
		t.Helper()
		p.until(`document.activeElement.matches("[role=row]")`)
		p.chord("a", kb.ModifierCtrl)
		p.untilText(".selection", "1 selected: 1 blob")
		p.tabBackTo("button Copy…")
		p.keys(kb.Enter)
		p.untilText("dialog", "Copy this blob")
		p.keys("archive/2026/")
		if replace {
			p.tabTo("input ")
			p.keys(kb.ArrowDown)
		}
		p.untilText("dialog", "1 blob (28 bytes) will be copied.")
		p.keys(kb.Enter)
	}
	copyHere(false)
	p.untilText("dialog", "The blob was not copied")
	p.untilText("dialog", "skipped, because the destination has a blob of this name")
	p.keys(kb.Enter)
	p.settled("a.txt")
	s.Holds("/v1/blobs/0x1/archive/2026/a.txt", []byte("content of docs/a.txt"))
	copyHere(true)
	p.untilText("#toasts", "docs/a.txt was copied to 0x1/archive/2026/")
	s.Holds("/v1/blobs/0x1/archive/2026/a.txt", []byte("content of docs/notes.tar.gz"))

	// An existing blob is replaced only if the user confirms it, and a folder is renamed as a
	// whole.
	evaluate[bool](p, `(location.hash = "#/blobs/0x1/archive%2F2026%2F", true)`)
	p.settled("z/", "a.txt", "b.txt")
	p.tabTo("row z/")
	p.keys(kb.ArrowDown, kb.ArrowDown, kb.F2)
	p.until(`document.activeElement.matches(".rename")`)
	p.keys("a", kb.Enter)
	p.untilText("dialog", "Replace the blob of this name?")
	s.Holds("/v1/blobs/0x1/archive/2026/a.txt", []byte("content of docs/notes.tar.gz"))
	p.tabTo("button Replace")
	p.keys(kb.Enter)
	p.settled("z/", "a.txt")
	s.Holds("/v1/blobs/0x1/archive/2026/a.txt", []byte("content of docs/b.txt"))
	p.keys(kb.Home, kb.F2)
	p.until(`document.activeElement.matches(".rename")`)
	p.keys("y", kb.Enter)
	p.untilText("dialog", "2 blobs (51 bytes) will be moved to archive/2026/y/.")
	p.tabTo("button Rename")
	p.keys(kb.Enter)
	p.settled("y/", "a.txt")
	s.ListsOnly("0x1", "archive/2026/a.txt", "archive/2026/y/c.txt", "archive/2026/y/deep/d.txt", "docs/a.txt")

	// The view of a blob does the same.
	p.Open("#/blob/0x1/docs%2Fa.txt")
	p.press("Rename")
	p.keys("b", kb.Enter)
	p.untilText("h1", "b.txt")
	p.press("Move…")
	p.untilText("dialog", "Move this blob")
	p.keys(kb.Backspace)
	p.tabBackTo("input ")
	p.keys("team")
	p.untilText("dialog", "team/b.txt")
	p.keys(kb.Enter)
	p.until(`location.hash === "#/blob/team/b.txt"`)
	s.ListsOnly("team", "b.txt")
}

// TestConsoleDeletesSelections deletes a folder with the count that it showed, but no blob that was
// replaced since. A deletion that a lost connection interrupts is done once, and a failed one can
// be tried again.
// Invariant 159.
func TestConsoleDeletesSelections(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	for i := range 12 {
		store(s, "0x1", fmt.Sprintf("f/%02d", i), "text/plain", "0123456789")
	}
	store(s, "0x1", "f/more/x", "text/plain", "x")
	for _, name := range []string{"a", "b", "c"} {
		store(s, "0x1", name, "text/plain", name)
	}
	p := openConsole(t, s, "#/blobs/0x1/")
	p.settled("f/", "a", "b", "c")
	p.tabTo("row f/")
	p.keys(kb.Delete)
	p.untilText("dialog", "Delete this folder?")
	p.untilText("dialog", "13 blobs (121 bytes) of account 0x1 will be deleted.")
	p.keys(kb.Escape)
	p.settled("f/", "a", "b", "c")

	// The answers of some requests are lost, and a move repeats them.
	faults(s, "POST blob first 3: drop-reply")
	p.keys(kb.F2)
	p.until(`document.activeElement.matches(".rename")`)
	p.keys("g", kb.Enter)
	p.untilText("dialog", "13 blobs (121 bytes) will be moved to g/.")
	p.press("Rename")
	p.settled("g/", "a", "b", "c")
	p.untilText("#toasts", "13 blobs were renamed to g/")

	// A copy that must not replace anything finds its own result.
	faults(s, "POST blob first 1: drop-reply")
	p.keys(kb.ArrowDown, " ")
	p.press("Copy…")
	p.tabBackTo("input ")
	p.keys("other")
	p.untilText("dialog", "1 blob (1 byte) will be copied.")
	p.keys(kb.Enter)
	p.untilText("#toasts", "a was copied to other/")
	s.ListsOnly("other", "a")

	// Blobs are left after a cancellation, which can be tried again.
	p.until(`document.activeElement.matches("[role=row]")`)
	p.keys(kb.Home)
	faults(s, "DELETE blob 100%: delay 1500ms")
	p.keys(kb.Delete)
	p.untilText("dialog", "13 blobs (121 bytes)")
	p.deleteNow()
	p.untilText("dialog", "0 of 13 blobs")
	p.press("Cancel")
	p.untilText("dialog", "blobs were left as they are.")
	left := len(s.Names("0x1")) - 3
	if got := p.Text("dialog"); !strings.Contains(got, fmt.Sprintf("%d of 13 blobs were not deleted", left)) || !strings.Contains(got, fmt.Sprintf("%d blobs were deleted.", 13-left)) {
		t.Errorf("%d blobs are left, and the page shows %s", left, got)
	}
	faults(s, "DELETE blob first 2: drop-reply")
	p.press("Try again")
	p.settled("a", "b", "c")
	p.untilText("#toasts", "13 blobs were deleted")
	p.until(`document.activeElement.matches("[role=row]")`)

	// Replaced since it was listed.
	store(s, "0x1", "b", "text/plain", "newer")
	p.chord("a", kb.ModifierCtrl)
	p.keys(kb.Delete)
	p.untilText("dialog", "Delete 3 blobs?")
	p.deleteNow()
	p.untilText("dialog", "1 of 3 blobs was not deleted")
	p.untilText("dialog", "It was replaced since it was listed")
	p.untilText("dialog", "2 blobs were deleted.")
	p.press("Close")
	p.settled("b")
	p.until(`document.activeElement.matches("[role=row]")`)
	s.ListsOnly("0x1", "b")

	// Refused for a while.
	faults(s, "DELETE blob 100%: status 403")
	p.keys(kb.Delete)
	p.untilText("dialog", "Delete this blob?")
	p.deleteNow()
	p.untilText("dialog", "fault_injected")
	faults(s)
	p.press("Try again")
	p.untilText("#toasts", "b was deleted")
	p.untilText("main", "Nothing is stored here")
	s.ListsOnly("0x1")
}

// TestConsoleSortsFolders sorts 1,500 names, and shows folders first even if their names are on a
// later page, without moving visible rows.
func TestConsoleSortsFolders(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "name-000000", "text/plain", "")
	s.Stop()
	addNames(s, 1496)
	s.Launch()
	store(s, "0x1", "name-000700", "text/plain", strings.Repeat("x", 5000))
	store(s, "0x1", "name-001200", "application/json", strings.Repeat("x", 300))
	store(s, "0x1", "folder/x", "text/plain", "")
	store(s, "0x1", "zebra/x", "text/plain", "")
	p := openConsole(t, s, "#/blobs/0x1/")
	p.untilText(".sub", "1,000 or more entries")
	p.tabTo("row folder/")
	first := func(want ...string) {
		t.Helper()
		p.until(fmt.Sprintf(`%s === %s`, fmt.Sprintf(firstRows, len(want)), e2e.AsJSON(t, strings.Join(want, " "))))
	}
	before := evaluate[string](p, `(() => {
		const grid = document.querySelector("[role=grid]");
		grid.scrollTop = 44 * 700;
		window.__top = (name) => { const row = [...document.querySelectorAll(".grid-body .grid-row")].find((r) => r.innerText.includes(name)); return Math.round(row.getBoundingClientRect().top); };
		return new Promise((resolve) => requestAnimationFrame(() => resolve(String(__top("name-000702")))));
	})()`)
	p.untilText(".sub", "1,499")
	if after := evaluate[string](p, `String(__top("name-000702"))`); after != before {
		t.Errorf("the row moved from %s to %s when a folder was loaded", before, after)
	}
	p.keys(kb.Home)
	first("folder/", "zebra/", "name-000000", "name-000001")

	// A selection outlasts a new list, and a range extends from the row chosen last.
	evaluate[bool](p, `(() => {
		const row = (i) => document.querySelectorAll(".grid-body .grid-row")[i];
		const click = (element, keys) => element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ...keys }));
		click(row(1).querySelector(".pick input"));
		click(row(3).querySelector("a"), { shiftKey: true });
		click(row(2), { ctrlKey: true });
		dispatchEvent(new Event("sluice-stored"));
		return true;
	})()`)
	p.untilText(".selection", "2 selected: 1 blob (0 bytes), 1 folder")
	p.until(`[...document.querySelectorAll("[role=row][aria-selected=true]")].map((row) => row.querySelector(".wide").innerText.trim()).join() === "zebra/,name-000001"`)
	if !evaluate[bool](p, `document.querySelector("[aria-label='Select all']").indeterminate`) {
		t.Error("the checkbox of the head does not show that some are selected")
	}

	// Who does not want to wait for all names leaves the list as it was.
	evaluate[bool](p, `(() => {
		const { fetch } = window;
		window.fetch = (...args) => new Promise((resolve) => (window.__answer = () => resolve(fetch(...args))));
		location.hash = "#/blobs/0x1/name-0";
		return true;
	})()`)
	p.until("window.__answer")
	evaluate[bool](p, `(__answer(), window.__answer = undefined, true)`)
	p.untilText(".sub", "1,000 or more entries")
	p.press("Size")
	p.untilText(".line", "Loading all names to sort them: 1,000 so far.")
	p.press("Do not sort")
	p.until(`!document.querySelector(".line").innerText.includes("to sort") && document.querySelector("[role=columnheader].wide").getAttribute("aria-sort") === "ascending"`)
	p.Open("#/blobs/0x1/")
	p.untilText(".sub", "1,000 or more entries")

	p.press("Size")
	first("folder/", "zebra/", "name-000000")
	p.press("Size")
	first("folder/", "zebra/", "name-000700", "name-001200")
	p.press("Type")
	first("folder/", "zebra/", "name-001200", "name-000000")
	p.press("Name")
	p.press("Name")
	first("zebra/", "folder/", "name-001496")

	// Another folder has the same order, and the whole list is loaded for it at the start.
	evaluate[bool](p, `(location.hash = "#/blobs/0x1/zebra%2F", true)`)
	p.settled("x")
	evaluate[bool](p, `(location.hash = "#/blobs/0x1/", true)`)
	first("zebra/", "folder/", "name-001496")
	if got := evaluate[string](p, `document.querySelector("[role=columnheader].wide").getAttribute("aria-sort")`); got != "descending" {
		t.Errorf("the column is sorted %q", got)
	}
	p.press("Changed")
	p.press("Changed")
	p.until(`document.querySelector("[role=columnheader].date").getAttribute("aria-sort") === "descending"`)
	first("folder/", "zebra/", "name-001200")
}
