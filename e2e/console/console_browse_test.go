package console

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"sluice/e2e"

	"github.com/chromedp/chromedp/kb"
)

// TestConsoleBrowse goes from the server's root to a blob and back, by the keyboard alone, and
// deletes the blob.
func TestConsoleBrowse(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "")
	p.untilText("main", "Nothing is stored yet")
	store(s, "0x1", "docs/a.txt", "text/plain", "first\nsecond")
	store(s, "0x1", "docs/more/b.txt", "text/plain", "b")
	store(s, "0x1", "z.txt", "text/plain", "z", "Blob-Meta-Color", "deep blue", "Cache-Control", "max-age=60")
	store(s, "zebra", "only.txt", "text/plain", "")
	p.Open("")
	p.untilText("[role=grid]", "zebra")
	p.press("Size")
	p.settled("zebra", "0x1")
	p.press("Account")
	p.settled("0x1", "zebra")
	p.tabTo("row 0x1")
	p.keys(kb.ArrowDown, kb.ArrowUp, kb.Enter)
	p.untilText("h1", "0x1")
	p.untilText("[role=grid]", "z.txt")
	p.tabTo("row docs/")
	p.keys(kb.Enter)
	p.untilText("[role=grid]", "more/")
	p.tabTo("row more/")
	p.keys(kb.ArrowDown, kb.Enter)
	p.untilText("h1", "a.txt")
	p.untilText(".stage", "first\nsecond")
	p.untilText(".properties", "text/plain")

	p.tabTo("button Delete")
	p.keys(kb.Enter)
	p.untilText("dialog", "docs/a.txt")
	p.keys(kb.Escape)
	p.until("!document.querySelector('dialog')")
	s.Must(200, "GET", "/v1/blobs/0x1/docs/a.txt", nil)
	if got := p.focused(); got != "button Delete" {
		t.Errorf("after the dialog the focus is on %q", got)
	}
	p.keys(kb.Enter)
	p.until("document.querySelector('dialog[open]')")
	p.tabTo("button Delete")
	p.keys(kb.Enter)
	p.until("!document.querySelector('dialog')")
	p.untilText("[role=grid]", "more/")
	p.press("Delete now")
	p.untilText("#toasts", "docs/a.txt was deleted")
	s.Must(404, "GET", "/v1/blobs/0x1/docs/a.txt", nil)

	p.Open("#/blob/0x1/z.txt")
	p.untilText(".properties", "deep blue")
	p.untilText(".properties", "max-age=60")
	p.Open("#/blob/0x1/absent.txt")
	p.untilText("[role=alert]", "There is no blob of this name.")
	p.untilText("[role=alert]", "request ")
}

// TestConsoleDeletesWhatItShows checks that the console does not delete a blob that was replaced
// since the page showed it.
// Invariant 159.
func TestConsoleDeletesWhatItShows(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "a.txt", "text/plain", "old")
	p := openConsole(t, s, "#/blob/0x1/a.txt")
	p.untilText(".stage", "old")
	store(s, "0x1", "a.txt", "text/plain", "newer")
	p.press("Delete")
	p.untilText("dialog", "Delete this blob?")
	p.deleteNow()
	p.untilText("dialog", "precondition_failed")
	s.Must(200, "GET", "/v1/blobs/0x1/a.txt", nil)
}

// TestConsoleRefusesUnreachableNames checks names that have an address which browsers change. The
// console neither deletes nor stores another blob in their place, even if both have the same
// content.
// Invariant 159.
func TestConsoleRefusesUnreachableNames(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "y.txt", "text/plain", "same")
	store(s, "0x1", "x/../y.txt", "text/plain", "same")
	p := openConsole(t, s, "#/blobs/0x1/x%2F..%2F")
	p.untilText("[role=grid]", "y.txt")
	p.tabTo("row y.txt")
	p.keys(kb.Delete)
	p.untilText("dialog", "Delete this blob?")
	p.deleteNow()
	p.untilText("dialog", "Browsers change the address of a name")
	p.press("Close")
	s.Must(200, "GET", "/v1/blobs/0x1/y.txt", nil)
	p.dropAndUpload(file(t, "a.txt", []byte("a")))
	p.untilText("#tray li[data-state=failed]", "Browsers change the address of a name")
	s.Must(404, "GET", "/v1/blobs/0x1/a.txt", nil)
}

// TestConsoleSaysWhatIsWrongWithNames opens addresses of blobs that cannot exist.
func TestConsoleSaysWhatIsWrongWithNames(t *testing.T) {
	t.Parallel()
	_, p := openLocal(t, "#/blob/0x1/"+strings.Repeat("a", 1025))
	p.untilText("main", "The blob name is longer than 1024 characters.")
	if shown := p.Text("main"); strings.Contains(shown, "Try again") {
		t.Errorf("a lasting error can be tried again: %s", shown)
	}
	p.Open("#/blob/no%20account/name")
	p.untilText("main", "The account must be an address")
}

