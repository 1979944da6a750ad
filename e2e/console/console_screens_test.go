package console

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
)

// screen is a console view: its address, and a text that an element has when it is drawn.
type screen struct{ name, address, selector, text string }

// TestConsoleScreens takes the views' pictures at three widths, and at one in the dark theme, and
// checks each with axe-core. Nothing may be wider than the screen.
func TestConsoleScreens(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "")
	p.untilText("main", "Nothing is stored yet")
	p.screenshots("nothing")
	channel := fillForScreens(s)
	views := []screen{
		{"accounts", "#/", "[role=grid]", "0x1"},
		{"folder", "#/blobs/0x1/photos%2F", "[role=grid]", "harbour"},
		{"text", "#/blob/0x1/docs%2Freadme.md", ".stage", "sluice"},
		{"image", "#/blob/0x1/photos%2Fwaves.png", ".properties", "image/png"},
		{"video", "#/blob/0x1/photos%2Fwaves.mp4", ".properties", "video/mp4"},
		{"pdf", "#/blob/0x1/docs%2Fguide.pdf", ".stage", "Page 1 of 2"},
		{"missing", "#/blob/0x1/absent", "main", "There is no blob"},
		{"openuploads", "#/uploads/0x1", "[role=grid]", "film.mp4"},
		{"sessions", "#/sessions", "main", "ana"},
		{"channels", "#/channels", "main", "1 open"},
		{"ledger", "#/channels/" + channel, "main table", "40"},
		{"status", "#/status", ".chart .legend", "Requests"},
		{"api", "api", "main", "Create or replace a blob"},
	}
	half := len(views) / 2
	t.Run("first", func(t *testing.T) { takeScreens(t, s, views[:half]) })
	t.Run("second", func(t *testing.T) { takeScreens(t, s, views[half:]) })
	t.Run("operations", func(t *testing.T) { takeScreensOfOperations(t, s) })
	t.Run("selection", func(t *testing.T) { takeScreensOfSelections(t, s) })
}

// takeScreens takes the pictures of views.
func takeScreens(t *testing.T, s *e2e.Server, views []screen) {
	t.Parallel()
	p := openConsole(t, s, "")
	for _, view := range views {
		p.Open(view.address)
		p.untilText(view.selector, view.text)
		if view.name == "image" {
			p.until(`document.querySelector(".stage img")?.complete`)
		}
		if view.name == "video" {
			p.until(`document.querySelector(".stage video")?.readyState >= 2`)
		}
		if view.name == "pdf" {
			p.until(`document.querySelector(".stage canvas").dataset.drawn`)
		}
		p.screenshots(view.name)
	}
}

// takeScreensOfOperations takes the pictures of operations.
func takeScreensOfOperations(t *testing.T, s *e2e.Server) {
	t.Parallel()
	p := openConsole(t, s, "api")
	p.untilText("main", "Create or replace a blob")
	evaluate[bool](p, `(document.querySelector("#getBlob .try details").open = true, true)`)
	p.screenshots("operation", "#getBlob", "#getBlob .try")
	p.Open("#/status")
	p.until(`document.getElementById("limits")`)
	p.screenshots("limits", "#limits")
	p.Open("#/blob/0x1/docs%2Freadme.md")
	p.press("Delete")
	p.untilText("dialog", "Delete this blob?")
	p.screenshots("delete")

	p.Open("#/blobs/0x1/photos%2F")
	p.untilText("[role=grid]", "harbour")
	p.throttle(128 << 10) // it is not stored before the last picture
	p.drop(file(t, "panorama.bin", make([]byte, 24<<20)), file(t, "quay.txt", []byte("again")))
	p.untilText("dialog", "Upload 2 files")
	p.screenshots("store")
	p.press("Upload")
	p.until(`document.querySelector("#tray li[data-state=exists]")`)
	p.untilText("#tray", "/s")
	p.screenshots("uploading")
	for _, width := range widths {
		p.Do(chromedp.EmulateViewport(width, 900))
		if covered := evaluate[int](p, `(() => {
			const tray = document.getElementById("tray").getBoundingClientRect();
			return [...document.querySelectorAll("main button, main input, .grid")].filter((e) => !e.closest(".grid-body")).map((e) => e.getBoundingClientRect()).filter((r) => r.height > 0 && r.bottom > tray.top && r.top < tray.bottom).length;
		})()`); covered != 0 {
			t.Errorf("the uploads cover %d elements at %d", covered, width)
		}
	}
	p.press("Cancel 2 files")
	p.until(`document.getElementById("tray").hidden`)
}

