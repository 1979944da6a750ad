package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// folderOf writes a folder with this many small files and returns its path.
func folderOf(t *testing.T, count int) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "many")
	testenv.OK(t, os.MkdirAll(folder, 0o700))
	for i := range count {
		testenv.OK(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%03d.txt", i)), []byte(fmt.Sprint("file ", i)), 0o600))
	}
	return folder
}

// TestConsoleUploadsBatches uploads a folder several times. It is one line in the tray, which first
// shows the failures, and then asks once about all names that are taken.
// Invariant 160.
func TestConsoleUploadsBatches(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	for i := range 5 {
		store(s, "0x1", fmt.Sprintf("many/f%03d.txt", i), "text/plain", "of another")
	}
	folder := folderOf(t, 200)
	upload := func() {
		t.Helper()
		p.drop(folder)
		p.untilText("dialog", "Upload 200 files")
		p.press("Upload")
	}
	content := func(name string) string {
		t.Helper()
		return string(s.Must(200, "GET", "/v1/blobs/0x1/many/"+name, nil).Body)
	}
	faults(s, "PUT blob first 3: status 403")
	upload()
	p.until(`document.querySelector("#tray h2").innerText.match(/^3 not uploaded · [2-5] to decide$/)`)
	if n := evaluate[int](p, `document.querySelectorAll("#tray .uploads > li").length`); n != 1 {
		t.Errorf("200 files are %d lines", n)
	}
	shown := p.Text("#tray")
	if failed, taken := strings.Index(shown, "3 files not uploaded:"), strings.Index(shown, "exist already."); failed < 0 || taken < failed {
		t.Errorf("the tray does not begin with the failures: %s", shown)
	}
	p.screenshots("batch")
	p.press("Try 3 files again")
	p.until(`document.querySelector("#tray h2").innerText === "5 to decide"`)
	p.untilText("#tray", "195 of 200 files")
	p.press("Keep both")
	p.untilText("#tray li[data-state=done]", "200 of 200 files")
	if old, second := content("f003.txt"), content("f003%20(2).txt"); old != "of another" || second != "file 3" {
		t.Errorf("the blobs are %q and %q", old, second)
	}

	upload()
	p.untilText("#tray", "200 names exist already.")
	p.press("Skip all")
	p.untilText("#tray", "0 of 200 files · 200 skipped")
	if got := content("f003.txt"); got != "of another" {
		t.Errorf("the blob that was to be skipped is %q", got)
	}

	upload()
	p.untilText("#tray", "200 names exist already.")
	p.press("Replace all")
	p.until(`document.querySelectorAll("#tray li[data-state=done]").length === 2`)
	if got := content("f003.txt"); got != "file 3" {
		t.Errorf("the blob that was to be replaced is %q", got)
	}
	p.press("Remove the uploads that have ended")
	p.until(`document.getElementById("tray").hidden`)
}

// quicken makes the page's timers end sooner, so that an outage that it waits for seems long.
const quicken = `(() => {
	const { setTimeout } = window;
	window.setTimeout = (f, delay, ...args) => setTimeout(f, delay > 200 && delay < 10_000 ? delay / 100 : delay, ...args);
	window.__attempts = 0;
	const { fetch } = window, { send } = XMLHttpRequest.prototype;
	window.fetch = (...args) => (__attempts++, fetch(...args));
	XMLHttpRequest.prototype.send = function () {
		__attempts++;
		return send.apply(this, arguments);
	};
	return true;
})()`

// TestConsoleReconnects kills the server while a file is sent in parts and more files wait. The
// page shows that it reconnects, without a rate, for longer than any other request is repeated, and
// completes all when the server is back.
// Invariant 160.
func TestConsoleReconnects(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	s.Options.Addr = strings.TrimPrefix(s.URL, "http://")
	big := file(t, "big.bin", make([]byte, 20<<20))
	small := folderOf(t, 20)
	evaluate[bool](p, quicken)
	p.throttle(4 << 20)
	p.drop(big, small)
	p.untilText("dialog", "Upload 21 files")
	p.press("Upload")
	p.untilText("#tray", "/s")
	s.Kill()
	p.untilText("#tray", "reconnecting")
	p.throttle(-1)
	evaluate[bool](p, "(__attempts = 0, true)")
	p.until("__attempts > 30")
	if got := p.Text("#tray"); !strings.Contains(got, "reconnecting · The server cannot be reached.") || strings.Contains(got, "/s") || strings.Contains(got, " left") {
		t.Errorf("during the outage the tray shows %q", got)
	}
	p.screenshots("reconnecting")
	s.Launch()
	p.untilText("#tray li[data-state=done]", "21 of 21 files")
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); len(got.Body) != 20<<20 {
		t.Errorf("the blob has %d bytes", len(got.Body))
	}
	if left := s.OpenUploads("0x1"); len(left) != 0 {
		t.Errorf("%v is open", left)
	}
}

// TestConsoleSaysThatAFileIsGone removes a file after it was chosen. That is no outage.
func TestConsoleSaysThatAFileIsGone(t *testing.T) {
	t.Parallel()
	_, p := openEmptyFolder(t)
	gone := file(t, "gone.txt", []byte("soon gone"))
	p.drop(gone)
	p.untilText("dialog", "Upload 1 file")
	testenv.OK(t, os.Remove(gone))
	p.press("Upload")
	p.untilText("#tray li[data-state=failed]", "The file cannot be read any more: it was changed or removed since it was chosen.")
}
