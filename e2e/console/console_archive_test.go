package console

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"

	"github.com/chromedp/chromedp/kb"
)

// saveToFiles makes a page save to files in the browser's own file system: there is nobody to
// answer the dialog.
const saveToFiles = `(window.showSaveFilePicker = async (options) => {
	window.__suggested = options.suggestedName;
	return (await navigator.storage.getDirectory()).getFileHandle("saved", { create: true });
}, true)`

// saveInMemory makes a page a browser that cannot save to files. It keeps the page's downloads.
const saveInMemory = `(() => {
	delete window.showSaveFilePicker;
	window.__saved = [];
	const made = {}, { createObjectURL } = URL, { click } = HTMLAnchorElement.prototype;
	URL.createObjectURL = (content) => {
		const address = createObjectURL.call(URL, content);
		made[address] = content.arrayBuffer();
		return address;
	};
	HTMLAnchorElement.prototype.click = function () {
		if (!this.download) return click.call(this);
		__saved.push({ name: this.download, content: made[this.href] ?? fetch(this.href).then((r) => r.arrayBuffer()) });
	};
	return true;
})()`

// inBase64 is an expression for bytes in base64.
const inBase64 = `.then((b) => { let text = ""; for (const v of new Uint8Array(b)) text += String.fromCharCode(v); return btoa(text); })`

// unzip returns the contents of an archive by name.
func unzip(t *testing.T, encoded string) map[string]string {
	t.Helper()
	data := testenv.Must(base64.StdEncoding.DecodeString(encoded))(t)
	archive := testenv.Must(zip.NewReader(bytes.NewReader(data), int64(len(data))))(t)
	contents := map[string]string{}
	for _, f := range archive.File {
		opened := testenv.Must(f.Open())(t)
		contents[f.Name] = string(testenv.Must(io.ReadAll(opened))(t))             // which compares the sum
		if age := time.Since(f.Modified); age < -time.Hour || age > 26*time.Hour { // the time has no zone
			t.Errorf("%s is %v old", f.Name, age)
		}
	}
	return contents
}

// TestConsoleDownloadsArchives downloads a folder and a selection as archives, in a browser that
// saves to files and in one that does not. A connection that is lost costs nothing, and the console
// names a blob that cannot be read.
// Invariant 162.
func TestConsoleDownloadsArchives(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	large := string(bytes.Repeat([]byte("0123456789abcdef"), 3<<16))
	want := map[string]string{"photos/a.txt": "first", "photos/empty": "", "photos/2026/été.txt": "summer", "photos/2026/large.bin": large}
	for name, content := range want {
		store(s, "0x1", e2e.Escape(name), "text/plain", content)
	}
	saved := `navigator.storage.getDirectory().then((d) => d.getFileHandle("saved")).then((h) => h.getFile()).then((f) => f.arrayBuffer())` + inBase64

	p := openConsole(t, s, "#/blobs/0x1/photos%2F")
	p.untilText("[role=grid]", "a.txt")
	evaluate[bool](p, saveToFiles)
	faults(s, "GET blob first 1: cut 1MiB")
	p.press("Download folder")
	p.untilText("dialog", "4 blobs (3.0 MiB) will be downloaded.")
	p.screenshots("download")
	p.keys(kb.Enter)
	p.untilText("#toasts", "photos.zip was saved")
	if got := unzip(t, evaluate[string](p, saved)); !maps.Equal(got, want) {
		t.Errorf("the archive has %q", slices.Sorted(maps.Keys(got)))
	}
	if got := evaluate[string](p, "window.__suggested"); got != "photos.zip" {
		t.Errorf("the dialog suggests %q", got)
	}

	p.tabTo("row 2026/")
	p.keys(" ", kb.ArrowDown, " ", kb.ArrowDown, " ")
	faults(s, "GET blob first 1: status 404")
	p.press("Download")
	p.untilText("dialog", "4 blobs (3.0 MiB) will be downloaded.")
	p.press("Download")
	p.untilText("dialog", "1 of 4 blobs was not downloaded")
	p.untilText("dialog", "fault_injected")
	p.press("Close")
	less := unzip(t, evaluate[string](p, saved)) // without the blob whose request came first
	for name, content := range less {
		if content != want["photos/"+name] {
			t.Errorf("%s differs in the archive with one blob less", name)
		}
	}
	if len(less) != len(want)-1 {
		t.Errorf("the archive with one blob less has %q", slices.Sorted(maps.Keys(less)))
	}

	evaluate[bool](p, saveInMemory)
	p.press("Download folder")
	p.untilText("dialog", "The browser makes a file photos.zip of them.")
	p.press("Download")
	p.until("__saved.length === 1")
	if got := unzip(t, evaluate[string](p, "__saved[0].content"+inBase64)); !maps.Equal(got, want) {
		t.Errorf("the archive from memory has %q", slices.Sorted(maps.Keys(got)))
	}
	if got := evaluate[string](p, "__saved[0].name"); got != "photos.zip" {
		t.Errorf("the archive is called %q", got)
	}
}

