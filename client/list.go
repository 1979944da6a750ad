package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"sluice/wire"
)

// ListOptions select the entries of a listing.
type ListOptions struct {
	Prefix    string // only names that begin with it
	Delimiter string // names that share the text up to it, after the prefix, become one entry
	After     string // only names after it, in byte order
	PageSize  int    // entries of a request, 1 to 1,000; 0 means 1,000
	Metadata  bool   // requests what else the writer sent: see Blob
}

// Entry is an entry of a listing: a blob or, with a delimiter, a group of names.
type Entry struct {
	Blob
	Prefix string // of a group, up to and including the delimiter; "" for a blob
}

// List returns the blobs of an account in byte order of their names, and the groups of names if the
// options have a delimiter. An account without blobs has none. The sequence ends with the first
// error. It is not a snapshot: it may or may not show what is written during the iteration.
func (c *Client) List(ctx context.Context, account string, o ListOptions) iter.Seq2[Entry, error] {
	first := func() *request {
		r := newRequest("list blobs", http.MethodGet, "/v1/blobs/"+url.PathEscape(account), readOnly)
		setNonEmpty(r.query, "prefix", o.Prefix)
		setNonEmpty(r.query, "delimiter", o.Delimiter)
		setNonEmpty(r.query, "after", o.After)
		if o.Metadata {
			r.query.Set("include", "metadata")
		}
		if o.PageSize > 0 {
			r.query.Set("limit", strconv.Itoa(o.PageSize))
		}
		return r
	}
	return pages(ctx, c, first, mergePage, func(page *wire.BlobPage) string { return page.Next })
}

// pages returns the entries of all pages of a list, up to the first error. first returns the request for
// the first page. The next page begins after what next returns, which is "" for the last one.
func pages[Page, E any](ctx context.Context, c *Client, first func() *request, entries func(*Page) iter.Seq[E], next func(*Page) string) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for r := first(); ; {
			page := new(Page)
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

// mergePage returns the entries of a page in byte order.
func mergePage(page *wire.BlobPage) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		blobs, prefixes := page.Blobs, page.Prefixes
		for len(blobs) > 0 || len(prefixes) > 0 {
			var e Entry
			if len(prefixes) == 0 || len(blobs) > 0 && blobs[0].Name < prefixes[0] {
				b := &blobs[0]
				e.Blob = Blob{Name: b.Name, Size: b.Size, ETag: b.ETag, ContentType: b.ContentType, LastModified: b.LastModified, Expires: b.Expires,
					CacheControl: b.CacheControl, ContentDisposition: b.ContentDisposition, ContentLanguage: b.ContentLanguage, Metadata: b.Metadata}
				blobs = blobs[1:]
			} else {
				e.Prefix, prefixes = prefixes[0], prefixes[1:]
			}
			if !yield(e) {
				return
			}
		}
	}
}

func setNonEmpty(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
