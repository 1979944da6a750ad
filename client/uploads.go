package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/wire"
)

// Upload is an open upload.
type Upload struct {
	ID       string // the account's secret
	Account  string
	Name     string
	PartSize int64 // bytes in every part but the last; 0: parts of any size, sent by another interface
	Bytes    int64 // in stored parts
	Created  time.Time
	Expires  time.Time // when it is aborted unless a part arrives before
}

// Uploads returns an account's open multipart uploads, the oldest first. The sequence ends with the
// first error.
func (c *Client) Uploads(ctx context.Context, account string) iter.Seq2[Upload, error] {
	first := func() (*request, func(*wire.UploadPage) error) {
		r := newRequest("list uploads", http.MethodGet, "/v1/multipart-uploads", readOnly)
		r.query.Set("account", account)
		r.maxJSON = maxPageJSON
		return r, new(uploadListing).check
	}
	return pages(ctx, c, first, uploadsOf, func(page *wire.UploadPage) string { return page.Next })
}

// uploadsOf returns a page's uploads.
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

// uploadListing checks pages with uploads, which are ordered by creation.
type uploadListing struct{ last wire.Upload }

func (l *uploadListing) check(page *wire.UploadPage) error {
	if n := len(page.Uploads); n > wire.MaxPageSize {
		return invalid("uploads", "has %d entries, more than %d", n, wire.MaxPageSize)
	}
	for i := range page.Uploads {
		u := &page.Uploads[i]
		if err := checkUpload(u); err != nil {
			return err
		}
		if cmp.Or(u.Created.Compare(l.last.Created), strings.Compare(u.UploadID, l.last.UploadID)) <= 0 {
			return invalid("uploads", "has %s, which is not after %s", shown(u.UploadID), shown(l.last.UploadID))
		}
		l.last = *u
	}
	if page.Next != "" && (len(page.Uploads) == 0 || page.Next != l.last.UploadID) {
		return invalid("next", "is %s, and not the last upload of the page", shown(page.Next))
	}
	return nil
}

func checkUpload(u *wire.Upload) error {
	return cmp.Or(
		checkID("uploadId", u.UploadID), checkWord("account", u.Account, maxWord), checkName("name", u.Name),
		checkWord("state", u.State, maxWord), checkSize("partSize", u.PartSize, maxPartSize), checkSize("bytes", u.Bytes, maxParts*maxPartSize),
		checkWord("etag", u.ETag, maxETag),
	)
}
