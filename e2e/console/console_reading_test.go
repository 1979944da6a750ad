package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestConsolePreviewsMarkdown checks that Markdown and CSV become elements, that none runs or
// leads to anything but a page, and that their sources can be shown.
func TestConsolePreviewsMarkdown(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	const hostile = `<img src=x onerror="__problems.push('run')"><script>__problems.push('run')</script>`
	store(s, "0x1", "a.md", "text/markdown", "# Title & more\n\n*it* `c<o>de` &amp; "+hostile+"\n\n"+hostile+"\n\n- [x] done\n  1. one\n\n|a|b|\n|-|-|\n|1|2|\n\n"+
		"[bad](javascript:alert(1)) [good](https://example.org/x) ![picture](https://example.org/p.png)\n\n```\n<b>\n```\n")
	store(s, "0x1", "a.csv", "text/csv", "name,\"a \"\"quoted\"\"\nline\",c\r\n1,2,<b>\r\n")
	store(s, "0x1", "many.tsv", "application/octet-stream", strings.Repeat("a,b\tc\n", 3000))
	store(s, "0x1", "deep.md", "text/markdown", strings.Repeat("> ", 60_000))
	p := openConsole(t, s, "#/blob/0x1/a.md")
	p.untilText(".prose h2", "Title & more")
	got := evaluate[string](p, `[...document.querySelectorAll(".prose *")].map((e) => e.localName).filter((name, i, all) => all.indexOf(name) === i).sort().join(" ")`)
	testenv.Equal(t, got, "a code em h2 li ol p pre span table tbody td th thead tr ul", "the elements")
	testenv.Equal(t, evaluate[string](p, `[...document.querySelectorAll(".prose a")].map((a) => a.href + " " + a.rel).join()`), "https://example.org/x noreferrer noopener", "the links")
	for _, want := range []string{"it c<o>de & <img src=x", "☑ done", "[image: picture]"} {
		if text := p.Text(".prose"); !strings.Contains(text, want) {
			t.Errorf("the text lacks %q: %s", want, text)
		}
	}
	p.screenshots("markdown")
	p.press("Show the source")
	p.untilText(".stage pre", "# Title & more")
	p.Open("#/blob/0x1/a.csv")
	p.untilText(".prose table", "quoted")
	testenv.Equal(t, evaluate[string](p, `JSON.stringify([...document.querySelectorAll(".prose tr")].map((r) => [...r.cells].map((c) => c.textContent)))`),
		`[["name","a \"quoted\"U+000Aline","c"],["1","2","<b>"]]`, "the table")
	p.Open("#/blob/0x1/many.tsv")
	p.untilText(".prose table", "a,b")
	testenv.Equal(t, evaluate[int](p, `document.querySelectorAll(".prose tr").length`), 1000, "the rows that are shown")
	p.Open("#/blob/0x1/deep.md")
	p.until(`document.querySelector(".stage")?.innerText.includes("> >")`)
}

// TestConsoleSearchesBelow checks that names are found in all folders below, and that a list shows
// expiries, icons by kind and the ends of long names.
func TestConsoleSearchesBelow(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "")
	long := strings.Repeat("long ", 60) + "ending.tar"
	s.Must(http.StatusNoContent, "PUT", e2e.BlobTarget("0x1", long), []byte("x"), "Blob-Expires", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	for i := range 1200 {
		store(s, "0x1", fmt.Sprintf("a/%d/%04d.txt", i%3, i), "text/plain", "x")
	}
	store(s, "0x1", "b/c/d/wanted.png", "image/png", "x")
	p.Open("#/blobs/0x1/")
	p.untilText("[role=grid]", "ending.tar")
	if seen := evaluate[bool](p, `(() => { const e = document.querySelector(".cut > :last-child"); return e.getBoundingClientRect().right <= e.closest("[role=gridcell]").getBoundingClientRect().right && e.textContent === "g ending.tar"; })()`); !seen {
		t.Error("a long name's end is not seen")
	}
	p.until(`document.querySelector(".grid-body .expiry time")`)
	search := func(text string) {
		evaluate[bool](p, fmt.Sprintf(`((f, w) => (w.value = "below", w.dispatchEvent(new Event("change")), f.value = %q, f.dispatchEvent(new Event("input")), true))(document.querySelector(".search input"), document.querySelector(".way"))`, text))
	}
	search("WANTED")
	p.untilText(".line", "Found in all 1,202 names.")
	p.settled("b/c/d/wanted.png")
	if shapes := evaluate[int](p, `new Set([...document.querySelectorAll(".grid-body .icon path")].map((e) => e.getAttribute("d"))).size`); shapes != 1 {
		t.Errorf("%d icons", shapes)
	}
	p.tabTo("row b/c/d/wanted.png")
	p.keys("?")
	p.untilText("dialog", "clears the selection")
	p.press("Close")
	p.tabTo("row b/c/d/wanted.png")
	p.keys(kb.Enter)
	p.untilText("h1", "wanted.png")
	p.Open("#/uploads")
	p.untilText("h1", "Accounts")
}

// TestConsoleCopiesDigests checks that a blob's digest is hexadecimal, and is copied.
func TestConsoleCopiesDigests(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "")
	sum := sha256.Sum256([]byte("x"))
	store(s, "0x1", "x.txt", "text/plain", "x", "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	p.Open("#/blob/0x1/x.txt")
	p.untilText(".properties", hex.EncodeToString(sum[:]))
	p.keepCopies()
	p.press("Copy the SHA-256")
	p.until("window.__copied")
	testenv.Equal(t, evaluate[string](p, "window.__copied"), hex.EncodeToString(sum[:]), "the copied text")
}

// TestConsoleOffersOtherFolders checks that Move proposes neither the moved things nor their
// folder.
func TestConsoleOffersOtherFolders(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "")
	for _, name := range []string{"a/x/1.txt", "a/y/1.txt", "b/1.txt"} {
		store(s, "0x1", name, "text/plain", "x")
	}
	p.Open("#/blobs/0x1/a%2F")
	p.settled("x/", "y/")
	p.tabTo("row x/")
	p.keys(" ")
	p.press("Move…")
	p.until(`document.querySelectorAll("#to-folders option").length > 0`)
	testenv.Equal(t, evaluate[string](p, `document.getElementById("to-folder").value + "|" + [...document.querySelectorAll("#to-folders option")].map((o) => o.value).join()`), "|b/", "the offered folders")
	p.press("Cancel")
}
