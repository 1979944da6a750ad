package console

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// drop drops files or folders on the page.
func (p *consolePage) drop(files ...string) {
	p.t.Helper()
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}
	const attempts = 20
	for range attempts {
		for _, step := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
			if _, err := chromedp.Call(p.ctx, input.DispatchDragEvent, input.DispatchDragEventParams{Type: step, X: 300, Y: 300, Data: data}); err != nil {
				p.t.Fatal(err)
			}
		}
		// The page shows a cover until the drop, which the browser may withhold from a page that is
		// not ready for it.
		if evaluate[bool](p, `document.getElementById("drop").hidden`) {
			return
		}
	}
	p.t.Fatalf("the browser has sent no drop in %d attempts", attempts)
}

// dropAndUpload drops one file on the page and confirms the upload.
func (p *consolePage) dropAndUpload(file string) {
	p.t.Helper()
	p.drop(file)
	p.untilText("dialog", "Upload 1 file")
	p.press("Upload")
}

// throttle limits the page's uploads, in bytes per second; -1 is without a limit.
func (p *consolePage) throttle(rate float64) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: rate}},
	})
	testenv.OK(p.t, err)
}

// file writes a file of this size and returns its path.
func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testenv.OK(t, os.WriteFile(path, data, 0o600))
	return path
}

// TestConsoleUploadsByDrop drops a file and a folder, with an expiry, and checks that the console
// replaces an existing blob only when the user confirms it.
func TestConsoleUploadsByDrop(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "#/blobs/0x1/in%2F")
	p.untilText("main", "Nothing is stored here")
	single := file(t, "hello.txt", []byte("hello"))
	folder := filepath.Dir(file(t, "tree/a.json", []byte(`{"a":1}`)))
	for _, name := range []string{"deep/b.txt", "deep/empty.txt"} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testenv.OK(t, os.WriteFile(path, []byte(strings.TrimSuffix(filepath.Base(name), ".txt")), 0o600))
	}
	p.drop(single, folder)
	p.untilText("dialog", "Upload 4 files")
	evaluate[bool](p, `(() => { const e = document.getElementById("expiry"); e.value = "86400"; e.dispatchEvent(new Event("change")); return true; })()`)
	p.press("Upload")
	p.untilText("#tray li[data-state=done]", "4 of 4 files")
	for name, want := range map[string][2]string{
		"hello.txt": {"hello", "text/plain"}, "tree/a.json": {`{"a":1}`, "application/json"},
		"tree/deep/b.txt": {"b", "text/plain"}, "tree/deep/empty.txt": {"empty", "text/plain"},
	} {
		got := s.Must(200, "GET", "/v1/blobs/0x1/in/"+name, nil)
		if string(got.Body) != want[0] || got.Header.Get("Content-Type") != want[1] || got.Header.Get("Blob-Expires") == "" || got.Header.Get("Repr-Digest") == "" {
			t.Errorf("%s: %q with %v", name, got.Body, got.Header)
		}
	}
	p.untilText("[role=grid]", "hello.txt") // the list shows them
	p.untilText("[role=grid]", "tree/")

	s.Must(204, "PUT", "/v1/blobs/0x1/in/hello.txt", []byte("of another"))
	p.drop(single)
	p.untilText("dialog", "Upload 1 file")
	evaluate[bool](p, `(() => { const e = document.getElementById("expiry"); e.value = "at"; e.dispatchEvent(new Event("change")); return true; })()`)
	p.press("Upload")
	p.until(`document.querySelector("dialog[open] input:invalid")`) // a time must be chosen
	evaluate[bool](p, `(document.querySelector("dialog input:invalid").value = "2099-01-02T03:04", true)`)
	p.press("Upload")
	p.untilText("#tray li[data-state=exists]", "A blob of this name exists already.")
	if got := s.Must(200, "GET", "/v1/blobs/0x1/in/hello.txt", nil); string(got.Body) != "of another" {
		t.Errorf("the blob became %q", got.Body)
	}
	p.press("Replace it")
	p.until(`document.querySelectorAll("#tray li[data-state=done]").length === 2`)
	if got := s.Must(200, "GET", "/v1/blobs/0x1/in/hello.txt", nil); string(got.Body) != "hello" || !strings.HasPrefix(got.Header.Get("Blob-Expires"), "2099-01-0") {
		t.Errorf("the blob is %q and expires at %s", got.Body, got.Header.Get("Blob-Expires"))
	}
}

