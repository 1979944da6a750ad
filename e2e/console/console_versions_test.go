package console

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// deleteNow confirms a deletion, and does not wait until it cannot be undone any more.
func (p *consolePage) deleteNow() {
	p.t.Helper()
	p.press("Delete")
	p.press("Delete now")
}

// keepVersions makes an account keep versions.
func keepVersions(admin *e2e.Server, account string) {
	admin.T.Helper()
	etag := admin.Must(200, "GET", "/v1/admin/versions/"+account, nil).Header.Get("ETag")
	admin.Must(200, "PUT", "/v1/admin/versions/"+account, []byte(`{"keep":"on"}`), "If-Match", etag)
}

// versionsOf returns an account's versions.
func versionsOf(s *e2e.Server, account string) []wire.Version {
	s.T.Helper()
	var page wire.VersionPage
	s.Must(200, "GET", "/v1/versions/"+account, nil).Decode(s.T, &page)
	return page.Versions
}

// TestConsoleUndoesDeletions deletes blobs of an account that keeps no versions. The deletion is
// not sent for ten seconds, in which it can be undone, but when the folder or the page is left.
// Invariant 211.
func TestConsoleUndoesDeletions(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	names := []string{"a", "b", "c", "f/1", "f/2"}
	for _, name := range names {
		store(s, "0x1", name, "text/plain", name)
	}
	p := openConsole(t, s, "#/blobs/0x1/")
	p.settled("f/", "a", "b", "c")
	p.tabTo("row f/")
	p.keys(kb.Delete)
	p.untilText("dialog", "You can undo it for ten seconds.")
	p.press("Delete")
	p.settled("a", "b", "c")
	p.untilText("#toasts", "2 blobs will be deleted for good in ten seconds")
	s.ListsOnly("0x1", names...)
	p.press("Undo")
	p.settled("f/", "a", "b", "c")
	p.untilText("#toasts", "2 blobs were left as they were")

	// By the keyboard.
	p.tabTo("row ")
	p.keys(kb.Home, kb.ArrowDown, kb.Delete)
	p.untilText("dialog", "Delete this blob?")
	p.press("Delete")
	p.settled("f/", "b", "c")
	p.chord("z", kb.ModifierCtrl)
	p.settled("f/", "a", "b", "c")
	s.ListsOnly("0x1", names...)

	// In a blob's view, which then shows its folder: another folder sends the deletion.
	p.to("#/blob/0x1/a", ".stage", "a")
	p.press("Delete")
	p.untilText("dialog", "Delete this blob?")
	p.press("Delete")
	p.settled("f/", "b", "c")
	s.ListsOnly("0x1", names...)
	p.screenshots("undo") // which may take longer than ten seconds
	p.to("#/blobs/0x1/f%2F", "[role=grid]", "1")
	s.Eventually("leaving the folder does not send the deletion", func() bool { return slices.Equal(s.Names("0x1"), names[1:]) })

	// Ten seconds.
	p.tabTo("row 1")
	p.keys(kb.Delete)
	p.untilText("dialog", "Delete this blob?")
	p.press("Delete")
	p.settled("2")
	s.ListsOnly("0x1", names[1:]...)
	p.until(`!document.querySelector("#toasts .offer")`)
	s.Eventually("the deletion is not sent", func() bool { return slices.Equal(s.Names("0x1"), []string{"b", "c", "f/2"}) })

	// Leaving the page. What was replaced meanwhile stays.
	p.to("#/blobs/0x1/", "[role=grid]", "b")
	p.tabTo("row ")
	p.keys(kb.Home, kb.ArrowDown, " ", kb.ArrowDown, " ", kb.Delete)
	p.untilText("dialog", "Delete 2 blobs?")
	p.press("Delete")
	p.settled("f/")
	store(s, "0x1", "c", "text/plain", "newer")
	p.checkProblems()
	p.Do(chromedp.Navigate("about:blank"))
	s.Eventually("leaving the page does not send the deletion", func() bool { return slices.Equal(s.Names("0x1"), []string{"c", "f/2"}) })
}

// secondAfter waits until a whole second has passed since a version was stored, and returns it.
func secondAfter(s *e2e.Server, v wire.Version) time.Time {
	s.T.Helper()
	second := v.LastModified.Truncate(time.Second).Add(time.Second)
	s.Eventually("the clock stands still", func() bool {
		return testenv.Must(http.ParseTime(s.Must(200, "GET", "/v1/info", nil).Header.Get("Date")))(s.T).After(second)
	})
	return second
}

// fillTime fills a field for a local time.
func (p *consolePage) fillTime(field string, at time.Time) {
	p.t.Helper()
	p.fill(field, evaluate[string](p, fmt.Sprintf(`(() => { const d = new Date(%d); return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19); })()`, at.UnixMilli())))
}

