package console

import (
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestConsoleWebhooks creates a webhook, whose secret is shown once, tests it, sees it fail while
// its receiver's name is not known, changes it, turns it off and on, rotates its secret, and
// deletes it.
// Invariant 240.
func TestConsoleWebhooks(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	admin := s.As(p.admin)
	p.to("#/admin/webhooks", "main", "There is no webhook")
	p.press("Create webhook")
	p.fill("#webhook-url", "http://example.org/")
	p.press("Create webhook")
	p.untilText("dialog .error", "must begin with https://")
	p.fill("#webhook-url", "https://receiver.invalid/hook?a=b")
	p.fill("#webhook-account", "team")
	p.fill("#webhook-prefix", "photos/")
	p.fill("#webhook-kinds", "stored, deleted")
	p.fill("#webhook-label", "the index")
	p.screenshots("webhook-form")
	p.press("Create webhook")
	p.untilText("dialog h2", "Copy it now")
	secrets := p.issued()
	if len(secrets) != 1 || !strings.HasPrefix(secrets[0], "whsec_") {
		t.Fatalf("the secrets are %q", secrets)
	}
	p.untilText("main h2", "the index")
	p.untilText("main", "team / photos/: stored, deleted")
	var list wire.WebhookPage
	admin.Must(200, "GET", "/v1/admin/webhooks", nil).Decode(t, &list)
	testenv.Equal(t, len(list.Webhooks), 1, "webhooks")
	p.press("Send a test")
	p.untilText("#toasts", "the host's name is not known")
	admin.Must(204, "PUT", e2e.BlobTarget("team", "photos/one"), []byte("x"))
	p.untilText("main .badge", "failing")
	p.untilText("main", "since")
	p.screenshots("webhook-failing")

	p.press("Edit")
	p.fill("#webhook-label", "the other index")
	p.press("Save")
	p.untilText("main h2", "the other index")
	p.press("Turn off")
	p.untilText("main", "an administrator has turned it off")
	p.tabTo("Turn on")
	p.enter()
	p.untilText("main .badge", "failing")
	p.press("New secret")
	p.press("Make a new secret")
	p.untilText("dialog h2", "Copy it now")
	if again := p.issued(); len(again) != 1 || again[0] == secrets[0] {
		t.Errorf("the new secret is %q", again)
	}
	p.untilText("main", "The secret before ends")
	p.to("#/admin/webhooks", "[role=grid]", "the other index")
	p.screenshots("webhooks")
	p.tabTo("row the other index")
	p.enter()
	p.untilText("main h2", "the other index")
	p.press("Delete")
	p.untilText("dialog", "gets no more changes")
	evaluate[bool](p.consolePage, `(document.querySelector("dialog[open] [type=submit].danger").click(), true)`)
	p.untilText("main", "There is no webhook")
	p.to("#/admin/actions", "main", "webhook.delete")
}