// TestConsoleResumesUploads pauses an upload in parts, reloads the page meanwhile, and continues
// the upload with the same file. The page sends no acknowledged part again.
// Invariant 160.
func TestConsoleResumesUploads(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	data := make([]byte, 44<<20+5)
	for i := range data {
		data[i] = byte(i * 31 >> 8)
	}
	big := file(t, "big.bin", data)
	// The server stores four of the six parts; the page repeats two until it is reloaded.
	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[{"rule":"PUT part first 4: delay 1ms"},{"rule":"PUT part: status 503"}]}`))
	p.throttle(6 << 20) // long enough for the page to show a speed
	p.drop(big)
	p.untilText("dialog", "Upload 1 file (44.0 MiB)?")
	p.press("Upload")
	p.untilText("#tray", "/s")
	p.until(`JSON.parse(localStorage.getItem("test-acknowledged") ?? "[]").length === 4`)
	if n := evaluate[int](p, "__mostSending"); n < 2 {
		t.Errorf("at most %d parts were sent at the same time", n)
	}
	p.press("Pause big.bin")
	p.until(`document.querySelector("#tray li[data-state=paused]")`)
	p.press("Resume big.bin")
	p.until(`document.querySelector("#tray li[data-state=sending]")`)
	p.Open("#/uploads/0x1")
	p.throttle(-1)
	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[]}`))
	p.untilText("[role=grid]", "big.bin")
	p.untilText("#tray", "interrupted")
	// Nobody is there to allow the page to open the file again, or to choose it: the test sets it.
	evaluate[bool](p, `(FileSystemHandle.prototype.requestPermission = async () => "denied", HTMLInputElement.prototype.click = () => {}, true)`)
	p.press("Continue big.bin")
	p.until(`document.getElementById("resume-file")`)
	p.Do(chromedp.SetUploadFiles(chromedp.CSS("#resume-file"), []string{big}))
	p.until(`document.querySelector("#tray li[data-state=done]")`)
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); !bytes.Equal(got.Body, data) {
		t.Errorf("%d other bytes were stored", len(got.Body))
	}
	if n := evaluate[int](p, `JSON.parse(localStorage.getItem("test-acknowledged")).length`); n != 6 {
		t.Errorf("the page had the responses to %d parts, want each of 6 once", n)
	}
	if left := evaluate[int](p, `import("./"+document.querySelector("link[rel=stylesheet]").getAttribute("href").replace("style.css","journal.js")).then(async (j) => (await j.entries(new URL("../", document.baseURI).href)).length)`); left != 0 {
		t.Errorf("%d uploads are remembered", left)
	}
}

// TestConsoleReplacesLargeBlobs stores a file in parts under a name that is taken. The page sends
// no part before the user confirms that the blob is replaced.
func TestConsoleReplacesLargeBlobs(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "big.bin", "text/plain", "other")
	p := openConsole(t, s, "#/blobs/0x1/")
	p.untilText("[role=grid]", "big.bin")
	data := bytes.Repeat([]byte("large"), 2<<20)
	p.dropAndUpload(file(t, "big.bin", data))
	p.untilText("#tray li[data-state=exists]", "A blob of this name exists already.")
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); string(got.Body) != "other" {
		t.Errorf("the blob became %d bytes", len(got.Body))
	}
	if n := evaluate[int](p, "__mostSending"); n != 0 || len(s.OpenUploads("0x1")) != 0 {
		t.Errorf("%d parts were sent at the same time before it was decided", n)
	}
	p.press("Replace it")
	p.until(`document.querySelector("#tray li[data-state=done]")`)
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); !bytes.Equal(got.Body, data) {
		t.Errorf("the blob has %d bytes, want the file's", len(got.Body))
	}
}

