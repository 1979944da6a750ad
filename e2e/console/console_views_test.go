package console

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// pdfOf returns a PDF of two pages with a text each.
func pdfOf(first, second string) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(text string) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(offsets), text)
	}
	stream := func(text string) string {
		content := fmt.Sprintf("BT /F1 24 Tf 72 700 Td (%s) Tj ET", text)
		return fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	}
	out.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>")
	page := "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 7 0 R >> >> /Contents %d 0 R >>"
	object(fmt.Sprintf(page, 5))
	object(fmt.Sprintf(page, 6))
	object(stream(first))
	object(stream(second))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return out.Bytes()
}

// pngOf returns a picture of this size.
func pngOf(t *testing.T, width, height int) string {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, width, height))
	for i := range picture.Pix {
		picture.Pix[i] = byte(i * 5)
	}
	var out bytes.Buffer
	testenv.OK(t, png.Encode(&out, picture))
	return out.String()
}

// waves returns a picture that is worth looking at.
func waves(t testing.TB) string {
	t.Helper()
	const width, height = 900, 560
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			line := math.Sin(float64(x)/60+float64(y)/35) * 18
			depth := (float64(y) + line) / height
			picture.Set(x, y, color.RGBA{uint8(20 + 60*(1-depth)), uint8(90 + 110*(1-depth)), uint8(110 + 90*(1-depth)), 255})
		}
	}
	var out bytes.Buffer
	testenv.OK(t, png.Encode(&out, picture))
	return out.String()
}

// wavOf returns a second of silence.
func wavOf() string {
	const rate = 8000
	head := "RIFF\x64\x1f\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x40\x1f\x00\x00"
	return head + strings.Repeat("\x80", rate)
}

// TestConsolePreviews checks the previews of all kinds. The browser may run nothing in a blob.
// Invariant 159.
func TestConsolePreviews(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	evil := `<script>parent.__problems?.push("run")</script><img src=x onerror="__problems.push('run')">`
	store(s, "0x1", "page.html", "text/html", evil)
	store(s, "0x1", "picture.svg", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"><script>__problems.push("run")</script></svg>`)
	store(s, "0x1", "broken.json", "application/json", `{"a":`)
	store(s, "0x1", "exact.json", "application/json", ` {"amount": 18446744073709551615,"a":1.0,"a":["{,\\\"",{ },[1]]}`)
	store(s, "0x1", "deep.json", "application/json", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000))
	store(s, "0x1", "long.txt", "text/plain", strings.Repeat("é", 200_000))
	store(s, "0x1", "picture.png", "image/png", pngOf(t, 60, 40))
	store(s, "0x1", "broken.png", "image/png", "no picture")
	store(s, "0x1", "silence.wav", "audio/wav", wavOf())
	store(s, "0x1", "two.pdf", "application/pdf", string(pdfOf("Hello first page", "Good bye")))
	store(s, "0x1", "broken.pdf", "application/pdf", "no document")
	store(s, "0x1", "data.bin", "application/octet-stream", "plain enough")
	store(s, "0x1", "empty.txt", "text/plain", "")
	p := openConsole(t, s, "")
	at := func(name string) { p.t.Helper(); p.Open("#/blob/0x1/" + name) }
	at("page.html")
	p.untilText(".stage", evil)
	at("picture.svg")
	p.untilText(".stage", "<script>")
	at("broken.json")
	p.untilText(".stage", `{"a":`)
	at("exact.json")
	p.untilText(".stage", "{\n  \"amount\": 18446744073709551615,\n  \"a\": 1.0,\n  \"a\": [\n    \"{,\\\\\\\"\",\n    {},\n    [\n      1\n    ]\n  ]\n}")
	at("deep.json")
	p.until(`document.querySelector(".stage pre")?.textContent.startsWith("[")`)
	at("long.txt")
	p.untilText(".stage", "The first 256 KiB of 391 KiB.")
	at("picture.png")
	p.until(`document.querySelector(".stage img")?.naturalWidth === 60`)
	at("broken.png")
	p.untilText(".stage", "The browser cannot show this image.")
	at("silence.wav")
	p.until(`document.querySelector(".stage audio")?.duration === 1`)
	at("two.pdf")
	p.until(`document.querySelector(".stage canvas")?.dataset.drawn === "1"`)
	p.untilText(".stage", "Page 1 of 2")
	if got := evaluate[string](p, `document.querySelector(".stage .sr").textContent`); !strings.Contains(got, "Hello first page") {
		t.Errorf("the page's text is %q", got)
	}
	if dark := evaluate[int](p, `(() => { const c = document.querySelector(".stage canvas"); return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.reduce((n, v, i) => n + (i % 4 === 0 && v < 128), 0); })()`); dark < 100 {
		t.Errorf("%d pixels of the page are dark", dark)
	}
	evaluate[bool](p, `(() => { const next = [...document.querySelectorAll(".pages button")].at(-1); next.click(); next.click(); next.click(); return true; })()`)
	p.until(`document.querySelector(".stage canvas").dataset.drawn === "2"`)
	p.untilText(".stage", "Page 2 of 2")
	at("broken.pdf")
	p.untilText(".stage", "The document cannot be shown")
	at("data.bin")
	p.press("Show as text")
	p.untilText(".stage", "plain enough")
	at("empty.txt")
	p.untilText(".stage", "The blob is empty.")
}

