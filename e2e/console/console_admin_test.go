package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
	"sluice/test/testenv"
)

// office is a hosted network's console that an administrator uses.
type office struct {
	*consolePage
	admin string // the administrator's key
}

// openOffice starts a hosted network, where keys get S3 secrets, and opens its administration with
// a key with these grants.
func openOffice(t *testing.T, grants ...string) (*e2e.Server, *office) {
	t.Helper()
	testenv.Require(t, testenv.Chromium)
	masters := filepath.Join(testenv.MemoryDir(t), "masters")
	testenv.OK(t, os.WriteFile(masters, []byte(strings.Repeat("01", 32)), 0o600))
	s := e2e.StartHosted(t, "key", "--console", "--s3-secret-key-file", masters)
	o := &office{admin: s.NewKey(grants...)}
	o.consolePage = openConsole(t, s, "#/admin")
	o.enterKey(o.admin)
	o.untilText("main h1", "Keys")
	return s, o
}

// idOf returns a credential's public part.
func idOf(credential string) string { return strings.Split(credential, "_")[1] }

// to goes to a view without loading the page, which would forget the key.
func (p *consolePage) to(view, selector, text string) {
	p.t.Helper()
	evaluate[bool](p, fmt.Sprintf("(location.hash = %s, true)", e2e.AsJSON(p.t, view)))
	p.untilText(selector, text)
}

// fill sets a field of the open dialog, as if it were typed.
func (p *consolePage) fill(field, text string) {
	p.t.Helper()
	evaluate[bool](p, fmt.Sprintf(`((e) => { e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); e.dispatchEvent(new Event("change")); return true; })(document.querySelector("dialog[open]").querySelector(%s))`, e2e.AsJSON(p.t, text), e2e.AsJSON(p.t, field)))
}

// check presses the open dialog's checkbox with a text in its label.
func (p *consolePage) check(label string) {
	p.t.Helper()
	evaluate[bool](p, fmt.Sprintf(`([...document.querySelectorAll("dialog[open] label")].find((e) => e.innerText.includes(%s)).click(), true)`, e2e.AsJSON(p.t, label)))
}

// issued returns the secrets that the open dialog shows, and closes it.
func (p *consolePage) issued() []string {
	p.t.Helper()
	p.untilText("dialog", "It is shown this once")
	p.keys(kb.Escape) // does not lose it
	secrets := evaluate[[]string](p, `[...document.querySelectorAll("dialog[open] textarea")].map((e) => e.value)`)
	if stored := evaluate[string](p, `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state])`); slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(stored, secret) }) {
		p.t.Errorf("a secret is stored: %s", stored)
	}
	p.press("I have stored it")
	p.until(`!document.querySelector("dialog[open]")`)
	return secrets
}

