package feed

import (
	"slices"
	"sort"
	"strings"

	"sluice/database"
	"sluice/metastore"
)

// ring has all changes between two positions. A copy remains valid while the original grows.
type ring struct {
	from, end metastore.FeedPosition // zero: it is not known where the changes end
	changes   []metastore.Change
	bytes     int64 // their charges
}

// charge returns how much a change counts against the bounds on pages and on the ring.
func charge(c *metastore.Change) int64 {
	return database.EntryCharge + int64(len(c.Account)+len(c.Name)+len(c.ContentType))
}

// add adds a page that begins at the end, and removes the oldest changes beyond a number of bytes.
func (g *ring) add(page metastore.ChangePage, most int64) {
	for i := range page.Changes {
		g.bytes += charge(&page.Changes[i])
	}
	g.changes, g.end = append(g.changes, page.Changes...), page.Next
	n := 0
	for ; g.bytes > most; n++ {
		g.bytes -= charge(&g.changes[n])
		g.from = g.changes[n].Position
	}
	g.changes = g.changes[n:]
}

// has reports whether the ring has all changes behind a position.
func (g *ring) has(at metastore.FeedPosition) bool {
	return at.Generation == g.end.Generation && at.Number >= g.from.Number && at.Number <= g.end.Number
}

// page returns the page for a query after a position that the ring has.
func (g *ring) page(q *metastore.ChangeQuery) metastore.ChangePage {
	first := sort.Search(len(g.changes), func(i int) bool { return g.changes[i].Position.Number > q.After.Number })
	page, left, before := metastore.ChangePage{Next: g.end}, q.Bytes, q.After
	for _, c := range g.changes[first:] {
		if (q.All || c.Account == q.Account) && q.Kinds.Selects(c.Kind) && strings.HasPrefix(c.Name, q.Prefix) {
			left -= charge(&c)
			if n := len(page.Changes); n == q.Limit || n > 0 && q.Bytes > 0 && left < 0 {
				page.Next, page.More = before, true
				break
			}
			page.Changes = append(page.Changes, c)
		}
		before = c.Position
	}
	page.Changes = slices.Clip(page.Changes)
	return page
}