// TestConsolePreviewsByName checks that a blob with a generic type, as curl -T stores it, is
// previewed by its name exactly as with the right type. Other types are believed.
// Invariant 159.
func TestConsolePreviewsByName(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	unnamed := func(name, contentType, content string) {
		t.Helper()
		store(s, "0x1", name, contentType, content)
	}
	unnamed("README", "application/octet-stream", "# read me")
	unnamed("docs/notes.MD", "application/x-www-form-urlencoded", "notes")
	unnamed("a.json", "application/octet-stream", `{"a":1}`)
	unnamed("large.json", "application/octet-stream", `{"a":"`+strings.Repeat("x", 300_000)+`"}`)
	unnamed("picture.png", "binary/octet-stream", pngOf(t, 60, 40))
	unnamed("silence.wav", "application/octet-stream", wavOf())
	unnamed("waves.mp4", "application/octet-stream", padded(t, 8))
	unnamed("two.pdf", "application/octet-stream", string(pdfOf("First", "Second")))
	unnamed("picture.svg", "application/octet-stream", `<svg xmlns="http://www.w3.org/2000/svg"><script>__problems.push("run")</script></svg>`)
	unnamed("page.html", "application/octet-stream", `<img src=x onerror="__problems.push('run')">`)
	unnamed("zip.txt", "application/zip", "PK")
	p := openConsole(t, s, "")
	at := func(name string) { p.t.Helper(); p.Open("#/blob/0x1/" + url.PathEscape(name)) }
	at("README")
	p.untilText(".stage pre", "# read me")
	p.screenshots("byname")
	at("docs/notes.MD")
	p.untilText(".stage .prose", "notes")
	at("a.json")
	p.untilText(".stage pre", "{\n  \"a\": 1\n}")
	at("large.json")
	p.untilText(".stage", "The first 256 KiB of 293 KiB.")
	at("picture.png")
	p.until(`document.querySelector(".stage img")?.naturalWidth === 60`)
	at("silence.wav")
	p.until(`document.querySelector(".stage audio")?.duration === 1`)
	at("waves.mp4")
	p.until(`document.querySelector(".stage video")?.readyState >= 1`)
	at("two.pdf")
	p.untilText(".stage", "Page 1 of 2")
	at("picture.svg")
	p.untilText(".stage pre", "<script>")
	at("page.html")
	p.untilText(".stage pre", "onerror")
	at("zip.txt")
	p.untilText(".stage", "There is no preview of application/zip.")
}

