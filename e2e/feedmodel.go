package e2e

import (
	"strconv"
	"strings"
	"time"
)

// The accounts: one keeps its versions, and one has blobs that expire.
const (
	keptAccount, plainAccount, briefAccount = "kept", "plain", "brief"

	feedEnd = "p/end" // the name of each account's last change
)

var feedAccounts = []string{keptAccount, plainAccount, briefAccount}

// change is a change as a follower reads it.
type change struct {
	Position, Kind, Account, Name, Version, ETag string

	Size    int64
	Expires time.Time
}

// number returns a position's number, or -1.
func number(position string) int64 {
	_, text, _ := strings.Cut(position, "-")
	n, err := strconv.ParseInt(text, 36, 64)
	if err != nil {
		return -1
	}
	return n
}

// effect is a change that a request makes. The id is an ETag, or a version; without it, it is any.
type effect struct{ kind, account, name, id string }

// named is a name's blob and versions, as the changes have them.
type named struct {
	current  *change
	versions map[string]bool // in the account that keeps them, without marks
	newest   string          // the greatest version
}

// take takes a change. It returns the effect that a request with this change has, and whether the
// change can follow the ones before.
func (n *named) take(c *change) (e effect, possible bool) {
	e = effect{c.Kind, c.Account, c.Name, c.ETag}
	newer := len(c.Version) == 32 && (n.newest == "" || c.Version[:16] > n.newest[:16] || c.Account != keptAccount && c.Version[:16] == n.newest[:16])
	is := n.current != nil && n.current.Version == c.Version
	switch c.Kind {
	case "stored":
		possible = newer && (n.current == nil || !n.current.Expires.IsZero())
	case "replaced":
		e.kind, possible = "stored", newer && n.current != nil
	case "copied", "moved-to":
		possible = newer
	case "restored":
		if possible = newer; n.versions[c.Version] { // after the current one was deleted
			e, possible = effect{}, n.current == nil
		}
	case "marked":
		e.id, possible = c.Version, newer && n.current != nil
	case "deleted", "moved-from":
		possible = is
	case "expired":
		e, possible = effect{}, is && !c.Expires.IsZero()
	case "version-deleted":
		e.id, possible = c.Version, n.versions[c.Version] && !is
	}
	switch c.Kind {
	case "stored", "replaced", "copied", "moved-to", "restored":
		n.current, n.newest = c, max(n.newest, c.Version)
		if c.Account == keptAccount {
			n.versions[c.Version] = true
		}
	case "version-deleted":
		delete(n.versions, c.Version)
	case "deleted":
		if c.Account == keptAccount { // by the deletion of a version
			e.kind, e.id = "version-deleted", c.Version
			delete(n.versions, c.Version)
		}
		n.current = nil
	default:
		if n.current = nil; c.Kind == "marked" {
			n.newest = max(n.newest, c.Version)
		}
	}
	return e, possible
}
