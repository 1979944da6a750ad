package console

import (
	"testing"

	"sluice/e2e"
	"sluice/wire"
)

// TestConsoleRules adds a rule to an account after its removals were counted, sees its run, turns
// it off by the keyboard, and deletes it. After an error, such as another administrator's change,
// the text that was typed stays.
// Invariant 214.
func TestConsoleRules(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	admin := s.As(p.admin)
	for _, name := range []string{"logs/a", "logs/b", "photo"} {
		admin.Must(204, "PUT", e2e.BlobTarget("team", name), []byte("content of "+name))
	}
	p.to("#/admin/rules", "main", "No account has rules")
	p.screenshots("rules-none")
	p.press("Rules of an account")
	p.fill("#versions-account", "team")
	p.press("Go on")
	p.untilText("main", "The account has no rules")

	// The form.
	p.press("Add a rule")
	p.fill("#rule-id", "old logs")
	p.untilText("dialog .error", "it removes nothing")
	p.until(`document.querySelector("dialog[open] [type=submit]").disabled`)
	p.fill("#rule-prefix", "logs/")
	p.fill("#rule-least", "a lot")
	p.untilText("dialog .consequence", "Of at least: ")
	p.fill("#rule-least", "1 KiB")
	p.fill("#rule-on", "2026-01-01")
	p.untilText("dialog .consequence", "Today this rule removes nothing.")
	p.fill("#rule-least", "")
	p.untilText("dialog .consequence", "Today this rule removes 2 blobs (34 bytes).")
	p.screenshots("rule-form")
	admin.ListsOnly("team", "logs/a", "logs/b", "photo")
	p.press("Save")
	p.untilText("main table", "begin with logs/")
	s.Eventually("the rule is not applied", func() bool { return len(admin.Names("team")) == 1 })
	p.untilText("main table", "2 blobs (34 bytes)")
	p.untilText("main", "Looked at")
	p.screenshots("rules")
	p.to("#/admin/rules", "[role=grid]", "2 blobs (34 bytes)")
	p.screenshots("rules-list")
	p.tabTo("row team")
	p.enter()

	// By the keyboard, while another administrator changes it.
	p.untilText("main h1", "team")
	p.tabTo("Edit old logs")
	p.enter()
	p.untilText("dialog .consequence", "Today this rule removes nothing.")
	var rules wire.Rules
	admin.Must(200, "GET", "/v1/admin/rules/team", nil).Decode(t, &rules)
	rules.Rules[0].Prefix = "logs/old/"
	admin.Must(200, "PUT", "/v1/admin/rules/team", e2e.AsJSON(t, wire.SetRules{Rules: rules.Rules}), "If-Match", rules.ETag)
	p.check("Off: it removes nothing")
	p.untilText("dialog .consequence", "It is off.")
	p.press("Save")
	p.untilText("dialog .error", "changed in the meantime")
	p.press("Cancel")
	p.untilText("main table", "begin with logs/old/")
	p.tabTo("Edit old logs")
	p.enter()
	p.untilText("dialog .consequence", "Today this rule removes nothing.")
	p.check("Off: it removes nothing")
	p.untilText("dialog .consequence", "It is off.")
	p.tabTo("button Save")
	p.enter()
	p.untilText("main table .badge", "off")

	// Away.
	p.press("Edit old logs")
	p.untilText("dialog .consequence", "It is off.")
	evaluate[bool](p.consolePage, `(window.__fetch = window.fetch, window.fetch = async () => { throw new TypeError("no network"); }, true)`)
	p.fill("#rule-prefix", "kept")
	p.untilText("dialog .error", "The server cannot be reached.")
	evaluate[bool](p.consolePage, `(window.fetch = window.__fetch, true)`)
	p.press("Cancel")
	p.press("Delete old logs")
	p.untilText("dialog", "What it removed does not come back by that.")
	p.press("Delete")
	p.untilText("main", "The account has no rules")
	p.to("#/admin/actions", "[role=grid]", "rules.set")
}