// TestConsoleAdministers creates a tenant's key in a browser, limits its group, sees its use,
// revokes the key, and finds the record of all that.
// Invariant 160.
func TestConsoleAdministers(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	p.until(`!document.getElementById("administration").hidden`)
	p.press("Create key")
	p.fill("#key-label", "tenant <one>")
	p.check("write: ")
	p.fill("fieldset input:not([type])", "team-a, 0xZZ")
	p.press("Create key")
	p.until(`document.querySelector("dialog[open] input:invalid")`) // the account is none
	p.fill("fieldset input:not([type])", "team-a")
	p.fill("#key-group", "tenants")
	p.check("With an S3 secret")
	p.screenshots("admin-create")
	p.press("Create key")
	p.screenshots("admin-issued")
	secrets := p.issued()
	if len(secrets) != 3 || secrets[1] != idOf(secrets[0]) || len(secrets[2]) != 40 {
		t.Fatalf("the dialog shows %q, want a key, its id and an S3 secret", secrets)
	}
	p.untilText("main h1", "tenant <one>")
	tenant := s.As(secrets[0])
	tenant.Must(204, "PUT", e2e.BlobTarget("team-a", "first"), make([]byte, 3000))
	p.screenshots("admin-key")
	p.Do(chromedp.EmulateViewport(widths[0], 900)) // Revoke needs no scrolling
	p.until(`document.querySelector("main .head .danger").getBoundingClientRect().right <= innerWidth`)
	p.Do(chromedp.EmulateViewport(1280, 900))

	p.to("#/admin/groups", "[role=grid]", "tenants")
	p.press("tenants")
	p.untilText("main", "Used")
	p.press("Set limits")
	testenv.Equal(t, evaluate[string](p.consolePage, `[...document.querySelectorAll("dialog[open] input")].map((e) => e.id.slice(6)).join(" ")`),
		"requestsPerSecond bytesInPerSecond bytesOutPerSecond concurrentRequests storedBytes occupiedBytes storedObjects openUploads channels", "the limits")
	p.fill("#limit-storedBytes", "much")
	p.press("Set limits")
	p.until(`document.querySelector("dialog[open] input:invalid")`)
	p.fill("#limit-storedBytes", "5 KiB")
	p.screenshots("admin-limits")
	p.press("Set limits")
	p.untilText("main", "of 5.0 KiB")
	if used := evaluate[float64](p.consolePage, `document.querySelector("main meter").value`); used < 3000 || used > 5000 {
		t.Errorf("the bar shows %v bytes in use, want a little more than 3000", used)
	}
	p.screenshots("admin-group")
	s.Eventually("the group stores more than its limit", func() bool {
		return tenant.Do("PUT", e2e.BlobTarget("team-a", "second"), make([]byte, 3000)).Status == 403
	})

	p.to("#/admin/keys", "[role=grid]", "tenant <one>")
	p.tabTo("row ")
	for range 2 { // the order is of the ids
		if !strings.Contains(p.focused(), "tenant <one>") {
			p.keys(kb.ArrowDown)
		}
	}
	p.enter()
	p.untilText("main h1", "tenant <one>")
	p.tabTo("Revoke")
	p.enter()
	p.untilText("dialog", "requests with this key are refused within seconds, on all nodes")
	testenv.Equal(t, p.focused(), "button Cancel", "the focus before a key is revoked")
	p.screenshots("admin-revoke")
	p.keys(kb.Tab)
	p.enter()
	p.untilText("main", "revoked")
	s.Eventually("the revoked key is accepted", func() bool {
		return tenant.Do("GET", e2e.BlobTarget("team-a", "first"), nil).Status == 401
	})
	p.last(s)

	p.to("#/admin/actions", "[role=grid]", "key.revoke")
	for i, want := range []string{"key.revoke " + secrets[1], "group.update tenants", "key.create " + secrets[1]} {
		if row := p.Text(fmt.Sprintf("[role=grid] [aria-rowindex='%d']", i+2)); !strings.Contains(row, want) || !strings.Contains(row, idOf(p.admin)) || !strings.Contains(row, "127.0.0.1") {
			t.Errorf("action %d is shown as %q, want %s by %s", i, row, want, idOf(p.admin))
		}
	}
	for _, width := range widths {
		p.Do(chromedp.EmulateViewport(width, 900))
		if hidden := evaluate[float64](p.consolePage, `document.getElementById("administration").getBoundingClientRect().right - document.getElementById("nav").getBoundingClientRect().right`); hidden > 0 {
			t.Errorf("at %d the navigation hides %v pixels of Admin", width, hidden)
		}
		if row := p.Text("[role=grid] [aria-rowindex='2']"); !strings.Contains(row, idOf(p.admin)) {
			t.Errorf("at %d the row does not show who did it: %q", width, row)
		}
	}
	p.Do(chromedp.EmulateViewport(1280, 900))
	evaluate[bool](p.consolePage, `(document.querySelector("[role=grid] [aria-rowindex='3']").click(), true)`)
	p.untilText("dialog", `"storedBytes": 5120`)
	p.screenshots("admin-action")
	p.press("Close")
	log := s.SettledLog()
	for _, secret := range []string{secrets[0], secrets[2]} {
		if strings.Contains(log, secret) {
			t.Error("a secret is in the log")
		}
	}
}

// last checks that the only key that administers everything is revoked by the one who types its
// id.
func (p *office) last(s *e2e.Server) {
	p.t.Helper()
	p.to("#/admin/keys/"+idOf(p.admin), "main", "This page uses this key.")
	p.press("Revoke")
	p.untilText("dialog", "This page uses this key, and will need another one.")
	p.press("Revoke")
	p.untilText("dialog", "no other valid key administers all accounts")
	p.fill("input", idOf(p.admin)[1:])
	p.keys(kb.Enter)
	p.until(`document.querySelector("#typed:invalid")`)
	p.press("Cancel")
	s.As(p.admin).Must(200, "GET", "/v1/admin/keys", nil)
}