// TestConsoleCopiesLinks checks a blob's link and its curl line. A shell would interpret the blob's
// name.
func TestConsoleCopiesLinks(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	s.Must(204, "PUT", "/v1/blobs/0x1/"+e2e.Escape("it's $HOME & more.txt"), []byte("x"), "Content-Type", "text/plain")
	p := openConsole(t, s, "#/blob/0x1/"+e2e.EscapeAll("it's $HOME & more.txt"))
	p.keepCopies()
	p.press("Copy link")
	p.until("window.__copied")
	link := evaluate[string](p, "window.__copied")
	got, err := e2e.Client.Get(link)
	testenv.OK(t, err)
	if err := got.Body.Close(); err != nil || got.StatusCode != http.StatusOK {
		t.Errorf("the link %s responds %d, %v", link, got.StatusCode, err)
	}
	p.press("Copy curl")
	p.until("window.__copied.startsWith('curl')")
	if want := `curl -o 'it'\''s $HOME & more.txt' '`; !strings.HasPrefix(evaluate[string](p, "window.__copied"), want) {
		t.Errorf("the curl line is %s, want it to begin with %s", evaluate[string](p, "window.__copied"), want)
	}
}

// TestConsoleShowsTheFirstChannel runs the commands that the view of channels shows while there is
// none, after which it has one.
func TestConsoleShowsTheFirstChannel(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: []string{"--reads", "paid"}})
	p := openConsole(t, s, "#/channels")
	p.untilText("main", "There is no channel yet")
	p.screenshots("nochannel")
	dir := t.TempDir()
	account, pay, _ := strings.Cut(p.Text("main pre"), "\n")
	key := filepath.Join(dir, "account.key")
	e2e.Prints(t, append(strings.Fields(account)[1:], key)...)
	if r := e2e.SluiceRuns(t, append(strings.Fields(pay)[1:], "--account-file", key, "--state-file", filepath.Join(dir, "payer.json"))...); r.Code != 0 {
		t.Fatalf("%s: %+v", pay, r)
	}
	p.untilText("main", "1 open of 1")

	_, free := openLocal(t, "#/channels")
	free.untilText("main pre", "sluice serve --reads paid")
}

// TestConsoleShowsMoney checks that the views of sessions, channels and a channel's ledger show
// changes while they are open.
func TestConsoleShowsMoney(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "#/sessions")
	p.untilText("main", "There is no session yet")
	id := e2e.AsSession(t, s.Must(201, "POST", "/v1/sessions", []byte(`{"userIdentity":"ana\u202e"}`))).SessionID
	p.untilText("main", id)
	p.untilText("main", "anaU+202E")
	p.untilText("main", "1,000 of 1,000")
	s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	p.untilText("main", "999 of 1,000")

	c := s.Open(s.Payer(1), 1000)
	p.Open("#/channels")
	p.untilText("main", "1 open of 1")
	p.untilText("main", "1,000")
	p.Open("#/channels/" + c.ID)
	p.untilText("main", "Nothing was sold over this channel.")
	c.Buy(25)
	p.untilText("#main table", "25")
	p.untilText(".tiles", "25")
	p.Open("#/channels/none")
	p.untilText("[role=alert]", "channel_not_found")
}

// TestConsoleWaitsForSlowResponses checks that a view that keeps its list up to date does not
// request it again while it waits for a response.
func TestConsoleWaitsForSlowResponses(t *testing.T) {
	t.Parallel()
	_, p := openLocal(t, "")
	evaluate[bool](p, `(() => {
		window.__requests = 0;
		const { fetch, setTimeout } = window;
		window.fetch = (...args) => (args[0].includes("v1/local/sessions") && ++__requests > 1 ? new Promise(() => {}) : fetch(...args));
		window.setTimeout = (f, ms) => (ms === 2000 ? (window.__tick = f) : setTimeout(f, ms));
		window.setInterval = (f) => (window.__tick = f);
		location.hash = "#/sessions";
		return true;
	})()`)
	p.untilText("main", "There is no session yet")
	p.until("window.__tick")
	evaluate[bool](p, "(__tick(), true)")
	p.until("__requests === 2")
	if n := evaluate[int](p, "(__tick(), new Promise((r) => requestAnimationFrame(() => r(__requests))))"); n != 2 {
		t.Errorf("%d requests were sent, though the second has no response", n)
	}
}

