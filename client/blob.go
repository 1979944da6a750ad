package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/wire"
)

// Blob describes a blob. What the server did not report is zero.
type Blob struct {
	Name         string
	Size         int64  // in bytes
	ETag         string // with its quotes
	ContentType  string
	LastModified time.Time
	Expires      time.Time // zero: never
	SHA256       []byte    // 32 bytes, if the writer sent it

	// What else the writer sent. A listing has it only on request, and only a listing has CacheControl.
	CacheControl       string
	ContentDisposition string
	ContentLanguage    string
	Metadata           map[string]string // custom headers: names in lower case without "blob-meta-"; nil: none
}

// checkETag returns ErrCorrupt if the server stored other bytes than were sent.
func checkETag(stored, sent string) error {
	if _, _, known := checksum.ParseETag(stored); known && stored != sent {
		return fmt.Errorf("client: %w: the server stored %s, and %s was sent", ErrCorrupt, stored, sent)
	}
	return nil
}

// Head returns the properties of a blob. It returns ErrNotFound, or ErrGone if it has expired.
func (c *Client) Head(ctx context.Context, account, name string) (Blob, error) {
	path, err := blobPath(account, name)
	if err != nil {
		return Blob{}, err
	}
	return c.head(ctx, path, name)
}

// head returns the properties of the blob with an escaped path.
func (c *Client) head(ctx context.Context, path, name string) (Blob, error) {
	resp, err := c.do(ctx, newRequest("head of a blob", http.MethodHead, path, readOnly))
	if err != nil {
		return Blob{}, err
	}
	b := parseBlob(name, resp.Header)
	b.Size = resp.ContentLength
	return b, resp.Body.Close()
}

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	IfMatch string // deletes only the version with this ETag
}

// Delete removes a blob. It succeeds if there is none, unless the options have a condition: then it
// returns ErrPreconditionFailed.
func (c *Client) Delete(ctx context.Context, account, name string, o DeleteOptions) error {
	path, err := blobPath(account, name)
	if err != nil {
		return err
	}
	r := newRequest("delete a blob", http.MethodDelete, path, idempotent)
	if o.IfMatch != "" {
		r.header.Set("If-Match", o.IfMatch)
		r.conditional = true
	}
	_, err = c.call(ctx, r, nil)
	return err
}

// parseBlob returns the properties in the header of a response. Size is that of the whole blob if a
// Content-Range has it.
func parseBlob(name string, h http.Header) Blob {
	b := Blob{
		Name: name, ETag: h.Get("ETag"), ContentType: h.Get("Content-Type"), SHA256: parseDigest(h.Get(wire.HeaderReprDigest)),
		ContentDisposition: h.Get("Content-Disposition"), ContentLanguage: h.Get("Content-Language"),
	}
	for field, values := range h {
		if meta, ok := strings.CutPrefix(field, wire.HeaderBlobMeta); ok && len(values) > 0 {
			if b.Metadata == nil {
				b.Metadata = map[string]string{}
			}
			b.Metadata[strings.ToLower(meta)] = values[0]
		}
	}
	// Dates that cannot be parsed are as if the server had not reported them.
	b.LastModified, _ = http.ParseTime(h.Get("Last-Modified"))
	b.Expires, _ = time.Parse(time.RFC3339Nano, h.Get(wire.HeaderBlobExpires))
	if _, size, ok := strings.Cut(h.Get("Content-Range"), "/"); ok {
		b.Size, _ = strconv.ParseInt(size, 10, 64)
	}
	return b
}

// formatDigest returns a SHA-256 as a digest field (RFC 9530, section 3).
func formatDigest(sum [sha256.Size]byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// parseDigest returns the SHA-256 of a digest field, or nil if there is none.
func parseDigest(field string) []byte {
	for member := range strings.SplitSeq(field, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(member), "sha-256=:")
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(value, ":")); ok && err == nil && len(sum) == sha256.Size {
			return sum
		}
	}
	return nil
}