// TestConsoleOpensAndBlocks makes a folder public, sees its badge, and blocks one of its blobs for
// a time.
func TestConsoleOpensAndBlocks(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	admin, anybody := s.As(p.admin), s.As("")
	for _, name := range []string{"photos/one", "photos/two", "private/three"} {
		admin.Must(204, "PUT", e2e.BlobTarget("team-a", name), []byte(name))
	}
	anybody.Must(401, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	p.to("#/admin/places", "main", "No place has settings")
	p.to("#/blobs/team-a/photos%2F", "[role=grid]", "one")
	p.press("Who may read")
	p.untilText("dialog", "Now only keys with the scope read can read")
	p.fill("#place-reads", "public")
	p.untilText("dialog .consequence", "Everyone can read, without a key and without paying: whoever reaches this service, on the whole internet if it is there")
	p.screenshots("admin-public")
	p.press("Save")
	p.untilText(".crumbs", "public")
	anybody.Must(200, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	anybody.Must(401, "GET", e2e.BlobTarget("team-a", "private/three"), nil)
	anybody.Must(401, "GET", "/v1/blobs/team-a?prefix=photos/", nil)
	p.to("#/blobs/team-a/", "[role=grid] .badge", "public")
	testenv.Equal(t, evaluate[string](p.consolePage, `[...document.querySelectorAll("[role=row]")].filter((row) => row.querySelector(".badge")).map((row) => row.querySelector(".name").innerText).join()`), "photos/", "the folders with a badge")
	p.screenshots("admin-badge")

	p.to("#/blob/team-a/photos%2Ftwo", ".properties", "10 bytes")
	p.press("Who may read")
	p.untilText("dialog", "Now everyone can read")
	p.check("Blocked: nobody can read")
	p.untilText("dialog .consequence", "Purge the caches")
	p.press("Save")
	p.until(`document.querySelector("dialog[open] #place-reason:invalid")`)
	p.fill("#place-reason", "order 7 of a court")
	p.press("Save")
	p.untilText("main .error", "order 7 of a court")
	anybody.WantCode(451, "blocked", "GET", e2e.BlobTarget("team-a", "photos/two"), nil)
	anybody.Must(200, "GET", e2e.BlobTarget("team-a", "photos/one"), nil)
	p.to("#/blobs/team-a/photos%2F", "[role=grid] .badge.blocked", "blocked")
	p.to("#/admin/places", "[role=grid]", "team-a/photos/two")
	p.screenshots("admin-places")
	p.press("Set a place")
	p.fill("#place-account", "team-a")
	p.fill("#place-name", "photos/two")
	p.check("only the blob of exactly this name")
	p.press("Go on")
	p.untilText("dialog", "Now nobody can read")
	p.check("Blocked: nobody can read")
	p.untilText("dialog .consequence", "It can be read again")
	p.press("Save")
	p.until(`!document.querySelector("dialog[open]") && !document.querySelector("[role=grid]")?.innerText.includes("two")`)
	anybody.Must(200, "GET", e2e.BlobTarget("team-a", "photos/two"), nil)
	p.to("#/admin/actions", "[role=grid]", "place.set team-a/photos/two")
}

// TestConsoleOfSomeAccounts uses the administration with a key that administers one account: it
// offers what the interface permits. A key without the scope admin is offered nothing.
func TestConsoleOfSomeAccounts(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--accounts", "team-a", "--group", "tenants")
	foreign := s.NewKey("--scopes", "read", "--accounts", "team-a", "--group", "others")
	s.NewKey("--scopes", "read", "--accounts", "team-b", "--group", "tenants", "--label", "unseen")
	tabs := func() string {
		return evaluate[string](p.consolePage, `[...document.querySelectorAll(".tabs a")].map((a) => a.innerText).join(" ")`)
	}
	testenv.Equal(t, tabs(), "Keys Groups Places Versions Rules Webhooks Actions", "the pages")
	p.press("Create key")
	if got := evaluate[[]string](p.consolePage, `[...document.querySelectorAll("dialog[open] input:not([type=checkbox])")].map((e) => e.id.replace(/-\d+/, "") + "=" + e.value)`); strings.Join(got, " ") != "key-label= grant-accounts=team-a grant-prefix= key-expires=" {
		t.Errorf("the form of a restricted administrator has %q", got)
	}
	p.fill("fieldset input:not([type])", "team-b")
	p.press("Create key")
	p.untilText("dialog", "beyond_key") // what was typed stays
	p.fill("fieldset input:not([type])", "team-a")
	p.press("Create key")
	made := p.issued()
	p.untilText("main", "tenants")
	p.press("Revoke") // it is this administrator's
	p.press("Cancel")
	p.to("#/admin/keys/"+idOf(foreign), "main", "others")
	if buttons := p.Text("main .head .actions"); buttons != "" {
		t.Errorf("a key of another group has the buttons %q", buttons)
	}
	p.to("#/admin/keys", "[role=grid]", idOf(made[0]))
	if list := p.Text("[role=grid]"); strings.Contains(list, "unseen") || !strings.Contains(list, idOf(foreign)) {
		t.Errorf("the keys are %s", list)
	}
	p.to("#/admin/groups/tenants", "main", "Stored bytes")
	if buttons := p.Text("main .head .actions"); buttons != "" {
		t.Errorf("a group that may not be changed has the buttons %q", buttons)
	}
	p.to("#/blobs/team-a/", "main", "Nothing is stored here")
	p.press("Who may read")
	p.untilText("dialog", "only keys with the scope read can read")
	if text := p.Text("dialog"); strings.Contains(text, "Blocked") || strings.Contains(text, "may open") {
		t.Errorf("a restricted administrator is offered %q", text)
	}
	p.fill("#place-reads", "public")
	p.press("Save")
	p.until(`document.querySelector("dialog[open] select:invalid")`) // the operator does not permit it
	p.fill("#place-reads", "key")
	p.press("Save")
	p.untilText(".crumbs", "team-a")
	p.to("#/admin/places", "[role=grid]", "team-a")
	p.to("#/admin/damaged", "main h1", "Keys") // it is not offered
	p.press("Key in use")
	p.enterKey(foreign)
	p.untilText("main", "It needs a key with the scope admin")
	p.until(`document.getElementById("administration").hidden`)
}

// TestConsoleShowsDamageAndProtection: a damaged blob is a row with its facts and a link to it, and
// so is a kept version; and an account has badges for its public access block, its permission and
// its public list.
func TestConsoleShowsDamageAndProtection(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Dirty: true, Damaged: true, Flags: []string{"--s3-addr", "127.0.0.1:0"}})
	for _, name := range []string{"torn <one>", "whole"} {
		s.Must(204, "PUT", e2e.BlobTarget("team-a", name), e2e.Content(1, 10_000+len(name)))
	}
	keepVersions(s, "team-b")
	kept := s.Must(204, "PUT", e2e.BlobTarget("team-b", "old"), e2e.Content(2, 10_010)).Header.Get("Blob-Version")
	s.Must(204, "DELETE", e2e.BlobTarget("team-b", "old"), nil)
	s.Stop()
	e2e.Execute(t, s.Data, `UPDATE bodies SET body = CAST(substr(body, 1, 7000) || x'00' || substr(body, 7002) AS BLOB) WHERE length(body) = 10010`)
	s.Launch()
	s.WantDamaged(e2e.BlobTarget("team-a", "torn <one>"), e2e.VersionTarget("team-b", kept, "old"))
	p := openConsole(t, s, "#/admin/damaged")
	p.untilText("[role=grid]", "team-a / torn <one>")
	p.untilText(".sub[role=status]", "2 extents")
	p.screenshots("admin-torn")
	p.untilText("[role=grid]", "team-b / old, a kept version")
	evaluate[bool](p, `(document.querySelector("[role=grid] [aria-rowindex='3']").click(), true)`)
	p.untilText("dialog", "team-b / old, version "+kept)
	p.press("Close")
	evaluate[bool](p, `(document.querySelector("[role=grid] [aria-rowindex='2']").click(), true)`)
	p.untilText("dialog", "none: the database has the bytes")
	p.untilText("dialog", "9.8 KiB, at offset 0 of part 0")
	p.press("team-a / torn <one>")
	p.until(`location.hash.startsWith("#/blob/team-a/torn")`)

	s.Must(200, "PATCH", "/v1/admin/places/team-a", []byte(`{"mayOpen":true,"lists":"public"}`))
	request := testenv.Must(http.NewRequest(http.MethodPut, s.S3+"/team-a?publicAccessBlock", strings.NewReader("<PublicAccessBlockConfiguration><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>")))(t)
	response := testenv.Must(http.DefaultClient.Do(request))(t)
	testenv.OK(t, response.Body.Close())
	testenv.Equal(t, response.StatusCode, 200, "the public access block")
	p.to("#/admin/places", "[role=grid] .badge", "public list")
	testenv.Equal(t, evaluate[string](p, `[...document.querySelectorAll("[role=grid] .badge")].map((badge) => badge.innerText).join()`), "public list,guarded,may open", "the badges of the account")
	p.screenshots("admin-guarded")
}