// TestConsoleDownloadsOneByOne downloads more than an archive in memory may have, in a browser that
// saves to no files: blobs that are few are saved one by one, and many are refused before any read.
// Invariant 162.
func TestConsoleDownloadsOneByOne(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	for i := range 101 {
		store(s, "0x1", fmt.Sprintf("many/%03d.txt", i), "text/plain", fmt.Sprint("content ", i))
	}
	for i := range 3 {
		store(s, "0x1", fmt.Sprintf("few/%d.txt", i), "text/plain", fmt.Sprint("content ", i))
	}
	p := openConsole(t, s, "#/blobs/0x1/few%2F")
	p.untilText("[role=grid]", "0.txt")
	evaluate[bool](p, saveInMemory)
	// The lists report 100 MiB for each blob.
	evaluate[bool](p, `(() => {
		const { json } = Response.prototype;
		Response.prototype.json = async function () {
			const body = await json.call(this);
			for (const blob of body.blobs ?? []) blob.size = 100 << 20;
			return body;
		};
		return true;
	})()`)
	p.press("Download folder")
	p.untilText("dialog", "In this browser an archive has at most 256 MiB, so they are saved one by one.")
	p.press("Download")
	p.until("__saved.length === 3")
	p.untilText("#toasts", "3 blobs were saved")
	if got := evaluate[string](p, `Promise.all(__saved.map(async (one) => one.name + " " + new TextDecoder().decode(await one.content))).then((all) => all.join(", "))`); got != "0.txt content 0, 1.txt content 1, 2.txt content 2" {
		t.Errorf("the saved blobs are %s", got)
	}
	evaluate[bool](p, `(location.hash = "#/blobs/0x1/many%2F", true)`)
	p.untilText("[role=grid]", "000.txt")
	p.press("Download folder")
	p.untilText("dialog", "Select fewer, or use the command sluice get -r.")
	if !evaluate[bool](p, `document.querySelector("dialog button[type=submit]").disabled`) {
		t.Error("the download can be confirmed")
	}
	p.press("Cancel")
}

// TestConsoleCancelsArchives cancels a download, after which the file is as it was.
// Invariant 162.
func TestConsoleCancelsArchives(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "slow/large.bin", "text/plain", string(make([]byte, 3<<20)))
	p := openConsole(t, s, "#/blobs/0x1/slow%2F")
	p.untilText("[role=grid]", "large.bin")
	evaluate[bool](p, saveToFiles)
	faults(s, "GET blob: slow 10KiB")
	p.press("Download folder")
	p.untilText("dialog", "1 blob (3.0 MiB) will be downloaded.")
	p.press("Download")
	p.untilText("dialog", "0 of 1 blob")
	p.press("Cancel")
	p.until("!document.querySelector('dialog')")
	if size := evaluate[int](p, `navigator.storage.getDirectory().then((d) => d.getFileHandle("saved")).then((h) => h.getFile()).then((f) => f.size)`); size != 0 {
		t.Errorf("the file has %d bytes", size)
	}
}
