package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
)

// TestConsoleLocks turns on an account's locks, locks a version in both modes and by a legal hold,
// and sees until when nobody can delete it. Each dialog names the consequence.
// Invariant 216.
func TestConsoleLocks(t *testing.T) {
	t.Parallel()
	s, p := openOffice(t, "--scopes", "admin", "--all-accounts")
	admin := s.As(p.admin)
	keepVersions(admin, "team")
	admin.Must(204, "PUT", e2e.BlobTarget("team", "books"), []byte("books"), "Content-Type", "text/plain")
	p.to("#/blob/team/books", ".history", "current")
	const lockButton = `[...document.querySelectorAll(".history button")].find((b) => b.ariaLabel.startsWith("Lock "))`
	lock := func() {
		t.Helper()
		p.until(lockButton)
		evaluate[bool](p.consolePage, "("+lockButton+".click(), true)")
		p.until(`document.querySelector("dialog[open]")`)
	}
	lock()
	p.untilText("dialog", "The account has no locks.")
	p.press("Close")

	p.to("#/admin/versions", "[role=grid]", "team")
	p.tabTo("row team")
	p.enter()
	p.untilText("dialog", "versions can be locked")
	p.check("versions can be locked")
	p.untilText("dialog .consequence", "this cannot be undone")
	p.fill("#locks-mode", "compliance")
	p.fill("#locks-for", "3d")
	p.untilText("dialog .consequence", "Each new version is locked for 3d. Nobody can delete it before, neither administrators nor the operator")
	p.screenshots("locks-set")
	p.fill("#locks-mode", "")
	p.fill("#locks-most", "90d")
	p.press("Save")
	p.until(`!document.querySelector("dialog[open]")`)
	p.untilText("[role=grid]", "on")
	p.screenshots("locks-list")

	until := func(days int) string { return time.Now().AddDate(0, 0, days).Format("2006-01-02T15:04") }
	remove := fmt.Sprintf(`[...document.querySelectorAll(".history button")].some((b) => b.ariaLabel.startsWith(%q))`, "Delete ")
	p.to("#/blob/team/books", ".history", "current")
	lock()
	p.fill("#lock-mode", "governance")
	p.fill("#lock-until", until(9))
	p.untilText("dialog .consequence", "Only a key with bypass can delete it before")
	p.untilText("dialog .consequence", "A lock lasts at most 90d.")
	p.screenshots("lock")
	p.press("Save")
	p.untilText(".history .badge.warn", "governance")
	p.untilText(".history", "locked until ")
	p.screenshots("history-locked", ".history")
	version := versionsOf(admin, "team")[0]
	target := "/v1/versions/team/" + version.Version + "/books"
	admin.WantCode(403, "locked", "DELETE", target, nil)

	// Shorter, which is a bypass, and a hold.
	lock()
	p.fill("#lock-until", until(5))
	p.untilText("dialog .consequence", "This ends the lock early, and is recorded.")
	p.check("Legal hold")
	p.press("Save")
	p.until(`[...document.querySelectorAll(".history .badge.warn")].some((b) => b.innerText === "legal hold")`)
	p.until("!" + remove)
	lock()
	p.check("Legal hold")
	p.untilText("dialog .consequence", "The legal hold ends.")
	p.fill("#lock-until", until(200))
	p.press("Save")
	p.untilText("dialog .error", "Status 400") // longer than the operator permits
	p.fill("#lock-until", until(10))
	p.fill("#lock-mode", "compliance")
	p.press("Save")
	p.untilText(".history .badge.warn", "compliance")
	p.until("!" + remove)
	lock()
	p.fill("#lock-mode", "")
	p.press("Save")
	p.until(`document.querySelector("dialog[open] #lock-mode:invalid")`)
	p.keys(kb.Escape)

	// A deletion leaves the version and its lock.
	p.press("Delete")
	p.untilText("dialog", "Delete this blob?")
	p.press("Delete")
	p.untilText("#toasts", "books was deleted, and can be restored.")
	p.press("Undo")
	p.untilText("#toasts", "books was restored")
	admin.WantCode(403, "locked", "DELETE", target, nil, "Bypass-Governance", "true")
}
