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
	list := orderedList[wire.UploadPage, wire.Upload]{
		name: "uploads", path: "/v1/multipart-uploads", limit: wire.MaxPageSize, query: url.Values{"account": {account}},
		of: func(p *wire.UploadPage) ([]wire.Upload, string) { return p.Uploads, p.Next },
		at: func(u *wire.Upload) string { return u.UploadID }, check: checkUpload,
		order: func(before, u *wire.Upload) int {
			return cmp.Or(before.Created.Compare(u.Created), strings.Compare(before.UploadID, u.UploadID))
		},
	}
	return converted(list.all(ctx, c), func(u wire.Upload) Upload {
		return Upload{u.UploadID, u.Account, u.Name, u.PartSize, u.Bytes, u.Created, u.Expires}
	})
}

// AbortUpload aborts an upload and frees its bytes. It may be repeated. It returns ErrNotFound if
// there is no such upload, and ErrConflict if it was completed.
func (c *Client) AbortUpload(ctx context.Context, id string) error {
	r := newRequest("abort an upload", http.MethodDelete, "/v1/multipart-uploads/"+url.PathEscape(id), idempotent)
	_, err := c.call(ctx, r, nil)
	return err
}

func checkUpload(u *wire.Upload) error {
	return cmp.Or(
		checkID("uploadId", u.UploadID), checkWord("account", u.Account, maxWord), checkName("name", u.Name),
		checkWord("state", u.State, maxWord), checkSize("partSize", u.PartSize, maxPartSize), checkSize("bytes", u.Bytes, maxParts*maxPartSize),
		checkWord("etag", u.ETag, maxETag),
	)
}
