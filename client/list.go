package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

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
	return func(yield func(Entry, error) bool) {
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
		for {
			var page wire.BlobPage
			if _, err := c.call(ctx, r, &page); err != nil {
				yield(Entry{}, err)
				return
			}
			for e := range mergePage(&page) {
				if !yield(e, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			r.query.Set("after", page.Next)
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

// Upload is an open upload.
type Upload struct {
	ID       string // a secret of the account
	Account  string
	Name     string
	PartSize int64
	Bytes    int64 // of the parts that are stored
	Created  time.Time
	Expires  time.Time // when it is aborted unless a part arrives before
}

// Uploads returns the open multipart uploads of an account, the oldest first. The sequence ends
// with the first error.
func (c *Client) Uploads(ctx context.Context, account string) iter.Seq2[Upload, error] {
	return func(yield func(Upload, error) bool) {
		r := newRequest("list uploads", http.MethodGet, "/v1/multipart-uploads", readOnly)
		r.query.Set("account", account)
		for {
			var page wire.UploadPage
			if _, err := c.call(ctx, r, &page); err != nil {
				yield(Upload{}, err)
				return
			}
			for _, u := range page.Uploads {
				if !yield(Upload{u.UploadID, u.Account, u.Name, u.PartSize, u.Bytes, u.Created, u.Expires}, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			r.query.Set("after", page.Next)
		}
	}
}

// AbortUpload aborts an upload and frees its bytes. It may be repeated. It returns ErrNotFound if
// there is no such upload, and ErrConflict if it was completed.
func (c *Client) AbortUpload(ctx context.Context, id string) error {
	r := newRequest("abort an upload", http.MethodDelete, "/v1/multipart-uploads/"+url.PathEscape(id), idempotent)
	_, err := c.call(ctx, r, nil)
	return err
}

// Info returns the description of the service.
func (c *Client) Info(ctx context.Context) (wire.Info, error) {
	var info wire.Info
	_, err := c.call(ctx, newRequest("service information", http.MethodGet, "/v1/info", readOnly), &info)
	return info, err
}

// Ready returns nil if the service can store and read blobs now, and ErrUnavailable with the reason if
// it cannot.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.call(ctx, newRequest("readiness", http.MethodGet, "/readyz", readOnly), nil)
	return err
}

func setNonEmpty(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
