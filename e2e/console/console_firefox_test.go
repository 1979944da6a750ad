package console

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestConsoleAdministersInFirefox creates a key with a hosted network's console, opens a folder,
// revokes the key, and checks each page with axe-core in both themes, and its width in three
// windows, of 500 pixels and more.
func TestConsoleAdministersInFirefox(t *testing.T) {
	testenv.Require(t, testenv.Firefox)
	t.Parallel()
	s := e2e.StartHosted(t, "key", "--console")
	admin := s.NewKey("--scopes", "admin", "--all-accounts")
	axe, err := os.ReadFile(filepath.Join(testenv.Must(testenv.ClientDir())(t), "node_modules", "axe-core", "axe.min.js"))
	testenv.OK(t, err)
	f := e2e.StartFirefox(t)
	f.Open(s.URL + "/console/#/admin")
	press := func(label string) {
		t.Helper()
		find := fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a")].find((e) => !e.disabled && (e.getAttribute("aria-label") ?? e.innerText).trim() === %s)`, e2e.AsJSON(t, label))
		f.Until(find)
		f.Run(find+".click()", nil)
	}
	fill := func(selector, text string) {
		t.Helper()
		f.Until(fmt.Sprintf(`document.querySelector("dialog[open]")?.querySelector(%s)`, e2e.AsJSON(t, selector)))
		f.Run(fmt.Sprintf(`const e = document.querySelector("dialog[open]").querySelector(%s); e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); e.dispatchEvent(new Event("change"));`, e2e.AsJSON(t, selector), e2e.AsJSON(t, text)), nil)
	}
	has := func(selector, text string) {
		t.Helper()
		f.Until(fmt.Sprintf(`document.querySelector(%s)?.innerText.includes(%s)`, e2e.AsJSON(t, selector), e2e.AsJSON(t, text)))
	}
	checked := func(name string) {
		t.Helper()
		for _, width := range widths {
			f.Resize(int(width), 900)
			var wide int
			if f.Run("return document.documentElement.scrollWidth - innerWidth", &wide); wide > 0 {
				t.Errorf("%s is %d pixels too wide for %d", name, wide, width)
			}
		}
		var found []string
		f.Run(string(axe)+`; return axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)));`, &found)
		for _, violation := range found {
			t.Errorf("%s: %s", name, violation)
		}
	}
	fill("#key", admin)
	press("Use key")
	press("Create key")
	fill("fieldset input:not([type])", "team-a")
	checked("the form of a key")
	press("Create key")
	has("dialog", "It is shown this once")
	checked("a new key")
	var credential string
	f.Run(`return document.querySelector("dialog textarea").value`, &credential)
	press("I have stored it")
	has("main", "Requests to start with")
	checked("a key")
	s.As(admin).Must(204, "PUT", e2e.BlobTarget("team-a", "photos/one"), []byte("one"))
	s.As(credential).Must(200, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	press("Revoke")
	has("dialog", "refused within seconds, on all nodes")
	checked("the question before a key is revoked")
	press("Revoke")
	has("main .badge", "revoked")
	s.Eventually("the revoked key is accepted", func() bool {
		return s.As(credential).Do("GET", e2e.BlobTarget("team-a", "photos/one"), nil).Status == 401
	})
	f.Run(`location.hash = "#/blobs/team-a/photos%2F"`, nil)
	press("Who may read")
	fill("#place-reads", "public")
	checked("who may read")
	press("Save")
	has(".crumbs .badge", "public")
	s.As("").Must(200, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	for _, theme := range themes {
		for _, page := range []struct{ name, text string }{
			{"keys", "revoked"}, {"groups", "Stored"}, {"places", "photos/"}, {"versions", "No account keeps versions"}, {"rules", "No account has rules"}, {"uploads", "No upload is open"}, {"damaged", "Nothing is damaged"},
			{"tasks", "Sweep"}, {"nodes", "leads"}, {"actions", "key.revoke"},
		} {
			f.Run(fmt.Sprintf("location.hash = '#/admin/%s'", page.name), nil)
			has("main", page.text)
			checked(page.name + " in " + theme)
		}
		press("Switch between light and dark")
	}
}
