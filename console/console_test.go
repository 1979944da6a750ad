package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// testSources is the console's place in these tests.
const testSources = "files.example:9090/console/"

func newConsole(t *testing.T) *Console {
	t.Helper()
	c := testenv.Must(New())(t)
	return c
}

// get returns the response to a path, which must exist. more are names and values of headers.
func get(t *testing.T, c *Console, method, name string, more ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/console/"+name, nil)
	for i := 0; i < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	w := httptest.NewRecorder()
	if !c.Serve(w, r, name, testSources) {
		t.Fatalf("there is no %q", name)
	}
	return w.Result()
}

func body(t *testing.T, r *http.Response) []byte {
	t.Helper()
	content := testenv.Must(io.ReadAll(r.Body))(t)
	return content
}

var reference = regexp.MustCompile(`(?:href|src)="(assets-[^"]+)"`)

// TestPagesNameExistingAssets checks that every asset that a page names exists, may be cached
// permanently, and is not changed by compression.
func TestPagesNameExistingAssets(t *testing.T) {
	c := newConsole(t)
	for name := range pages {
		page := get(t, c, "GET", name)
		if page.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("page %q: Cache-Control %q", name, page.Header.Get("Cache-Control"))
		}
		found := reference.FindAllSubmatch(body(t, page), -1)
		if len(found) < 4 {
			t.Errorf("page %q names only %d assets", name, len(found))
		}
		for _, match := range found {
			plain, zipped := get(t, c, "GET", string(match[1])), get(t, c, "GET", string(match[1]), "Accept-Encoding", "br, gzip;q=0.8")
			if got := plain.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
				t.Errorf("%s: Cache-Control %q", match[1], got)
			}
			if zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" || zipped.Header.Get("ETag") == plain.Header.Get("ETag") {
				t.Errorf("%s: headers %v and, compressed, %v", match[1], plain.Header, zipped.Header)
			}
			z := testenv.Must(gzip.NewReader(zipped.Body))(t)
			unzipped, err := io.ReadAll(z)
			if err != nil || !bytes.Equal(unzipped, body(t, plain)) {
				t.Errorf("%s: compressed, it has other bytes (error %v)", match[1], err)
			}
		}
	}
}

// TestPagesHaveNothingInline checks that the pages need no permission for inline scripts or styles.
// Invariant 159.
func TestPagesHaveNothingInline(t *testing.T) {
	c := newConsole(t)
	inline := regexp.MustCompile(`(?i)<script(?:>| [^>]*[^/]>)[^<]|<style|\sstyle=|\son\w+=|javascript:`)
	for name := range pages {
		page := get(t, c, "GET", name)
		if found := inline.Find(body(t, page)); found != nil {
			t.Errorf("page %q has inline code: %s", name, found)
		}
		policy := page.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src "+testSources+"; style-src "+testSources+"; worker-src "+testSources+";") || strings.Contains(policy, "unsafe") {
			t.Errorf("page %q: Content-Security-Policy %q", name, policy)
		}
	}
}

func TestConditionalRequest(t *testing.T) {
	c := newConsole(t)
	first := get(t, c, "GET", "", "Accept-Encoding", "gzip")
	again := get(t, c, "GET", "", "Accept-Encoding", "gzip", "If-None-Match", `"other", `+first.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified || len(body(t, again)) != 0 {
		t.Errorf("status %d", again.StatusCode)
	}
	if refused := get(t, c, "GET", "", "Accept-Encoding", "gzip;q=0"); refused.Header.Get("Content-Encoding") != "" {
		t.Error("gzip was sent to a client that refuses it")
	}
	if head := get(t, c, "HEAD", ""); head.Header.Get("Content-Length") == "" || len(body(t, head)) != 0 {
		t.Errorf("HEAD: %v", head.Header)
	}
}

// TestPageHasTheChosenTheme checks that the theme is in the page itself, and that a cache knows
// which pages differ by it. A theme that does not exist is not copied into the page.
// Invariant 161.
func TestPageHasTheChosenTheme(t *testing.T) {
	c := newConsole(t)
	for cookie, want := range map[string]string{
		"":                                 `<html lang="en">`,
		"sluice-theme=dark":                `<html lang="en" data-theme="dark">`,
		"other=1; sluice-theme=light":      `<html lang="en" data-theme="light">`,
		`sluice-theme="><script>`:          `<html lang="en">`,
		"sluice-theme=dark2; sluice-key=x": `<html lang="en">`,
	} {
		page := get(t, c, "GET", "", "Cookie", cookie)
		if got := string(body(t, page)); !strings.Contains(got, want) {
			t.Errorf("with the cookie %q, the page lacks %s", cookie, want)
		}
		if got := page.Header.Get("Vary"); got != "Accept-Encoding, Cookie" {
			t.Errorf("Vary is %q", got)
		}
	}
}

// TestAssetsOfAnotherVersion checks that a page of another node finds assets, which are not cached.
func TestAssetsOfAnotherVersion(t *testing.T) {
	c := newConsole(t)
	if got := get(t, c, "GET", "assets-0000000000000000/style.css").Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q", got)
	}
	for _, name := range []string{"style.css", "assets-0000000000000000/page.html", "assets-0000000000000000/", "../console.go", "static/page.html", "page.html", "x"} {
		w := httptest.NewRecorder()
		if c.Serve(w, httptest.NewRequest("GET", "/", nil), name, testSources) || len(w.Header()) > 0 {
			t.Errorf("%q exists", name)
		}
	}
}

// TestBudget checks that the page needs less than 150 KiB, compressed, before charts, previews of
// PDF and the interface's description, which are loaded when they are used.
func TestBudget(t *testing.T) {
	c := newConsole(t)
	page := c.pages[""][""]
	total := len(page.zipped())
	counted := map[string]bool{}
	for _, match := range reference.FindAllSubmatch(page.content, -1) {
		_, asset, _ := strings.Cut(string(match[1]), "/")
		if !counted[asset] { // the first module is named twice
			total += len(c.assets[asset].zipped())
		}
		counted[asset] = true
	}
	t.Logf("the page needs %d bytes, compressed", total)
	if total > 150<<10 {
		t.Errorf("the page needs %d bytes, compressed", total)
	}
}

// TestVendoredFiles checks that the libraries are those that vendor.sh fetches from npm.
func TestVendoredFiles(t *testing.T) {
	listed := testenv.Must(os.ReadFile("vendor.sha256"))(t)
	sums := map[string]string{}
	for line := range strings.Lines(string(listed)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ./")
		sums[name] = sum
	}
	found, licences := 0, 0
	err := fs.WalkDir(static, "static/vendor", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		found++
		if strings.HasSuffix(name, "/LICENSE.txt") {
			licences++
		}
		if sum := sha256.Sum256(content); sums[strings.TrimPrefix(name, "static/vendor/")] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is not the file of npm", name)
		}
		return nil
	})
	if err != nil || found != len(sums) || licences < 3 {
		t.Errorf("%d files of %d, %d licences, error %v", found, len(sums), licences, err)
	}
}
