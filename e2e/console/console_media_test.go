package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
	"sluice/test/testenv"
)

// padded returns the video of testdata with a hole before its index, so that a player must seek
// over the hole to play it at all.
func padded(t testing.TB, hole int) string {
	t.Helper()
	video, err := os.ReadFile("testdata/waves.mp4")
	testenv.OK(t, err)
	index := bytes.Index(video, []byte("moov")) - 4 // the length precedes a box's type
	if index < 0 || index < bytes.Index(video, []byte("mdat")) {
		t.Fatal("the video's index is not at its end")
	}
	free := make([]byte, hole)
	binary.BigEndian.PutUint32(free, uint32(hole))
	copy(free[4:], "free")
	return string(video[:index]) + string(free) + string(video[index:])
}

var servedRange = regexp.MustCompile(`method=GET route=/v1/blobs/\{account\}/\{blobName\.\.\.\} status=206 .*?bytes_out=(\d+)`)

// TestConsolePlaysVideo checks that the player plays a public video from the blob's address, and
// that seeking requests ranges: it does not fetch a hole of 32 MiB in the file.
// Invariant 162.
func TestConsolePlaysVideo(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	video := padded(t, 32<<20)
	store(s, "0x1", "waves.mp4", "video/mp4", video)
	p := openConsole(t, s, "#/blob/0x1/waves.mp4")
	p.until(`document.querySelector(".stage video")?.readyState >= 1`)
	if got := evaluate[string](p, `document.querySelector(".stage video").currentSrc`); got != s.URL+"/v1/blobs/0x1/waves.mp4" {
		t.Errorf("the video is fetched from %s", got)
	}
	for _, at := range []string{"3.5", "0.5"} {
		evaluate[bool](p, fmt.Sprintf(`new Promise((done) => {
			const video = document.querySelector(".stage video");
			video.addEventListener("seeked", () => done(true), { once: true });
			video.currentTime = %s;
		})`, at))
		if got := evaluate[string](p, `(({ currentTime, duration, videoWidth, videoHeight }) => [currentTime, duration, videoWidth, videoHeight].join(" "))(document.querySelector(".stage video"))`); got != at+" 4 640 360" {
			t.Errorf("after seeking, time, duration, width and height are %s", got)
		}
	}
	p.Open("") // ends the player's requests, so that the server logs them
	s.Await("the server logged fewer than two ranges", func() bool { return len(servedRange.FindAllString(s.Log.String(), -1)) >= 2 })
	sent := 0
	for _, match := range servedRange.FindAllStringSubmatch(s.Log.String(), -1) {
		n, err := strconv.Atoi(match[1])
		testenv.OK(t, err)
		sent += n
	}
	if sent > len(video)/2 {
		t.Errorf("the player fetched %d bytes of a video of %d", sent, len(video))
	}
}

// TestConsolePaysForPreviews checks that a paid read shows its price in words and a field for a
// session. The session's chunksets then pay for previews and downloads. A small blob, with an ETag
// that only payers see, can be moved and deleted.
// Invariant 160.
func TestConsolePaysForPreviews(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: []string{"--reads", "paid"}})
	store(s, "0x1", "paid.txt", "text/plain", "worth it")
	store(s, "0x1", "paid.png", "image/png", pngOf(t, 70, 50))
	session := s.Open(s.Payer(1), 1000).Buy(25)
	left := func() int64 { return s.SessionState(session.SessionID).ChunksetsLeft }
	before := left()

	p := openConsole(t, s, "#/blob/0x1/paid.txt")
	p.untilText("[role=alert]", "This read must be paid for.")
	p.screenshots("paid")
	pay := func() {
		p.t.Helper()
		p.until(`document.getElementById("pay")`)
		evaluate[bool](p, fmt.Sprintf(`(document.getElementById("pay").value = %q, true)`, session.SessionID))
		p.press("Use")
	}
	pay()
	p.untilText(".stage", "worth it")
	if got := left(); got != before-1 {
		t.Errorf("%d chunksets are left of %d after a preview", got, before)
	}
	evaluate[bool](p, `(location.hash = "#/blob/0x1/paid.png", true)`)
	p.until(`document.querySelector(".stage img")?.naturalWidth === 70`)
	p.press("Download")
	s.Await("the download was not paid", func() bool { return left() == before-3 })

	// A reload forgets the session.
	p.Open("#/sessions")
	pay()
	p.untilText("[role=status]", "chunksets left")
	p.untilText("form.card", "Previews and downloads use this session.")
	evaluate[bool](p, `(location.hash = "#/blob/0x1/paid.txt", true)`)
	p.untilText(".stage", "worth it")
	if stored := evaluate[string](p, `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])`); strings.Contains(stored, session.SessionID) {
		t.Errorf("the session is stored: %s", stored)
	}

	// Without the ETag of a small blob, a move that lost its answer is found by its key.
	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"faults":[{"rule":"POST blob first 1: drop-reply"},{"rule":"DELETE blob first 1: drop-reply"}]}`))
	p.Open("#/blobs/0x1/") // which forgets the session
	p.settled("paid.png", "paid.txt")
	p.tabTo("row paid.png")
	p.keys(kb.ArrowDown, kb.F2)
	p.until(`document.activeElement.matches(".rename")`)
	p.keys("moved", kb.Enter)
	p.settled("moved.txt", "paid.png")
	p.keys(kb.Delete)
	p.untilText("dialog", "moved.txt")
	p.untilText("dialog", "1 blob (8 bytes)")
	p.deleteNow()
	p.untilText("#toasts", "moved.txt was deleted")
	s.ListsOnly("0x1", "paid.png")
}

// TestConsoleSavesLargeKeyedBlobs takes a blob that only a key may read and that is too large for
// memory. The console does not show it, but streams it to the file that the user chooses.
// Invariant 162.
func TestConsoleSavesLargeKeyedBlobs(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key", "--console")
	key := s.NewKey("--scopes", "read,write", "--accounts", "0x1")
	content := strings.Repeat("0123456789abcde\n", (64<<20)/16+1)
	store(s.As(key), "0x1", "large.png", "image/png", content)
	p := openConsole(t, s, "#/blob/0x1/large.png")
	p.enterKey(key)
	p.untilText(".stage", "It is larger than 64.0 MiB, so it can be downloaded, but not shown.")
	// There is nobody to answer the dialog. The file is in the browser's own file system.
	evaluate[bool](p, `(window.showSaveFilePicker = async (options) => {
		window.__suggested = options.suggestedName;
		return (await navigator.storage.getDirectory()).getFileHandle("saved", { create: true });
	}, true)`)
	p.press("Download")
	p.untilText("#toasts", "large.png was saved")
	sum := sha256.Sum256([]byte(content))
	if got := evaluate[string](p, `navigator.storage.getDirectory().then((d) => d.getFileHandle("saved")).then((h) => h.getFile()).then((f) => f.arrayBuffer())
		.then((b) => crypto.subtle.digest("SHA-256", b)).then((d) => btoa(String.fromCharCode(...new Uint8Array(d))))`); got != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("the saved file has the SHA-256 %s", got)
	}
	if got := evaluate[string](p, "window.__suggested"); got != "large.png" {
		t.Errorf("the dialog suggests %q", got)
	}
}