// TestConsoleRestoresBesideRules restores a folder in which somebody has deleted a blob, and a rule
// has removed a second. Without a time the second stays removed. At a stated time both come back,
// and the question has the number that a rule has removed.
// Invariant 214.
func TestConsoleRestoresBesideRules(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "#/blobs/team/docs%2F")
	keepVersions(s, "team")
	for _, name := range []string{"docs/a", "docs/log"} {
		store(s, "team", name, "text/plain", name)
	}
	noon := secondAfter(s, versionsOf(s, "team")[1])
	s.Must(204, "DELETE", e2e.BlobTarget("team", "docs/a"), nil)
	s.Must(200, "PUT", "/v1/admin/rules/team", []byte(`{"rules":[{"id":"logs","prefix":"docs/log","expireOn":"2026-01-01T00:00:00Z"}]}`), "If-Match", "*")
	s.Eventually("the rule is not applied", func() bool { return len(s.Names("team")) == 0 })

	p.to("#/deleted/team/docs%2F", "[role=grid]", "log")
	p.press("Restore all…")
	p.untilText("dialog", "not what has expired or a rule has removed")
	p.untilText("dialog", "1 blob (6 bytes) of account team will be restored.")
	p.fillTime("#restore-at", noon)
	p.untilText("dialog", "2 blobs (14 bytes) of account team will be restored. A rule has removed 1 of them, and may remove them again.")
	p.fill("#restore-at", "")
	p.untilText("dialog", "1 blob (6 bytes) of account team will be restored.")
	p.press("Restore")
	p.untilText("#toasts", "docs/a was restored")
	s.ListsOnly("team", "docs/a")

	p.press("Restore all…")
	p.untilText("dialog", "Nothing in it is to be restored.")
	p.fillTime("#restore-at", noon)
	p.untilText("dialog", "1 blob (8 bytes) of account team will be restored. A rule has removed 1 of them, and may remove them again.")
	p.press("Restore")
	p.untilText("#toasts", "docs/log was restored")
	s.Holds(e2e.BlobTarget("team", "docs/log"), []byte("docs/log"))
}

