package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"sluice/wire"
)

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
	first := func() *request {
		r := newRequest("list uploads", http.MethodGet, "/v1/multipart-uploads", readOnly)
		r.query.Set("account", account)
		return r
	}
	return pages(ctx, c, first, uploadsOf, func(page *wire.UploadPage) string { return page.Next })
}

// uploadsOf returns the uploads of a page.
func uploadsOf(page *wire.UploadPage) iter.Seq[Upload] {
	return func(yield func(Upload) bool) {
		for _, u := range page.Uploads {
			if !yield(Upload{u.UploadID, u.Account, u.Name, u.PartSize, u.Bytes, u.Created, u.Expires}) {
				return
			}
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
