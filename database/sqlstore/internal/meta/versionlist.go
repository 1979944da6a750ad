package meta

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// ListVersions implements metastore.Versions. It merges a page with the account's blobs and
// one with versions that are not current.
func (s *Metastore) ListVersions(ctx context.Context, q metastore.VersionQuery) (metastore.VersionPage, error) {
	if strings.Contains(q.Prefix, "\x00") {
		return metastore.VersionPage{}, nil // no blob's name has it, but stored names have
	}
	if q.Bytes == 0 {
		q.Bytes = math.MaxInt64
	}
	list := tx.listNames
	if s.db.ListsInside() {
		list = tx.listByStatement
	}
	return engine.ResultOf(ctx, s.in.SnapshotList, func(t tx) (metastore.VersionPage, error) {
		k, err := t.keeping(ruledBy(q.Account, "", []byte(q.Account)))
		if err != nil {
			return metastore.VersionPage{}, err
		}
		current := listing{q.ListQuery, firstName(q.ListQuery), t.Now.UnixMicro()}
		if k.State != metastore.KeepNever {
			current.live = math.MinInt64 // also those that have expired
		}
		kept := current
		kept.Account, kept.live = metastore.KeptOf(q.Account), t.Now.UnixMicro()
		if strings.Contains(q.Delimiter, "\x00") {
			kept.Delimiter = ""
		}
		var older []metastore.Blob // the current version, if it is older than AfterVersion
		if q.AfterVersion != (metastore.Version{}) {
			kept.After = metastore.KeptName(q.After, q.AfterVersion.Modified())
			b, found, err := t.blob(q.Account, q.After)
			if err != nil {
				return metastore.VersionPage{}, err
			}
			listed := strings.HasPrefix(q.After, q.Prefix) && groupOf(q.After, q.ListQuery) == ""
			if found && listed && b.Modified.Before(q.AfterVersion.Modified()) && !expired(b.Expires, time.UnixMicro(current.live)) {
				if older = append(older, b.Blob); !q.Metadata {
					older[0].Metadata = ""
				}
			}
		} else if q.After != "" {
			name, _, _ := strings.Cut(q.After, "\x00")
			kept.After = name + "\x00\xff" // behind all its versions
		}
		kept.first = firstName(kept.ListQuery)
		a, err := list(t, current)
		if err != nil {
			return metastore.VersionPage{}, err
		}
		a.Blobs = append(older, a.Blobs...)
		b, err := list(t, kept)
		if err != nil {
			return metastore.VersionPage{}, err
		}
		for i := range a.Blobs {
			c := &a.Blobs[i]
			if c.Lock = shownLock(c.Lock, t); expired(c.Expires, t.Now) {
				c.Since = c.Expires
			}
		}
		for i := range b.Blobs {
			b.Blobs[i] = shown(b.Blobs[i], t)
		}
		return mergeVersions(q, a, b), nil
	})
}

// entry is an entry of a listing: a version, or a group.
type entry struct {
	name    string
	version *metastore.Blob // nil: a group
}

// entries returns a page's entries, sorted as in metastore.VersionPage, and whether more follow.
func entries(p metastore.Page) (list []entry, more bool) {
	list = make([]entry, 0, len(p.Blobs)+len(p.Prefixes))
	for i := range p.Blobs {
		for len(p.Prefixes) > 0 && p.Prefixes[0] < p.Blobs[i].Name {
			list, p.Prefixes = append(list, entry{name: p.Prefixes[0]}), p.Prefixes[1:]
		}
		list = append(list, entry{p.Blobs[i].Name, &p.Blobs[i]})
	}
	for _, group := range p.Prefixes {
		list = append(list, entry{name: group})
	}
	return list, p.Next != ""
}

// order returns how a and b follow each other. It is 0 if both are one group.
func (a entry) order(b entry) int {
	if n := cmp.Compare(a.name, b.name); n != 0 || a.version == nil {
		return n
	}
	return b.version.Modified.Compare(a.version.Modified)
}

// mergeVersions returns the page that two pages have together. Where one of them ends although more
// follow, it ends too.
func mergeVersions(q metastore.VersionQuery, current, kept metastore.Page) (page metastore.VersionPage) {
	a, moreA := entries(current)
	b, moreB := entries(kept)
	left := engine.NewBound(q.Limit, q.Bytes)
	var last entry
	for len(a)+len(b) > 0 && (len(a) > 0 || !moreA) && (len(b) > 0 || !moreB) {
		next := 0 // which has the next entry: -1 a, 1 b, or 0 both
		switch {
		case len(a) == 0:
			next = 1
		case len(b) == 0:
			next = -1
		default:
			next = a[0].order(b[0])
		}
		e := entry{}
		if next <= 0 {
			e = a[0]
		} else {
			e = b[0]
		}
		group, charged := e.name, &metastore.Blob{}
		if e.version != nil {
			group, charged = "", e.version
		}
		if !left.Take(entryBytes(charged, group)) {
			moreA = true
			break
		}
		if next <= 0 {
			a = a[1:]
		}
		if next >= 0 {
			b = b[1:]
		}
		if last = e; e.version == nil {
			page.Prefixes = append(page.Prefixes, e.name)
		} else {
			page.Versions = append(page.Versions, *e.version)
		}
	}
	if moreA || moreB {
		if page.Next = last.name; last.version != nil {
			page.NextVersion = metastore.VersionOf(last.version)
		}
	}
	return page
}