// TestConsoleRestores makes an account keep versions, and restores what another key has deleted: by
// Undo, from the folder's deleted blobs, as of a time, and from a blob's history. Each shows the
// key that has deleted it.
// Invariants 210, 211.
func TestConsoleRestores(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	p.to("#/admin/versions", "main", "No account keeps versions")
	p.screenshots("versions-none")
	p.press("Set an account")
	p.fill("#versions-account", "team")
	p.press("Go on")
	p.until(`document.querySelector("dialog #versions-keep")`)
	p.fill("#versions-keep", "on")
	p.fill("#versions-for", "30d")
	p.fill("#versions-most", "9")
	p.untilText("dialog", "Versions beyond the limits, older ones too, are deleted for good")
	p.screenshots("versions-set")
	p.press("Save")
	p.untilText("[role=grid]", "30d")
	p.screenshots("versions-list")

	admin, writer := s.As(p.admin), s.NewKey("--scopes", "read,write", "--accounts", "team")
	for _, name := range []string{"docs/a", "docs/z/b"} {
		s.As(writer).Must(204, "PUT", e2e.BlobTarget("team", name), []byte("first "+name), "Content-Type", "text/plain")
	}
	noon := secondAfter(admin, versionsOf(admin, "team")[1])
	s.As(writer).Must(204, "PUT", e2e.BlobTarget("team", "docs/a"), []byte("second"), "Content-Type", "text/plain")
	for _, name := range []string{"docs/a", "docs/z/b"} {
		s.As(writer).Must(204, "DELETE", e2e.BlobTarget("team", name), nil)
	}

	// In the folder.
	p.to("#/blobs/team/docs%2F", "main", "Nothing is stored here")
	p.press("Was it deleted?")
	p.untilText("[role=grid]", idOf(writer))
	p.settled("z/", "a")
	p.screenshots("deleted")
	p.tabTo("row z/")
	p.keys(" ")
	p.tabBackTo("button Restore…")
	p.keys(kb.Enter)
	p.untilText("dialog", "1 blob (14 bytes) of account team will be restored.")
	p.screenshots("restore")
	p.press("Restore")
	p.untilText("#toasts", "docs/z/b was restored")
	admin.Holds(e2e.BlobTarget("team", "docs/z/b"), []byte("first docs/z/b"))

	// As of a time, before the content was replaced and deleted.
	p.untilText("[role=grid]", idOf(writer))
	p.press("Restore all…")
	p.untilText("dialog", "1 blob (6 bytes) of account team will be restored.")
	p.fillTime("#restore-at", noon)
	p.untilText("dialog", "1 blob (12 bytes) of account team will be restored.")
	p.press("Restore")
	p.settled("z/")
	admin.Holds(e2e.BlobTarget("team", "docs/a"), []byte("first docs/a"))
	p.to("#/deleted/team/docs%2Fz%2F", "main", "Nothing that was deleted here is kept")
	p.screenshots("deleted-none")

	// Undo.
	p.to("#/blobs/team/docs%2F", "[role=grid]", "z/")
	p.settled("z/", "a")
	p.tabTo("row z/")
	p.chord("a", kb.ModifierCtrl)
	p.keys(kb.Delete)
	p.untilText("dialog", "2 blobs (26 bytes)")
	p.press("Delete")
	p.untilText("#toasts", "2 blobs were deleted, and can be restored.")
	admin.ListsOnly("team")
	p.untilText("main", "Nothing is stored here")
	p.press("Undo")
	p.settled("z/", "a")
	admin.Holds(e2e.BlobTarget("team", "docs/a"), []byte("first docs/a"))

	kept := slices.DeleteFunc(versionsOf(admin, "team"), func(v wire.Version) bool { return v.Current })
	p.to("#/", "[role=grid]", fmt.Sprintf("%d, ", len(kept)))

	// The history.
	const states = `[...document.querySelectorAll(".history [data-state]")].map((e) => e.dataset.state).join(" ")`
	p.to("#/blob/team/docs%2Fa", ".history", "by "+idOf(writer))
	p.until(states + ` === "current deleted kept deleted kept kept"`)
	p.until(`document.querySelector(".history a[href$='admin/keys/` + idOf(writer) + `']")`)
	p.screenshots("history", ".history")
	// The first is the one that Undo restored.
	evaluate[bool](p.consolePage, `(document.querySelectorAll(".history [aria-label^=Restore]")[1].click(), true)`)
	p.until(states + ` === "current kept deleted kept deleted kept kept"`)
	admin.Holds(e2e.BlobTarget("team", "docs/a"), []byte("second"))
	p.press("Delete")
	p.untilText("dialog", "Delete this blob?")
	p.press("Delete")
	p.settled("z/")
	p.to("#/blob/team/docs%2Fa", "main", "There is no blob of this name.")
	p.press("Delete the mark")
	p.untilText("dialog", "The blob will be as it was before it was deleted.")
	p.press("Delete")
	p.untilText(".stage", "second")
	s.As(writer).Holds(e2e.BlobTarget("team", "docs/a"), []byte("second"))

	// Without the right, and without the server.
	s.As(writer).Must(204, "DELETE", e2e.BlobTarget("team", "docs/a"), nil)
	p.Open("#/deleted/team/docs%2F")
	p.enterKey(s.NewKey("--scopes", "read", "--accounts", "team"))
	p.untilText("[role=grid]", idOf(writer))
	if got := p.Text("main"); got == "" || evaluate[bool](p.consolePage, `[...document.querySelectorAll("button")].some((b) => b.innerText === "Which are kept")`) {
		t.Errorf("a reader may change the setting: %s", got)
	}
	p.press("Restore all…")
	p.untilText("dialog", "will be restored.")
	p.press("Restore")
	p.untilText("dialog", "scope_missing")
	p.press("Close")

	// More than the page has memory for.
	evaluate[bool](p.consolePage, `(window.fetch = async () => {
		const at = { lastModified: "2026-01-01T00:00:00Z", size: 1, since: "2026-01-02T00:00:00Z" };
		const pair = (n) => [{ ...at, name: "docs/" + n, version: "2", deleted: true }, { ...at, name: "docs/" + n, version: "1" }];
		window.__page = (window.__page ?? 0) + 1;
		return new Response(JSON.stringify({ versions: Array.from({ length: 1000 }, (_, i) => pair(__page * 1000 + i)).flat(), next: "docs/" + __page }));
	}, true)`)
	p.press("Restore all…")
	p.untilText("dialog", "There are more than 100,000 blobs, which is the most for the console.")
	p.press("Cancel")
	evaluate[bool](p.consolePage, `(window.fetch = async () => { throw new TypeError("no network"); }, true)`)
	p.to("#/deleted/team/", "main", "The server cannot be reached.")
}