// TestConsoleKeepsThePlaceInLists checks that a list which changes keeps its filter, its position
// and the focus, and that a late response to an earlier filter changes nothing.
func TestConsoleKeepsThePlaceInLists(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	for i := range 60 {
		store(s, "0x1", fmt.Sprintf("name-%02d", i), "text/plain", "")
	}
	p := openConsole(t, s, "#/blobs/0x1/")
	p.untilText(".sub", "60 entries")
	p.tabTo("row name-00")
	p.keys(kb.PageDown, kb.PageDown, kb.PageDown)
	before := evaluate[int](p, `parseInt(document.activeElement.getAttribute("aria-rowindex")) - 2`)
	p.keys(kb.Delete)
	p.untilText("dialog", fmt.Sprintf("name-%02d", before))
	p.press("Delete")
	p.untilText(".sub", "59 entries")
	if got, want := p.focused(), fmt.Sprintf("row name-%02d", before+1); !strings.HasPrefix(got, want) {
		t.Errorf("after the deletion the focus is on %q, want %q", got, want)
	}
	if top := evaluate[int](p, `document.querySelector("[role=grid]").scrollTop`); top == 0 {
		t.Error("after the deletion the list is at its start")
	}

	evaluate[bool](p, `(() => {
		const { fetch } = window;
		window.fetch = async (...args) => {
			const response = await fetch(...args);
			if (!args[0].includes("prefix=name-0&")) return response;
			const body = await response.json();
			return { ok: true, json: () => new Promise((resolve) => (window.__respond = () => resolve(body))) };
		};
		window.__type = (text) => {
			const field = document.querySelector("input[type=search]");
			field.focus();
			document.querySelector(".way").value = "begin";
			document.querySelector(".way").dispatchEvent(new Event("change"));
			field.value = text;
			field.dispatchEvent(new Event("input"));
		};
		__type("name-0");
		return true;
	})()`)
	p.until("window.__respond")
	evaluate[bool](p, `(__type("name-00"), true)`)
	p.untilText(".sub", "1 entry")
	if got := evaluate[string](p, `(__respond(), new Promise((r) => requestAnimationFrame(() => r(document.querySelector(".sub").innerText))))`); got != "1 entry" {
		t.Errorf("after the late response the list has %q, want 1 entry", got)
	}

	p.dropAndUpload(file(t, "name-00-new", []byte("new")))
	p.untilText(".sub", "2 entries")
	if got := evaluate[string](p, `document.querySelector("input[type=search]").value`); got != "name-00" {
		t.Errorf("after an upload the filter is %q", got)
	}
	if got := p.focused(); got != "input Show names that begin with" {
		t.Errorf("after an upload the focus is on %q", got)
	}
}

// TestConsoleShowsNamesSafely checks that the console shows names as text, with invisible
// characters spelled out, and that it can open every name.
// Invariant 159.
func TestConsoleShowsNamesSafely(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	names := []string{
		"<img src=x onerror=__problems.push('run')>.txt",
		"javascript:__problems.push('run')",
		"cod\u202etxt.exe",
		"zero\u200bwidth",
		"c1\u0085 and nbsp\u00a0",
		"  spaces  ",
		"100%25#?&+.txt",
		"日本語 é \U0001F600",
		"a//b",
	}
	for _, name := range names {
		s.Must(204, "PUT", "/v1/blobs/0x1/"+e2e.Escape(name), []byte("content of "+name), "Content-Type", "text/plain")
	}
	p := openConsole(t, s, "#/blobs/0x1/")
	p.untilText(".sub", "9 entries")
	shown := evaluate[string](p, `document.querySelector("[role=grid]").textContent`)
	for _, want := range []string{names[0], names[1], "codU+202Etxt.exe", "zeroU+200Bwidth", "c1U+0085 and nbspU+00A0", "日本語 é \U0001F600"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the list lacks %q: %s", want, shown)
		}
	}
	if n := evaluate[int](p, "document.querySelectorAll('main img, main script').length"); n != 0 {
		t.Errorf("a name became %d elements", n)
	}
	for _, name := range names {
		p.Open("#/blob/0x1/" + url.PathEscape(name))
		p.untilText(".stage", "content of ")
		if got := evaluate[string](p, "document.querySelector('.stage pre').textContent"); got != "content of "+name {
			t.Errorf("the page shows %q, want the content of %q", got, name)
		}
	}
	if got := evaluate[int](p, "__problems.length"); got != 0 {
		t.Errorf("%d problems", got)
	}
}

// TestConsoleScrollsOver100000Names moves to a long list's end by the keyboard. The document
// contains only visible rows.
func TestConsoleScrollsOver100000Names(t *testing.T) {
	t.Parallel()
	p := openNames(t, 100_000)
	p.tabTo("row name-000000")
	p.keys(kb.End)
	p.until(`document.activeElement.innerText.includes("name-099999")`)
	p.untilText("[role=status]", "100,000 entries")
	if rows := evaluate[int](p, "document.querySelectorAll('[role=row]').length"); rows > 80 {
		t.Errorf("there are %d rows in the document", rows)
	}
	p.keys(kb.PageUp, kb.ArrowDown)
	if got := p.focused(); !strings.Contains(got, "row name-0999") {
		t.Errorf("the focus is on %q", got)
	}
	p.keys(kb.Home)
	if got := p.focused(); !strings.Contains(got, "name-000000") {
		t.Errorf("the focus is on %q, want the first name", got)
	}
	evaluate[bool](p, `(() => { document.querySelector(".way").value = "begin"; const i = document.querySelector("input[type=search]"); i.value = "name-0555"; i.dispatchEvent(new Event("input")); return true; })()`)
	p.untilText("[role=status]", "100 entries")
}

// addNames copies blob name-000000's row in account 0x1, in a stopped server's database: storing as
// many blobs would take minutes.
func addNames(s *e2e.Server, count int) {
	s.T.Helper()
	e2e.Execute(s.T, s.Data, fmt.Sprintf(`WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
		SELECT account, CAST(printf('name-%%06d', i) AS BLOB), name_hash, name_tail, randomblob(16), size, crc64, part_size, content_type, modified
		FROM blobs, n WHERE name_head = CAST('name-000000' AS BLOB)`, count))
}
