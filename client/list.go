package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sluice/wire"
)

// ListOptions select the blobs to list.
type ListOptions struct {
	Prefix    string // only names that begin with it
	Delimiter string // names that share the text up to it, after the prefix, become one entry
	After     string // only names after it, in byte order
	PageSize  int    // entries in a response, 1 to 1,000; 0 means 1,000
	Metadata  bool   // requests the writer's further headers: see Blob
}

// Entry is an entry of List: a blob or, with a delimiter, a group of names.
type Entry struct {
	Blob
	Prefix string // a group's text, up to and including the delimiter; "" for a blob
}

// List returns an account's blobs in byte order of their names, and the groups of names if the
// options have a delimiter. An account without blobs has none. The sequence ends with the first
// error. It is not a snapshot: it may or may not show blobs that are written during the iteration.
// It holds one page in memory. An entry that was not requested, or is out of order, is
// ErrBadResponse, so each page comes closer to the end.
func (c *Client) List(ctx context.Context, account string, o ListOptions) iter.Seq2[Entry, error] {
	first := func() (*request, func(*wire.BlobPage) error) {
		r := o.request("list blobs", "/v1/blobs/"+url.PathEscape(account))
		l := &listing{options: o, last: o.After}
		return r, func(page *wire.BlobPage) error {
			if err := l.check(len(page.Blobs)+len(page.Prefixes), mergePage(page), page.Next); err != nil || page.Next == "" {
				return err
			}
			return checkName("next", page.Next)
		}
	}
	return pages(ctx, c, first, mergePage, func(page *wire.BlobPage) string { return page.Next })
}

// request returns the request for the first page of a list of blobs or versions.
func (o *ListOptions) request(name, path string) *request {
	r := newRequest(name, http.MethodGet, path, readOnly)
	setNonEmpty(r.query, "prefix", o.Prefix)
	setNonEmpty(r.query, "delimiter", o.Delimiter)
	setNonEmpty(r.query, "after", o.After)
	if o.Metadata {
		r.query.Set("include", "metadata")
	}
	if o.PageSize > 0 {
		r.query.Set("limit", strconv.Itoa(o.PageSize))
	}
	r.maxJSON = maxPageJSON
	return r
}

// pages returns the entries on all pages, up to the first error. first returns the first page's
// request, and a function that checks each page before its entries are returned. The next page
// begins after the text that next returns, which is "" for the last one.
func pages[Page, E any](ctx context.Context, c *Client, first func() (*request, func(*Page) error), entries func(*Page) iter.Seq[E], next func(*Page) string) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for r, check := first(); ; {
			page := new(Page)
			r.check = func() error { return check(page) }
			if _, err := c.call(ctx, r, page); err != nil {
				yield(*new(E), err)
				return
			}
			for e := range entries(page) {
				if !yield(e, nil) {
					return
				}
			}
			after := next(page)
			if after == "" {
				return
			}
			r.query.Set("after", after)
		}
	}
}

// mergePage returns a page's entries in byte order.
func mergePage(page *wire.BlobPage) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for b, prefix := range merged(page.Blobs, page.Prefixes, func(b *wire.Blob) string { return b.Name }) {
			e := Entry{Prefix: prefix}
			if b != nil {
				e.Blob = blobOf(b)
			}
			if !yield(e) {
				return
			}
		}
	}
}

// merged returns the blobs and the groups of a page in byte order: a blob, or nil and a group.
func merged[B any](blobs []B, prefixes []string, name func(*B) string) iter.Seq2[*B, string] {
	return func(yield func(*B, string) bool) {
		for len(blobs) > 0 || len(prefixes) > 0 {
			var b *B
			prefix := ""
			if len(prefixes) == 0 || len(blobs) > 0 && name(&blobs[0]) < prefixes[0] {
				b, blobs = &blobs[0], blobs[1:]
			} else {
				prefix, prefixes = prefixes[0], prefixes[1:]
			}
			if !yield(b, prefix) {
				return
			}
		}
	}
}

// blobOf returns a blob as a response describes it.
func blobOf(b *wire.Blob) Blob {
	return Blob{Name: b.Name, Size: b.Size, ETag: b.ETag, ContentType: b.ContentType, LastModified: b.LastModified, Expires: b.Expires,
		CacheControl: b.CacheControl, ContentDisposition: b.ContentDisposition, ContentLanguage: b.ContentLanguage, Metadata: b.Metadata}
}

func setNonEmpty(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// listing checks pages: with each page it comes closer to the last name.
type listing struct {
	options ListOptions
	last    string // entries must be after it, by their keys
}

// key returns a text by which entries are in order: by name and, of one name, the newest first.
func (e *Entry) key() string { return listKey(e.Name+e.Prefix, e.Version) }

// listKey returns the key of a version, or of a blob if version is "". Names have no U+0000.
func listKey(name, version string) string {
	if version == "" {
		return name
	}
	inverted := []byte(version)
	for i := range inverted {
		inverted[i] = ^inverted[i]
	}
	return name + "\x00" + string(inverted)
}

// limit returns the number of entries that a page may have.
func (o *ListOptions) limit() int {
	if o.PageSize > 0 {
		return o.PageSize
	}
	return wire.MaxPageSize
}

// check returns an error unless a page with n entries, and the key of next, can follow those
// before.
func (l *listing) check(n int, entries iter.Seq[Entry], next string) error {
	if n > l.options.limit() {
		return invalid("blobs", "has %d entries, and %d were requested", n, l.options.limit())
	}
	for e := range entries {
		if err := l.checkEntry(&e); err != nil {
			return err
		}
		l.last = e.key()
	}
	switch {
	case next == "":
	case n == 0:
		return invalid("next", "is %s after a page without entries", shown(next))
	case next < l.last:
		return invalid("next", "is %s, before the entry %s", shown(next), shown(l.last))
	default:
		l.last = next
	}
	return nil
}

func (l *listing) checkEntry(e *Entry) error {
	member, name := "name", e.Name
	if e.Prefix != "" {
		member, name = "prefixes", e.Prefix
	} else if err := e.check(); err != nil {
		return err
	}
	rest, matches := strings.CutPrefix(name, l.options.Prefix)
	at := -1
	if l.options.Delimiter != "" {
		at = strings.Index(rest, l.options.Delimiter)
	}
	switch {
	case !matches:
		return invalid(member, "does not begin with the prefix: %s", shown(name))
	case e.Prefix == "" && at >= 0 || e.Prefix != "" && (at < 0 || at+len(l.options.Delimiter) != len(rest)):
		return invalid(member, "is not grouped by the delimiter: %s", shown(name))
	case e.key() <= l.last:
		return invalid(member, "is %s, which is not after %s", shown(e.key()), shown(l.last))
	}
	return checkName(member, name)
}
