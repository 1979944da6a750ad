package blob

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/metastore"
)

// TestPinsModel runs random histories of one blob, which is replaced, looked up, pinned, unpinned
// and freed. A content that is read is never freed, a freed content is never pinned, a content
// without readers can be freed immediately, and no state is left at the end.
// Invariant 129.
func TestPinsModel(t *testing.T) {
	type looking struct {
		l     lookup
		found metastore.ContentID
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := newPins()
		version := byte(1)
		current := func() metastore.ContentID { return metastore.ContentID{version} }
		var (
			garbage []metastore.ContentID
			begun   []lookup
			found   []looking
			readers []*pin
			freed   = map[metastore.ContentID]bool{}
		)
		read := func(id metastore.ContentID) bool {
			for _, c := range readers {
				if c.content == id {
					return true
				}
			}
			return false
		}
		for range 200 {
			switch random.IntN(6) {
			case 0: // replaced
				if version < 250 {
					garbage = append(garbage, current())
					version++
				}
			case 1: // a lookup begins
				begun = append(begun, p.begin())
			case 2: // the database responds, or fails
				if n := len(begun); n > 0 {
					i := random.IntN(n)
					l := begun[i]
					begun = append(begun[:i], begun[i+1:]...)
					if random.IntN(5) == 0 {
						p.abandon(l)
					} else {
						found = append(found, looking{l, current()})
					}
				}
			case 3: // the reader pins what it found
				if n := len(found); n > 0 {
					i := random.IntN(n)
					f := found[i]
					found = append(found[:i], found[i+1:]...)
					c := &pin{content: f.found}
					switch pinned := p.add(f.l, c); {
					case pinned && freed[f.found]:
						t.Fatalf("seed %d: a freed content was pinned", seed)
					case pinned:
						readers = append(readers, c)
					case !freed[f.found]:
						t.Fatalf("seed %d: a content that is there cannot be pinned", seed)
					}
				}
			case 4: // a reader closes
				if n := len(readers); n > 0 {
					i := random.IntN(n)
					c := readers[i]
					readers = append(readers[:i], readers[i+1:]...)
					if p.remove(c) && read(c.content) {
						t.Fatalf("seed %d: it is reported as the last reader, but is not", seed)
					}
				}
			case 5: // garbage is freed, also what was freed before
				for _, id := range p.claim(garbage, time.Time{}) {
					if read(id) {
						t.Fatalf("seed %d: a content is freed while it is read", seed)
					}
					freed[id] = true
				}
				for _, id := range garbage {
					if !freed[id] && !read(id) {
						t.Fatalf("seed %d: a content without readers is not freed", seed)
					}
				}
			}
		}
		for _, l := range begun {
			p.abandon(l)
		}
		for _, f := range found {
			p.abandon(f.l)
		}
		for _, c := range readers {
			p.remove(c)
		}
		if n := len(p.readers) + len(p.wanted) + len(p.claims) + len(p.claimed) + len(p.lookups.open); n != 0 {
			t.Fatalf("seed %d: %d entries remain at the end", seed, n)
		}
	}
}
