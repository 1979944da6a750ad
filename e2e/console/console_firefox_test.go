package console

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// fox is a console's page in Firefox.
type fox struct {
	*e2e.Firefox
	t   *testing.T
	axe string
}

func startFox(t *testing.T) *fox {
	t.Helper()
	axe := testenv.Must(os.ReadFile(filepath.Join(testenv.Must(testenv.ClientDir())(t), "node_modules", "axe-core", "axe.min.js")))(t)
	return &fox{e2e.StartFirefox(t), t, string(axe)}
}

// press presses a button or a link, in the open dialog if there is one.
func (f *fox) press(label string) {
	f.t.Helper()
	find := fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a")].find((e) => !e.disabled && (e.getAttribute("aria-label") ?? e.innerText).trim() === %s)`, e2e.AsJSON(f.t, label))
	f.Until(find)
	f.Run(find+".click()", nil)
}

// fill fills a field in the open dialog.
func (f *fox) fill(selector, text string) {
	f.t.Helper()
	f.Until(fmt.Sprintf(`document.querySelector("dialog[open]")?.querySelector(%s)`, e2e.AsJSON(f.t, selector)))
	f.Run(fmt.Sprintf(`const e = document.querySelector("dialog[open]").querySelector(%s); e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); e.dispatchEvent(new Event("change"));`, e2e.AsJSON(f.t, selector), e2e.AsJSON(f.t, text)), nil)
}

// has waits until an element has a text.
func (f *fox) has(selector, text string) {
	f.t.Helper()
	f.Until(fmt.Sprintf(`document.querySelector(%s)?.innerText.includes(%s)`, e2e.AsJSON(f.t, selector), e2e.AsJSON(f.t, text)))
}

// checked checks the page with axe-core, and its width in three windows.
func (f *fox) checked(name string) {
	f.t.Helper()
	for _, width := range widths {
		f.Resize(int(width), 900)
		var wide int
		if f.Run("return document.documentElement.scrollWidth - innerWidth", &wide); wide > 0 {
			f.t.Errorf("%s is %d pixels too wide for %d", name, wide, width)
		}
	}
	var found []string
	f.Run(f.axe+`; return axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)));`, &found)
	for _, violation := range found {
		f.t.Errorf("%s: %s", name, violation)
	}
}

// TestConsoleAdministersInFirefox creates a key with a hosted network's console, opens a folder,
// revokes the key, and checks each page with axe-core in both themes, and its width in three
// windows, of 500 pixels and more.
func TestConsoleAdministersInFirefox(t *testing.T) {
	testenv.Require(t, testenv.Firefox)
	t.Parallel()
	s := e2e.StartHosted(t, "key", "--console")
	admin := s.NewKey("--scopes", "admin", "--all-accounts")
	f := startFox(t)
	f.Open(s.URL + "/console/#/admin")
	f.fill("#key", admin)
	f.press("Use key")
	f.press("Create key")
	f.fill("fieldset input:not([type])", "team-a")
	f.checked("the form of a key")
	f.press("Create key")
	f.has("dialog", "It is shown this once")
	f.checked("a new key")
	var credential string
	f.Run(`return document.querySelector("dialog textarea").value`, &credential)
	f.press("I have stored it")
	f.has("main", "Requests to start with")
	f.checked("a key")
	s.As(admin).Must(204, "PUT", e2e.BlobTarget("team-a", "photos/one"), []byte("one"))
	s.As(credential).Must(200, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	f.press("Revoke")
	f.has("dialog", "refused within seconds, on all nodes")
	f.checked("the question before a key is revoked")
	f.press("Revoke")
	f.has("main .badge", "revoked")
	s.Eventually("the revoked key is accepted", func() bool {
		return s.As(credential).Do("GET", e2e.BlobTarget("team-a", "photos/one"), nil).Status == 401
	})
	f.Run(`location.hash = "#/blobs/team-a/photos%2F"`, nil)
	f.press("Who may read")
	f.fill("#place-reads", "public")
	f.checked("who may read")
	f.press("Save")
	f.has(".crumbs .badge", "public")
	s.As("").Must(200, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	for _, theme := range themes {
		for _, page := range []struct{ name, text string }{
			{"keys", "revoked"}, {"groups", "Stored"}, {"places", "photos/"}, {"versions", "No account keeps versions"}, {"rules", "No account has rules"}, {"webhooks", "There is no webhook"}, {"uploads", "No upload is open"}, {"damaged", "Nothing is damaged"},
			{"tasks", "Sweep"}, {"nodes", "leads"}, {"actions", "key.revoke"},
		} {
			f.Run(fmt.Sprintf("location.hash = '#/admin/%s'", page.name), nil)
			f.has("main", page.text)
			f.checked(page.name + " in " + theme)
		}
		f.press("Switch between light and dark")
	}
}