// TestConsoleInterruptedUploads checks that the console continues an interrupted upload only with
// its own expiry, keeps it in the tray until it ends, and begins it again if the server has aborted
// it.
func TestConsoleInterruptedUploads(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	data := bytes.Repeat([]byte("large"), 2<<20)
	big := file(t, "big.bin", data)
	drop := func(expiry string) {
		t.Helper()
		p.drop(big)
		p.untilText("dialog", "Upload 1 file")
		evaluate[bool](p, fmt.Sprintf(`(document.getElementById("expiry").value = %q, document.getElementById("existing").value = "replace", true)`, expiry))
		p.press("Upload")
	}
	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[{"rule":"PUT part 100%: status 403"}]}`))
	drop("")
	p.until(`document.querySelector("#tray li[data-state=failed]")`)
	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[]}`))
	p.Open("#/blobs/0x1/")
	p.untilText("#tray", "interrupted")

	drop("86400")
	p.until(`document.querySelector("#tray li[data-state=done]")`)
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); got.Header.Get("Blob-Expires") == "" {
		t.Fatal("the blob never expires")
	}
	p.press("Remove the uploads that have ended")
	p.untilText("#tray", "interrupted")

	s.Must(204, "DELETE", "/v1/multipart-uploads/"+s.OpenUploads("0x1")[0], nil)
	drop("")
	p.untilText("#tray li[data-state=failed]", "The upload was aborted.")
	if n := evaluate[int](p, `document.querySelectorAll("#tray li").length`); n != 1 {
		t.Errorf("the tray has %d uploads, want the one that was continued", n)
	}
	p.press("Try big.bin again")
	p.until(`document.querySelector("#tray li[data-state=done]")`)
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); !bytes.Equal(got.Body, data) || got.Header.Get("Blob-Expires") != "" {
		t.Errorf("the blob has %d bytes and expires at %q", len(got.Body), got.Header.Get("Blob-Expires"))
	}
}

