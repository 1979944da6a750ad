package e2e

import "testing"

// TestConsoleScreens takes pictures of the views at three widths in both themes. Nothing may be wider
// than the screen.
func TestConsoleScreens(t *testing.T) {
	t.Parallel()
	s := start(t, options{addr: "localhost:0"})
	p := openConsole(t, s, "")
	p.untilText("main", "Nothing is stored yet")
	p.screenshots("nothing")
	s.fillForScreens()
	for _, view := range []struct{ name, address, selector, text string }{
		{"accounts", "#/", "[role=grid]", "0x1"},
		{"folder", "#/blobs/0x1/photos%2F", "[role=grid]", "harbour"},
		{"text", "#/blob/0x1/docs%2Freadme.md", ".stage", "sluice"},
		{"json", "#/blob/0x1/docs%2Fsettings.json", ".stage", "chunks"},
		{"missing", "#/blob/0x1/absent", "main", "There is no blob"},
	} {
		p.open(view.address)
		p.untilText(view.selector, view.text)
		p.screenshots(view.name)
	}
}

// fillForScreens stores what the pictures show.
func (s *server) fillForScreens() {
	s.t.Helper()
	s.store("0x1", "docs/readme.md", "text/markdown", "# sluice\n\nA blob store that meters reads.\n")
	s.store("0x1", "docs/settings.json", "application/json", `{"reads":"public","limits":{"chunks":10},"names":["a","b"]}`)
	s.store("0x1", "photos/2026/summer/boat.txt", "text/plain", "boat")
	for _, name := range []string{"harbour at dawn.txt", "harbour at dusk, long exposure, third attempt with the new lens.txt", "lighthouse.txt", "quay.txt"} {
		s.must(204, "PUT", "/v1/blobs/0x1/photos/"+escape(name), []byte(name), "Content-Type", "text/plain")
	}
	s.store("0x8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c8f3c2f1a9b7d4e6c", "a", "text/plain", "a")
	s.store("team-archive", "b", "text/plain", "b")
}