// TestConsoleBringsBackAFolder restores, by one button and a confirmation, a folder that another
// key has deleted: as it was before the last deletions, which leaves a blob that was deleted long
// before.
// Invariant 210.
func TestConsoleBringsBackAFolder(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	admin := s.As(p.admin)
	keepVersions(admin, "team")
	writer := s.As(s.NewKey("--scopes", "read,write", "--accounts", "team"))
	names := []string{"docs/a", "docs/long ago", "docs/z/b"}
	for _, content := range []string{"first ", "second "} {
		for _, name := range names {
			writer.Must(204, "PUT", e2e.BlobTarget("team", name), []byte(content+name), "Content-Type", "text/plain")
		}
	}
	evaluate[bool](p.consolePage, `(() => {
		const real = window.fetch;
		window.fetch = async (...request) => {
			const response = await real(...request);
			if (!response.url.includes("/v1/versions/")) return response;
			const page = await response.json();
			for (const v of page.versions ?? []) if (v.name === "docs/long ago") v.lastModified = v.deleted ? "2026-01-01T00:00:00Z" : "2025-01-01T00:00:00Z", v.since &&= "2026-01-01T00:00:00Z";
			return new Response(JSON.stringify(page), response);
		};
		return true;
	})()`)
	// They come later than the writes by the milliseconds that the page's times have.
	for _, name := range names {
		writer.Must(204, "DELETE", e2e.BlobTarget("team", name), nil)
	}
	p.to("#/blobs/team/docs%2F", "main", "Nothing is stored here")
	p.screenshots("bring-back-folder")
	p.tabTo("button Restore…")
	p.keys(kb.Enter)
	p.untilText("dialog", "2 blobs (28 bytes) of account team will be restored.")
	p.until(`document.querySelector("#restore-at").value !== ""`)
	p.screenshots("bring-back")
	p.tabTo("button Restore")
	p.keys(kb.Enter)
	p.untilText("#toasts", "2 blobs were restored")
	p.settled("z/", "a")
	admin.ListsOnly("team", names[0], names[2])
	admin.Holds(e2e.BlobTarget("team", "docs/a"), []byte("second docs/a"))

	// The blob that was deleted long before is proposed when no other one is deleted.
	p.press("Restore…")
	p.untilText("dialog", "1 blob (20 bytes) of account team will be restored.")
	p.press("Restore")
	p.settled("z/", "a", "long ago")
	p.press("Restore…")
	p.untilText("dialog", "Nothing in it is to be restored.")
	p.until(`document.querySelector("#restore-at").value === ""`)
	p.press("Cancel")
}

// TestConsoleUndoesInFirefox leaves the page of an account that keeps no versions after a deletion,
// and restores a blob of another one. It checks their pages with axe-core at three widths.
// Invariant 211.
func TestConsoleUndoesInFirefox(t *testing.T) {
	testenv.Require(t, testenv.Firefox)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	keepVersions(s, "team")
	for _, account := range []string{"0x1", "team"} {
		store(s, account, "a", "text/plain", "content")
	}
	f := startFox(t)
	f.Open(s.URL + "/console/#/blob/0x1/a")
	f.press("Delete")
	f.has("dialog", "Delete this blob?")
	f.press("Delete")
	f.has("#toasts", "a will be deleted for good in ten seconds")
	f.checked("Undo")
	s.ListsOnly("0x1", "a")
	f.Open("about:blank")
	s.Eventually("leaving the page does not send the deletion", func() bool { return len(s.Names("0x1")) == 0 })

	f.Open(s.URL + "/console/#/blob/team/a")
	f.press("Delete")
	f.has("dialog", "Delete this blob?")
	f.press("Delete")
	f.has("#toasts", "a was deleted, and can be restored.")
	s.ListsOnly("team")
	f.press("Deleted")
	f.has("[role=grid]", "7 bytes")
	f.checked("Deleted")
	f.press("Restore all…")
	f.has("dialog", "1 blob (7 bytes) of account team will be restored.")
	f.checked("Restore")
	f.press("Restore")
	f.has("main", "Nothing that was deleted here is kept")
	s.ListsOnly("team", "a")
	f.Run(`location.hash = "#/blob/team/a"`, nil)
	f.has(".history", "deleted")
	f.checked("History")
	etag := s.Must(200, "GET", "/v1/admin/versions/team", nil).Header.Get("ETag")
	s.Must(200, "PUT", "/v1/admin/versions/team", []byte(`{"keep":"on","locks":{}}`), "If-Match", etag)
	const lock = `[...document.querySelectorAll(".history button")].find((b) => b.ariaLabel.startsWith("Lock "))`
	f.Run(lock+".click()", nil)
	f.has("dialog", "Legal hold")
	f.checked("Lock")
	f.Run(`document.querySelector("dialog").close(); location.hash = "#/admin/rules/team"`, nil)
	f.has("main", "The account has no rules")
	f.press("Add a rule")
	f.has("dialog", "Name of the rule")
	f.checked("Rule")
}