// TestConsoleBeginsUploadsOnce pauses and resumes an upload while the server begins it, and then
// one that the page fails to cancel.
func TestConsoleBeginsUploadsOnce(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	evaluate[bool](p, `(() => {
		window.__begun = [];
		const { fetch } = window;
		window.fetch = (...args) => (args[1]?.method === "POST" && args[0].endsWith("v1/multipart-uploads")
			? new Promise((resolve) => __begun.push(() => resolve(fetch(...args)))) : fetch(...args));
		return true;
	})()`)
	p.dropAndUpload(file(t, "big.bin", make([]byte, 9<<20)))
	p.until("__begun.length === 1")
	p.press("Pause big.bin")
	p.press("Resume big.bin")
	p.until(`document.querySelector("#tray li[data-state=sending]")`)
	evaluate[bool](p, "(__begun.forEach((begin) => begin()), true)")
	p.until(`document.querySelector("#tray li[data-state=done]")`)
	if left := s.OpenUploads("0x1"); len(left) != 0 {
		t.Errorf("the upload was begun twice: %v is open", left)
	}

	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[{"rule":"PUT part 100%: status 403"},{"rule":"DELETE upload 100%: status 403"}]}`))
	p.dropAndUpload(file(t, "kept.bin", make([]byte, 9<<20)))
	p.until("__begun.length === 2")
	evaluate[bool](p, "(__begun[1](), true)")
	p.until(`document.querySelector("#tray li[data-state=failed]")`)
	p.press("Cancel kept.bin")
	p.untilText("#toasts", "kept.bin was not cancelled.")
}

// TestConsoleCancelsUploads cancels an upload and checks that the server keeps nothing of it.
func TestConsoleCancelsUploads(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	p.throttle(1 << 20)
	p.dropAndUpload(file(t, "big.bin", make([]byte, 30<<20)))
	s.Await("the upload did not begin", func() bool { return len(s.OpenUploads("0x1")) == 1 })
	p.press("Cancel big.bin")
	s.Await("the upload did not end", func() bool { return len(s.OpenUploads("0x1")) == 0 })
	p.until(`document.getElementById("tray").hidden`)
	s.Must(http.StatusNotFound, "GET", "/v1/blobs/0x1/big.bin", nil)
}

// TestConsoleUploadsByKeyboard chooses a file, uploads it by Enter, and removes its line from the
// tray, by the keyboard alone.
func TestConsoleUploadsByKeyboard(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	if _, err := chromedp.Call(p.ctx, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := p.bounded()
	defer cancel()
	opened := chromedp.Events(ctx, page.FileChooserOpened)
	p.tabTo("button Upload files")
	p.keys(kb.Enter)
	for chooser, err := range opened {
		testenv.OK(t, err)
		_, err = chromedp.Call(p.ctx, dom.SetFileInputFiles, dom.SetFileInputFilesParams{
			Files: []string{file(t, "typed.txt", []byte("by the keyboard"))}, BackendNodeID: chooser.BackendNodeID,
		})
		testenv.OK(t, err)
		break
	}
	p.untilText("dialog", "Upload 1 file")
	if got := p.focused(); !strings.HasPrefix(got, "select ") {
		t.Errorf("the focus is on %q, want the expiry", got)
	}
	p.keys(kb.Enter)
	p.untilText("#tray li[data-state=done]", "typed.txt")
	p.untilText("[role=grid]", "typed.txt")
	s.Must(200, "GET", "/v1/blobs/0x1/typed.txt", nil)
	p.tabTo("button Remove the uploads that have ended")
	p.keys(kb.Enter)
	p.until(`document.getElementById("tray").hidden`)
}

// TestConsoleAbortsOpenUploads lists an account's open uploads and aborts one.
func TestConsoleAbortsOpenUploads(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	for i := range 3 {
		s.Begin("0x1", fmt.Sprintf("upload %d", i), 1<<20)
	}
	p := openConsole(t, s, "#/uploads/0x1")
	p.untilText(".sub", "3 open")
	p.press("Abort upload 1")
	p.untilText("dialog", "Abort this upload?")
	p.press("Abort upload")
	p.untilText(".sub", "2 open")
	if left := s.OpenUploads("0x1"); len(left) != 2 {
		t.Errorf("the open uploads are %v", left)
	}
}

// TestConsoleUploadsInTwoTabs opens the console in a second tab while the first one stores a file.
// The second tab neither offers to continue that upload nor to abort it, and begins a new one with
// the same file. When the first tab closes, the second one offers to continue its upload.
func TestConsoleUploadsInTwoTabs(t *testing.T) {
	t.Parallel()
	s, first := openEmptyFolder(t)
	big := file(t, "big.bin", make([]byte, 30<<20))
	store := func(p *consolePage) {
		t.Helper()
		p.throttle(64 << 10) // no part arrives before the test has ended
		p.dropAndUpload(big)
		p.until(`document.querySelector("#tray li[data-state=sending]")`)
	}
	store(first)
	s.Await("the upload did not begin", func() bool { return len(s.OpenUploads("0x1")) == 1 })
	running := s.OpenUploads("0x1")[0]

	second := first.newTab("#/blobs/0x1/")
	e2e.Await(t, "the second tab does not wait for the first one", func() bool {
		return evaluate[bool](second, `navigator.locks.query().then((locks) => locks.held.length === 1 && locks.pending.length === 1)`)
	})
	if !evaluate[bool](second, `document.getElementById("tray").hidden`) {
		t.Errorf("the second tab shows %q", second.Text("#tray"))
	}
	store(second)
	s.Await("no other upload was begun", func() bool { return len(s.OpenUploads("0x1")) == 2 })
	second.press("Cancel big.bin")
	s.Await("the upload did not end", func() bool { return len(s.OpenUploads("0x1")) == 1 })

	first.Do(chromedp.Navigate("about:blank"))
	second.untilText("#tray", "interrupted")
	second.press("Abort big.bin")
	second.untilText("dialog", "Abort this upload?")
	second.press("Cancel")
	second.until(`!document.querySelector("dialog")`)
	if left := s.OpenUploads("0x1"); len(left) != 1 || left[0] != running {
		t.Fatalf("the open uploads are %v, want %s", left, running)
	}
	second.press("Abort big.bin")
	second.press("Abort upload")
	second.until(`document.getElementById("tray").hidden`)
	if left := s.OpenUploads("0x1"); len(left) != 0 {
		t.Errorf("the open uploads are %v", left)
	}
}
