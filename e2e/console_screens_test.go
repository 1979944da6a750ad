package e2e

import (
	"fmt"
	"testing"
)

// TestConsoleScreens takes the views' pictures at three widths in both themes, and checks each with
// axe-core. Nothing may be wider than the screen.
func TestConsoleScreens(t *testing.T) {
	t.Parallel()
	s := start(t, options{addr: "localhost:0"})
	p := openConsole(t, s, "")
	p.untilText("main", "Nothing is stored yet")
	p.screenshots("nothing")
	channel := s.fillForScreens()
	for _, view := range []struct{ name, address, selector, text string }{
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
	} {
		p.open(view.address)
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
	evaluate[bool](p, `(document.querySelector("#getBlob .try details").open = true, true)`)
	p.screenshots("operation", "#getBlob")
	p.screenshots("tryit", "#getBlob .try")
	p.open("#/status")
	p.until(`document.getElementById("limits")`)
	p.screenshots("limits", "#limits")
	p.open("#/blob/0x1/docs%2Freadme.md")
	p.press("Delete")
	p.untilText("dialog", "Delete this blob?")
	p.screenshots("delete")

	p.open("#/blobs/0x1/photos%2F")
	p.untilText("[role=grid]", "harbour")
	p.throttle(128 << 10) // it is not stored before the last picture
	p.drop(file(t, "panorama.bin", make([]byte, 24<<20)), file(t, "quay.txt", []byte("again")))
	p.untilText("dialog", "Store 2 files")
	p.screenshots("store")
	p.press("Store")
	p.until(`document.querySelector("#tray li[data-state=failed]")`)
	p.untilText("#tray", "/s")
	p.screenshots("uploading")
	p.press("Cancel photos/panorama.bin")
	p.until(`!document.querySelector("#tray li[data-state=sending]")`)
}

// fillForScreens stores what the pictures show. It returns a channel's id.
func (s *server) fillForScreens() string {
	s.t.Helper()
	s.store("0x1", "docs/readme.md", "text/markdown", "# sluice\n\nA blob store that meters reads.\n")
	s.store("0x1", "docs/guide.pdf", "application/pdf", string(pdfOf("A guide to sluice", "The end")))
	s.store("0x1", "photos/2026/summer/boat.txt", "text/plain", "boat")
	s.store("0x1", "photos/waves.png", "image/png", waves(s.t))
	s.store("0x1", "photos/waves.mp4", "video/mp4", padded(s.t, 8))
	for _, name := range []string{"harbour at dawn.txt", "harbour at dusk, long exposure, third attempt with the new lens.txt", "lighthouse.txt", "quay.txt", "right\u202eto left.txt"} {
		s.must(204, "PUT", "/v1/blobs/0x1/photos/"+escape(name), []byte(name), "Content-Type", "text/plain")
	}
	s.store("0x8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c", "a", "text/plain", "a")
	s.store("team-archive", "b", "text/plain", "b")
	s.parts(s.begin("0x1", "film.mp4", 1<<20), make([]byte, 3<<20), 1<<20)
	s.must(201, "POST", "/v1/sessions", []byte(`{"userIdentity":"ana"}`))
	s.must(201, "POST", "/v1/sessions", []byte(`{"userIdentity":"MHWWSP33XIFFFQ4OAHVYUOP6WP"}`)) // as in sluice pay
	c := s.open(s.payer(1), 100_000)
	for i := range 3 {
		s.must(201, "POST", "/v1/sessions", asJSON(s.t, map[string]string{"micropaymentUpdate": c.next(uint64(40 * (i + 1))), "userIdentity": fmt.Sprintf("reader %d", i+1)}))
	}
	for range 20 {
		s.must(200, "GET", "/v1/blobs/0x1/docs/readme.md", nil)
	}
	return c.id
}
