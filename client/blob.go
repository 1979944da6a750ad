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
}

// PutOptions are the options of a write. The zero value replaces whatever is there.
type PutOptions struct {
	ContentType string    // "" means application/octet-stream
	Expires     time.Time // when the blob expires; zero: never

	// IfAbsent makes the write succeed only if there is no such blob, IfMatch only if it has this
	// ETag. The error is ErrPreconditionFailed otherwise, and ErrOutcomeUnknown if the condition may
	// be false because an earlier attempt of the same write succeeded.
	IfAbsent bool
	IfMatch  string
}

// setConditions sets the headers of the conditions, and that the request is conditional.
func (o *PutOptions) setConditions(r *request) {
	if o.IfAbsent {
		r.header.Set("If-None-Match", "*")
	}
	if o.IfMatch != "" {
		r.header.Set("If-Match", o.IfMatch)
	}
	r.conditional = o.IfAbsent || o.IfMatch != ""
}

// PutBytes stores content in a single request. After it returned the blob survives a power cut of the
// server, and every later read returns it. It returns ErrCorrupt if the server stored other bytes.
func (c *Client) PutBytes(ctx context.Context, account, name string, content []byte, o PutOptions) (Blob, error) {
	path, err := blobPath(account, name)
	if err != nil {
		return Blob{}, err
	}
	r := newRequest("put a blob", http.MethodPut, path, idempotent)
	r.setBytes(content)
	o.setConditions(r)
	if o.ContentType != "" {
		r.header.Set("Content-Type", o.ContentType)
	}
	if !o.Expires.IsZero() {
		r.header.Set(wire.HeaderBlobExpires, o.Expires.UTC().Format(time.RFC3339Nano))
	}
	r.header.Set(wire.HeaderReprDigest, formatDigest(sha256.Sum256(content)))
	h, err := c.call(ctx, r, nil)
	if err != nil {
		return Blob{}, err
	}
	b := parseBlob(name, h)
	b.Size, b.ContentType = int64(len(content)), o.ContentType
	return b, checkETag(b.ETag, checksum.ETag(b.Size, checksum.Update(0, content)))
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
	b := Blob{Name: name, ETag: h.Get("ETag"), ContentType: h.Get("Content-Type"), SHA256: parseDigest(h.Get(wire.HeaderReprDigest))}
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
