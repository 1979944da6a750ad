package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"sluice/wire"
)

// VersionEntry is an entry of Versions: a version or, with a delimiter, a group of names.
type VersionEntry struct {
	Entry
	Current bool      // Head returns it
	Deleted bool      // it marks that the blob was deleted, and has no bytes
	By      string    // the key's id that wrote it, or that deleted the blob; "": none
	Since   time.Time // when it ceased to be current; zero: it is current
	Until   time.Time // until when it is kept; zero: without limit
}

// Versions is List for an account's versions, current ones and marks included: of each name the
// newest first. The key needs read, also where everybody reads.
func (c *Client) Versions(ctx context.Context, account string, o ListOptions) iter.Seq2[VersionEntry, error] {
	first := func() (*request, func(*wire.VersionPage) error) {
		r := o.request("list versions", "/v1/versions/"+url.PathEscape(account))
		l := &listing{options: o}
		if o.After != "" {
			l.last = o.After + lastVersion
		}
		return r, func(page *wire.VersionPage) error {
			setNonEmpty(r.query, "afterVersion", page.NextVersion)
			next := listKey(page.Next, page.NextVersion)
			if page.NextVersion == "" && page.Next != "" {
				r.query.Del("afterVersion")
				next += lastVersion
			}
			entries := func(yield func(Entry) bool) {
				for e := range versionsOf(page) {
					if !yield(e.Entry) {
						return
					}
				}
			}
			return cmp.Or(checkVersion(page.NextVersion), checkVersions(page), l.check(len(page.Versions)+len(page.Prefixes), entries, next))
		}
	}
	return pages(ctx, c, first, versionsOf, func(page *wire.VersionPage) string { return page.Next })
}

// lastVersion ends a key of listKey behind all versions of a name.
const lastVersion = "\x00\xff"

// versionsOf returns a page's entries in order.
func versionsOf(page *wire.VersionPage) iter.Seq[VersionEntry] {
	return func(yield func(VersionEntry) bool) {
		for v, prefix := range merged(page.Versions, page.Prefixes, func(v *wire.Version) string { return v.Name }) {
			e := VersionEntry{Entry: Entry{Prefix: prefix}}
			if v != nil {
				e = VersionEntry{Entry{Blob: blobOf(&v.Blob)}, v.Current, v.Deleted, v.By, v.Since, v.Until}
				e.Version, e.Lock = v.Version, lockOf(&v.Lock)
			}
			if !yield(e) {
				return
			}
		}
	}
}

// checkVersions returns an error if a version has no id.
func checkVersions(page *wire.VersionPage) error {
	for i := range page.Versions {
		if v := &page.Versions[i]; v.Version == "" {
			return invalid("version", "is missing")
		} else if err := cmp.Or(checkLength("by", v.By, maxSubject), checkLock(&v.Lock)); err != nil {
			return err
		}
	}
	return nil
}

// Versions returns the accounts that keep versions, or did, with their settings, sorted by name.
func (a *Admin) Versions(ctx context.Context) iter.Seq2[wire.Keeping, error] {
	return adminList(ctx, a.c, "versions", orderedList[wire.KeepingPage, wire.Keeping]{
		of: func(p *wire.KeepingPage) ([]wire.Keeping, string) { return p.Accounts, p.Next },
		at: func(k *wire.Keeping) string { return k.Account }, check: checkKeeping,
	})
}

// AccountVersions returns which versions an account keeps.
func (a *Admin) AccountVersions(ctx context.Context, account string) (wire.Keeping, error) {
	return adminCall(ctx, a.c, "show the versions of an account", http.MethodGet, "versions/"+url.PathEscape(account), nil, nil, checkKeeping)
}

// SetVersions sets which versions an account keeps, and returns it. Force has no meaning. Older
// versions are treated by the setting in the background: see Pending.
func (a *Admin) SetVersions(ctx context.Context, account string, set wire.SetKeeping, o UpdateOptions) (wire.Keeping, error) {
	return adminCall(ctx, a.c, "set the versions of an account", http.MethodPut, "versions/"+url.PathEscape(account), set, o.set, checkKeeping)
}

func checkKeeping(k *wire.Keeping) error {
	return cmp.Or(checkID("account", k.Account), checkWord("keep", k.Keep, maxWord), checkWord("for", k.For, maxWord), checkSize("most", int64(k.Most), maxParts),
		checkSize("handled", k.Handled, maxBlobSize), checkID("etag", k.ETag))
}

// FindVersion returns a version as Versions does, with its metadata; it may be a mark. It returns
// ErrNotFound if there is no such version.
func (c *Client) FindVersion(ctx context.Context, account, name, version string) (VersionEntry, error) {
	if _, err := versionPath(account, name, version); err != nil {
		return VersionEntry{}, err
	}
	for e, err := range c.Versions(ctx, account, ListOptions{Prefix: name, Metadata: true}) {
		switch {
		case err != nil:
			return e, err
		case e.Name == name && e.Version == version:
			return e, nil
		case e.Name != name || e.Version < version: // the newest is the first
			return VersionEntry{}, fmt.Errorf("client: find a version: %w", ErrNotFound)
		}
	}
	return VersionEntry{}, fmt.Errorf("client: find a version: %w", ErrNotFound)
}