// takeScreensOfSelections takes the pictures of operations on a selection.
func takeScreensOfSelections(t *testing.T, s *e2e.Server) {
	t.Parallel()
	p := openConsole(t, s, "#/blobs/0x1/photos%2F")
	p.untilText("[role=grid]", "harbour")
	p.tabTo("row 2026/")
	p.keys(" ", kb.ArrowDown, " ", kb.ArrowDown, " ")
	p.untilText(".selection", "3 selected: 2 blobs")
	p.screenshots("selection")
	p.press("Move…")
	p.keys("archive/")
	p.untilText("dialog", "will be moved.")
	p.screenshots("move")
	p.press("Cancel")
	p.press("Delete")
	p.untilText("dialog", "will be deleted.")
	p.screenshots("deletion")
	faults(s, "DELETE blob 100%: status 403")
	p.deleteNow()
	p.untilText("dialog", "were not deleted")
	p.screenshots("outcome")
	p.press("Close")
	faults(s)
	p.until(`document.activeElement.matches("[role=row]")`)
	p.keys(kb.Escape, kb.ArrowDown, " ", kb.F2)
	p.until(`document.querySelector(".rename")`)
	p.screenshots("rename")
}

// fillForScreens stores the blobs and sells the sessions in the pictures. It returns a channel's
// id.
func fillForScreens(s *e2e.Server) string {
	s.T.Helper()
	store(s, "0x1", "docs/readme.md", "text/markdown", "# sluice\n\nA blob store that meters reads.\n")
	store(s, "0x1", "docs/guide.pdf", "application/pdf", string(pdfOf("A guide to sluice", "The end")))
	store(s, "0x1", "photos/2026/summer/boat.txt", "text/plain", "boat")
	store(s, "0x1", "photos/waves.png", "image/png", waves(s.T))
	store(s, "0x1", "photos/waves.mp4", "video/mp4", padded(s.T, 8))
	for _, name := range []string{"harbour at dawn.txt", "harbour at dusk, long exposure, third attempt with the new lens.txt", "lighthouse.txt", "quay.txt", "right\u202eto left.txt"} {
		s.Must(204, "PUT", "/v1/blobs/0x1/photos/"+e2e.Escape(name), []byte(name), "Content-Type", "text/plain")
	}
	store(s, "0x8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c", "a", "text/plain", "a")
	store(s, "team-archive", "b", "text/plain", "b")
	s.Parts(s.Begin("0x1", "film.mp4", 1<<20), make([]byte, 3<<20), 1<<20)
	s.Must(201, "POST", "/v1/sessions", []byte(`{"userIdentity":"ana"}`))
	s.Must(201, "POST", "/v1/sessions", []byte(`{"userIdentity":"MHWWSP33XIFFFQ4OAHVYUOP6WP"}`)) // as in sluice pay
	c := s.Open(s.Payer(1), 100_000)
	for i := range 3 {
		s.Must(201, "POST", "/v1/sessions", e2e.AsJSON(s.T, map[string]string{"micropaymentUpdate": c.Next(uint64(40 * (i + 1))), "userIdentity": fmt.Sprintf("reader %d", i+1)}))
	}
	for range 20 {
		s.Must(200, "GET", "/v1/blobs/0x1/docs/readme.md", nil)
	}
	return c.ID
}
