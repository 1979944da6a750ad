package console

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"sluice/e2e"

	"github.com/chromedp/chromedp"
)

// TestConsoleReference checks that the page describes every operation and schema in the document.
func TestConsoleReference(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: []string{"--base-path", "/sluice"}})
	p := openConsole(t, s, "api")
	p.untilText("main", "Create or replace a blob")
	document := string(s.Must(200, "GET", "/openapi.yaml", nil).Body)
	if want, got := strings.Count(document, "operationId: "), evaluate[int](p, `document.querySelectorAll(".operation .method").length`); got != want {
		t.Errorf("%d operations are described, want %d", got, want)
	}
	if broken := evaluate[[]string](p, `[...document.querySelectorAll("main a[href^='#']")].map((a) => a.getAttribute("href")).filter((to) => !document.getElementById(to.slice(1)))`); len(broken) > 0 {
		t.Errorf("links lead nowhere: %v", broken)
	}
	if undefined := evaluate[bool](p, `/undefined|\[object/.test(document.querySelector("main").innerText)`); undefined {
		t.Error("the page shows undefined values")
	}
}

// TestConsoleTriesOperations copies an operation's curl line and runs it, and sends the requests
// that only read from the API page.
func TestConsoleTriesOperations(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: []string{"--base-path", "/sluice"}})
	s.Must(204, "PUT", "/v1/blobs/0x1/"+e2e.Escape("docs/a & b.txt"), []byte("first second"), "Content-Type", "text/plain")
	p := openConsole(t, s, "api")
	p.untilText("main", "Create or replace a blob")
	p.keepCopies()
	copied := func(operation string) string {
		p.t.Helper()
		evaluate[bool](p, fmt.Sprintf(`(window.__copied = "", document.querySelector("#%s .try > button").click(), true)`, operation))
		p.until("window.__copied")
		return evaluate[string](p, "window.__copied")
	}
	if got, want := copied("putBlob"), "curl -T FILE "+s.URL+"/v1/blobs/ACCOUNT/BLOB_NAME"; got != want {
		t.Errorf("the curl line is %s, want %s", got, want)
	}
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", copied("createSession")+" -sS").CombinedOutput(); err != nil || !strings.Contains(string(out), "sessionId") {
		t.Errorf("the curl line that creates a session prints %s, %v", out, err)
	}

	try := func(method, account, name, header string) string {
		p.t.Helper()
		evaluate[bool](p, fmt.Sprintf(`(() => {
			const box = document.querySelector("#getBlob .try"), typed = { account: %q, blobName: %q, Range: %q };
			box.querySelector("details").open = true;
			box.querySelector("pre")?.remove();
			for (const label of box.querySelectorAll("label")) {
				const input = label.querySelector("input");
				input.value = typed[label.textContent] ?? "";
				input.dispatchEvent(new Event("input"));
			}
			box.querySelector("button[value=%s]").click();
			return true;
		})()`, account, name, header, method))
		p.until(`document.querySelector("#getBlob .try pre")`)
		return p.Text("#getBlob .try pre")
	}
	if got := try("GET", "0x1", "docs/a & b.txt", "bytes=0-4"); !strings.HasPrefix(got, "206 ") || !strings.HasSuffix(got, "\n\nfirst") {
		t.Errorf("the response is shown as %q", got)
	}
	if got, want := copied("getBlob"), "curl -H 'Range: bytes=0-4' "+s.URL+"/v1/blobs/0x1/docs/a%20%26%20b.txt"; got != want {
		t.Errorf("the curl line is %s, want %s", got, want)
	}
	if got := try("HEAD", "0x1", "docs/a & b.txt", ""); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "content-length: 12") || strings.Contains(got, "first") {
		t.Errorf("the response to HEAD is shown as %q", got)
	}
	if got := try("GET", "0x1", "absent", ""); !strings.HasPrefix(got, "404 ") || !strings.Contains(got, "blob_not_found") {
		t.Errorf("the error is shown as %q", got)
	}
}

// TestConsoleTriesOperationsWithAKey sends a request with a key from a hosted network's API page.
// The key is in memory only: a reload forgets it, and nothing stores it.
// Invariant 160.
func TestConsoleTriesOperationsWithAKey(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key", "--console")
	key := s.NewKey("--scopes", "read,write", "--accounts", "0x1")
	store(s.As(key), "0x1", "secret.txt", "text/plain", "for holders of the key")
	p := openConsole(t, s, "api")
	try := func(want string) {
		t.Helper()
		p.untilText("main", "Create or replace a blob")
		evaluate[bool](p, `(() => {
			const box = document.querySelector("#getBlob .try"), typed = { account: "0x1", blobName: "secret.txt" };
			box.querySelector("details").open = true;
			for (const label of box.querySelectorAll("label")) {
				const input = label.querySelector("input");
				input.value = typed[label.textContent] ?? "";
				input.dispatchEvent(new Event("input"));
			}
			box.querySelector("button[value=GET]").click();
			return true;
		})()`)
		p.untilText("#getBlob .try pre", want)
	}
	try("401 ")
	p.press("Enter key")
	p.enterKey(key)
	p.until(`!document.querySelector("dialog") && document.getElementById("tools").innerText.includes("Key in use")`)
	try("for holders of the key")
	p.screenshots("key", "#tools", "#getBlob .try")
	if stored := evaluate[string](p, `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state])`); strings.Contains(stored, key) {
		t.Errorf("the key is stored: %s", stored)
	}
	p.Do(chromedp.Reload())
	p.untilText("#tools", "Enter key")
	try("401 ")
}

// TestConsoleDescribesOperationsOnPhones checks that the API page's descriptions are seen without
// scrolling sideways, and that no response is described as an error alone.
func TestConsoleDescribesOperationsOnPhones(t *testing.T) {
	t.Parallel()
	_, p := openLocal(t, "api")
	p.untilText("main", "Create or replace a blob")
	p.Do(chromedp.EmulateViewport(375, 900))
	if hidden := evaluate[int](p, `[...document.querySelectorAll("#getBlob td")].filter((cell) => cell.getBoundingClientRect().right > innerWidth).length`); hidden > 0 {
		t.Errorf("%d cells are not visible", hidden)
	}
	if shown := evaluate[int](p, `[...document.querySelectorAll("#getBlob td:last-child")].filter((cell) => cell.getBoundingClientRect().width > 200).length`); shown < 5 {
		t.Errorf("%d descriptions are visible", shown)
	}
	if got := p.Text("#getBlob .responses"); strings.Contains(got, "An error.") {
		t.Errorf("the responses are %s", got)
	}
}
