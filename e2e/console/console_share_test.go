package console

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestConsoleSharesLinks copies links on a hosted service, signed with a secret that only the page
// has in memory, and uses them without a key.
func TestConsoleSharesLinks(t *testing.T) {
	t.Parallel()
	masters := filepath.Join(testenv.MemoryDir(t), "masters")
	testenv.OK(t, os.WriteFile(masters, []byte(strings.Repeat("01", 32)), 0o600))
	s := e2e.StartHosted(t, "key", "--console", "--s3-secret-key-file", masters)
	created := e2e.Key(t, s.Data, "create", "--scopes", "read,write", "--accounts", "0x1", "--s3", "--s3-secret-key-file", masters).Stdout
	found := regexp.MustCompile(`^(\S+)\nAWS_ACCESS_KEY_ID=(\S+)\nAWS_SECRET_ACCESS_KEY=(\S+)\n$`).FindStringSubmatch(created)
	if found == nil {
		t.Fatalf("key create prints %q", created)
	}
	key, id, secret := found[1], found[2], found[3]
	s.As(key).Must(204, "PUT", e2e.BlobTarget("0x1", "dir/ä b.txt"), []byte("shared"), "Content-Type", "text/plain")

	p := openConsole(t, s, "#/blob/0x1/"+url.PathEscape("dir/ä b.txt"))
	p.untilText("dialog", "API key")
	p.enterKey(key)
	p.untilText(".stage", "shared")
	p.keepCopies()
	fill := func(field, text string) {
		p.t.Helper()
		evaluate[bool](p, fmt.Sprintf(`((e) => { e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); return true; })(document.querySelector("dialog[open] #%s"))`, e2e.AsJSON(t, text), field))
	}
	// copied presses a button, and returns the copied text.
	copied := func(choice string) string {
		p.t.Helper()
		evaluate[bool](p, `(window.__copied = "", true)`)
		p.press(choice)
		p.until(`window.__copied && !document.querySelector("dialog[open]")`)
		text := evaluate[string](p, "window.__copied")
		path, ok := strings.CutPrefix(text, s.URL)
		if !ok {
			t.Fatalf("copied is %q, which is not of %s", text, s.URL)
		}
		return path
	}
	p.press("Copy link")
	p.untilText("dialog", "Anybody with the link can read")
	p.screenshots("share")
	p.press("Copy link")
	p.until(`document.querySelector("dialog[open] input:invalid")`) // without a secret
	fill("share-key", id)
	fill("share-secret", secret)
	read := copied("Copy link")
	r := s.Must(200, "GET", read, nil)
	testenv.Equal(t, string(r.Body), "shared", "the blob that the link reads")
	testenv.Equal(t, r.Header.Get("Cache-Control"), "private, no-store", "Cache-Control")
	p.press("Copy link")
	testenv.Equal(t, evaluate[string](p, `document.querySelector("dialog[open] #share-secret").value`), secret, "the secret that is proposed")
	address := copied("Address without a signature")
	testenv.Equal(t, address, e2e.BlobTarget("0x1", "dir/ä b.txt"), "the address")

	evaluate[bool](p, `(location.hash = "#/blobs/0x1/dir%2F", true)`)
	p.untilText("[role=grid]", "ä b.txt")
	p.press("Copy link")
	p.untilText("dialog", "list and read everything in this folder")
	p.screenshots("share-folder")
	list := copied("Copy link")
	if body := string(s.Must(200, "GET", list, nil).Body); !strings.Contains(body, "dir/ä b.txt") {
		t.Errorf("the link lists %s", body)
	}
	_, token, _ := strings.Cut(list, "&")
	testenv.Equal(t, string(s.Must(200, "GET", e2e.BlobTarget("0x1", "dir/ä b.txt")+"?"+token, nil).Body), "shared", "the blob that the folder's link reads")
	p.press("Copy link")
	evaluate[bool](p, `(document.querySelector("dialog[open] input[value=create]").click(), true)`)
	p.press("Copy link")
	p.until(`document.querySelector("dialog[open] #share-name:invalid")`)
	fill("share-name", "new")
	create := copied("Copy link")
	s.Must(204, "PUT", create, []byte("created"))
	e2e.CheckProblem(t, s.Do("PUT", create, []byte("again")), 412, "precondition_failed")
	testenv.Equal(t, string(s.As(key).Must(200, "GET", e2e.BlobTarget("0x1", "dir/new"), nil).Body), "created", "the stored blob")

	if stored := evaluate[string](p, `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])`); strings.Contains(stored, secret) {
		t.Errorf("the secret is stored: %s", stored)
	}
	if strings.Contains(s.SettledLog(), secret) {
		t.Error("the secret was sent")
	}
}