// TestConsoleShowsStatus checks the figures, the charts and the limits.
func TestConsoleShowsStatus(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	store(s, "0x1", "a.bin", "application/octet-stream", strings.Repeat("x", 300<<10))
	p := openConsole(t, s, "")
	evaluate[bool](p, `(() => {
		window.__drawn = new Set();
		const { fillText } = CanvasRenderingContext2D.prototype;
		CanvasRenderingContext2D.prototype.fillText = function (text) {
			__drawn.add(text);
			return fillText.apply(this, arguments);
		};
		location.hash = "#/status";
		return true;
	})()`)
	p.untilText(".tiles", "300 KiB")
	p.untilText(".tiles", "1 blob")
	p.until(`document.querySelectorAll(".chart canvas").length === 4`)
	p.untilText("main", "Limits in force")
	p.untilText("main", "5.0 TiB")
	p.untilText("main", "Max JSON body\n64.0 KiB")
	p.untilText("main", "Max page size\n1,000")
	p.untilText(".charts", "p99: ")
	p.until(`[...__drawn].some((label) => /\d KiB$/.test(label))`) // the axis of bytes
	// An axis has a few multiples of one power of two.
	if odd := evaluate[[]string](p, `[...__drawn].filter((label) => / (bytes?|[KM]iB)$/.test(label)).filter((label) => !Number.isInteger(parseFloat(label) * 8 / 2 ** Math.floor(Math.log2(parseFloat(label)))))`); len(odd) > 0 {
		t.Errorf("the axis of bytes has the labels %q", odd)
	}
	s.Must(404, "GET", "/v1/blobs/0x1/absent", nil)
	p.until(`[...document.querySelectorAll(".tile")].some((t) => t.innerText.startsWith("Errors\n1\n"))`)

	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[{"rule":"PUT part 2%: drop-reply"}]}`))
	p.Open("#/status")
	p.untilText(".warn", "PUT part 2%: drop-reply")
}

// TestConsoleShowsSetback: after its database was set back, a server reports it on the page of its
// status, with the remedy.
// Invariant 99.
func TestConsoleShowsSetback(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Dirty: true}) // it logs the setback as an error
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), []byte("x"))
	s.Stop()
	file := filepath.Join(s.Data, "meta.db")
	older := testenv.Must(os.ReadFile(file))(t)
	s.Restart()
	p := openConsole(t, s, "#/status")
	p.untilText(".tiles", "1 blob")
	if n := evaluate[int](p, `document.querySelectorAll("#unready").length`); n != 0 {
		t.Error("a server that is ready is shown as not ready")
	}
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "lost"), []byte("x"))
	s.Stop()
	testenv.OK(t, os.WriteFile(file, older, 0o600))
	s.Restart()
	p = openConsole(t, s, "#/status") // it has another port
	p.untilText(".warn", "the instance was set back")
	p.untilText(".warn", "sluice recover")
	s.Logged("everything but reads is refused", "it lacks changes that it has acknowledged", "run sluice recover")
}

// TestConsoleShowsDamage: after a read has found that an object is missing, the page shows how much
// is damaged, and which command names it, and nothing moves when the notice appears.
func TestConsoleShowsDamage(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Dirty: true, Damaged: true}) // it logs the damage
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "lost"), make([]byte, 100_000))
	p := openConsole(t, s, "")
	p.recordShifts()
	p.Open("#/status")
	p.untilText(".tiles", "1 blob")
	p.untilText(".chart .legend", "Requests")
	if n := evaluate[int](p, `document.querySelectorAll("#damaged").length`); n != 0 {
		t.Error("damage is shown, and there is none")
	}
	p.shifts("status without damage")
	objects := testenv.Must(filepath.Glob(filepath.Join(s.Data, "bytes", "??", "*")))(t)
	testenv.Equal(t, len(objects), 1, "objects")
	testenv.OK(t, os.Remove(objects[0]))
	s.Must(500, "GET", e2e.BlobTarget("0x1", "lost"), nil)
	p.untilText(".warn", "1 blob, in 1 extent")
	p.untilText(".warn", "sluice check --recorded")
	p.shifts("status with damage")
}

// TestConsoleHosted enters a key on a hosted service below a path, stores and shows a blob that
// only the key may read, and checks that a reload forgets the key.
// Invariant 160.
func TestConsoleHosted(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key", "--console")
	key := s.NewKey("--scopes", "read,write", "--accounts", "0x1")
	store(s.As(key), "0x1", "private.png", "image/png", pngOf(t, 50, 30))
	store(s.As(key), "0x1", "private.txt", "text/plain", "secret text")
	p := openConsole(t, s, "#/blob/0x1/private.txt")
	p.untilText("dialog", "API key")
	p.untilText("main", "A key is required to read this blob.")
	p.screenshots("key")
	p.enterKey("schlüssel")
	p.until(`document.querySelector("dialog[open] input:invalid")`) // no header can have it
	p.enterKey(key)
	p.untilText(".stage", "secret text")
	evaluate[bool](p, `(location.hash = "#/blob/0x1/private.png", true)`)
	p.until(`document.querySelector(".stage img")?.naturalWidth === 50`)
	evaluate[bool](p, `(location.hash = "#/blobs/0x1/", true)`)
	p.untilText("[role=grid]", "private.png")
	p.dropAndUpload(file(t, "dropped.txt", []byte("stored by the page")))
	p.untilText("[role=grid]", "dropped.txt")
	s.As(key).Must(200, "GET", "/v1/blobs/0x1/dropped.txt", nil)
	evaluate[bool](p, `(location.hash = "#/", true)`)
	p.untilText("main", "The key may not list accounts")
	evaluate[bool](p, `(location.hash = "#/status", true)`)
	p.untilText("main", "A key with the scope admin for all accounts")
	evaluate[bool](p, `(location.hash = "#/sessions", true)`)
	p.untilText("main", "Session id")
	evaluate[bool](p, `(document.getElementById("lookup").value = "AAAAAAAAAAAAAAAAAAAAAAAAAA", true)`)
	p.press("Show")
	p.untilText("[role=alert]", "session_not_found")
	stored := evaluate[string](p, `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])`)
	if strings.Contains(stored, key) {
		t.Errorf("the key is stored: %s", stored)
	}
	p.Open("#/blob/0x1/private.txt")
	p.untilText("dialog", "API key")
	p.untilText("main", "A key is required to read this blob.")

	admin := s.NewKey("--scopes", "admin", "--all-accounts")
	p.enterKey(admin)
	evaluate[bool](p, `(location.hash = "#/status", true)`)
	p.untilText(".tiles", "3 blobs")

	c := s.As(admin).Open(s.Payer(1), 1000)
	for _, one := range []struct{ view, id, want string }{
		{"#/sessions", c.Buy(25).SessionID, "25 of 25"},
		{"#/channels", c.ID, "1,000"},
	} {
		evaluate[bool](p, fmt.Sprintf(`(location.hash = %q, true)`, one.view))
		p.until(fmt.Sprintf(`location.hash === %q && document.getElementById("lookup")?.value === ""`, one.view))
		evaluate[bool](p, fmt.Sprintf(`(document.getElementById("lookup").value = %q, true)`, one.id))
		p.press("Show")
		p.untilText(".result", one.want)
		p.screenshots("hosted-" + strings.TrimPrefix(one.view, "#/"))
	}
}