// TestConsoleAdminScreens takes the pictures of a local instance's administration, without anything
// and with many things, and uses it while the server is away.
func TestConsoleAdminScreens(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "#/admin")
	views := []screen{
		{"keys", "#/admin/keys", "main", "There is no key"}, {"groups", "#/admin/groups", "main", "There is no group"},
		{"places", "#/admin/places", "main", "No place has settings"}, {"uploads", "#/admin/uploads", "main", "No upload is open"}, {"damaged", "#/admin/damaged", "main", "Nothing is damaged"},
		{"tasks", "#/admin/tasks", "main", "Sweep"}, {"nodes", "#/admin/nodes", "main", "ready"}, {"actions", "#/admin/actions", "main", "Nothing was changed yet"},
	}
	for _, view := range views {
		p.to(view.address, view.selector, view.text)
	}
	p.screenshots("admin-empty")
	for i := range 1100 { // more than a page
		s.Must(201, "POST", "/v1/admin/keys", fmt.Appendf(nil, `{"label":"program %04d","grants":[{"scopes":["read","create"],"accounts":["team-a"],"prefix":"photos/"},{"scopes":["write"]}],"group":"group-%d"}`, i, i%3))
	}
	s.Begin("0x1", "film.mp4", 1<<20)
	for i, text := range []string{"program", "group-2", "No place has", "film.mp4", "Nothing is damaged", "Sweep", "leads", "key.create"} {
		p.to(views[i].address, "main", text)
		p.screenshots("admin-" + views[i].name)
	}
	p.to("#/admin/tasks", "main", "Sweep")
	p.tabTo("Pause Sweep")
	p.enter()
	p.untilText("dialog", "until the task is resumed")
	p.screenshots("admin-pause")
	p.press("Pause")
	p.press("Resume Sweep")
	p.press("Start Sweep")
	p.until(`document.querySelector("[aria-label='Pause Sweep']")`)

	p.to("#/admin/keys", ".sub[role=status]", "1,000 or more keys")
	p.tabTo("row ")
	p.keys(kb.End)
	p.untilText(".sub[role=status]", "1,100 keys")
	p.to("#/admin/uploads", "[role=grid]", "film.mp4")
	p.press("Abort film.mp4")
	p.press("Abort upload")
	p.untilText("main", "No upload is open")

	p.to("#/admin/keys", "[role=grid]", "program")
	p.press("Create key")
	p.fill("#key-label", "kept")
	p.fill("fieldset input:not([type])", "0x1")
	s.Kill()
	p.press("Create key")
	p.untilText("dialog", "The server cannot be reached.")
	p.screenshots("admin-offline-dialog")
	testenv.Equal(t, evaluate[string](p, `document.querySelector("#key-label").value`), "kept", "the label that was typed")
	p.press("Cancel")
	p.to("#/admin/groups", "main", "The server cannot be reached.")
	p.screenshots("admin-offline")
	s.Launch()
	p.Do(chromedp.Navigate(p.address() + "#/admin/groups"))
	p.untilText("[role=grid]", "group-1")
}
