package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/wire"
)

// Blob describes a blob. Fields that the server did not report are zero.
type Blob struct {
	Name         string
	Size         int64  // in bytes
	ETag         string // with its quotes
	ContentType  string
	LastModified time.Time
	Expires      time.Time // zero: never
	SHA256       []byte    // 32 bytes, if the writer sent it
	Version      string    // its id; "" if the account does not keep versions
	Lock         Lock      // its own; only a HEAD, a GET and Versions return it

	// The writer's further headers. A listing has them only on request. Only a listing, Copy and
	// Move return CacheControl.
	CacheControl       string
	ContentDisposition string
	ContentLanguage    string
	Metadata           map[string]string // custom headers: names in lower case without "blob-meta-"; nil: none
}

// checkStored returns ErrCorrupt if the server stored other bytes than were sent.
func checkStored(stored, sent string) error {
	if _, _, known := checksum.ParseETag(stored); known && stored != sent {
		return fmt.Errorf("client: %w: the server stored %s, and %s was sent", ErrCorrupt, stored, sent)
	}
	return nil
}

// Head returns a blob's properties. It returns ErrNotFound, or ErrGone if it has expired.
func (c *Client) Head(ctx context.Context, account, name string) (Blob, error) {
	return c.HeadVersion(ctx, account, name, "")
}

// HeadVersion is Head for a version; "" is the current one. It returns ErrNotFound for a mark, too.
func (c *Client) HeadVersion(ctx context.Context, account, name, version string) (Blob, error) {
	path, err := versionPath(account, name, version)
	if err != nil {
		return Blob{}, err
	}
	return c.head(ctx, path, name)
}

// head returns a blob's properties by its escaped path.
func (c *Client) head(ctx context.Context, path, name string) (Blob, error) {
	resp, err := c.do(ctx, newRequest("head of a blob", http.MethodHead, path, readOnly))
	if errors.Is(err, ErrBlocked) { // only the response to a GET has the reason
		r := newRequest("head of a blob", http.MethodGet, path, readOnly)
		r.header.Set("If-None-Match", "*") // reads nothing, also if the block has just ended
		if resp, getErr := c.do(ctx, r); errors.Is(getErr, ErrBlocked) {
			err = getErr
		} else if getErr == nil {
			err = errors.Join(err, resp.Body.Close())
		}
	}
	if err != nil {
		return Blob{}, err
	}
	b, err := parseBlob(name, resp.Header, resp.ContentLength)
	if err != nil {
		err = fmt.Errorf("client: head of a blob: %w", err)
	}
	return b, errors.Join(err, resp.Body.Close())
}

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	IfMatch string // deletes only a blob with this ETag

	// Version is the id of a version to delete for good. "" deletes the blob: an account that keeps
	// versions keeps it, and has a mark.
	Version string

	// Bypass deletes a version although it has a retention in LockGovernance, which is recorded.
	Bypass bool
}

// Delete removes a blob, or one of its versions. It succeeds if there is none, unless the options
// have a condition: then it returns ErrPreconditionFailed. To delete a version the key needs admin.
// If it was the newest, the one before it is current again, unless that is a mark.
func (c *Client) Delete(ctx context.Context, account, name string, o DeleteOptions) error {
	path, err := versionPath(account, name, o.Version)
	if err != nil {
		return err
	}
	r := newRequest("delete a blob", http.MethodDelete, path, idempotent)
	if o.IfMatch != "" {
		r.header.Set("If-Match", o.IfMatch)
		r.conditional = true
	}
	if o.Bypass {
		r.header.Set(wire.HeaderBypass, "true")
	}
	_, err = c.call(ctx, r, nil)
	return err
}

// parseBlob returns the properties in a response's header, for a blob with size bytes.
func parseBlob(name string, h http.Header, size int64) (Blob, error) {
	b := Blob{
		Name: name, Size: size, ETag: h.Get("ETag"), ContentType: h.Get("Content-Type"), Version: h.Get(wire.HeaderBlobVersion),
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
	var errs [4]error
	b.LastModified, errs[0] = parseTime(h, "Last-Modified", http.ParseTime)
	b.Expires, errs[1] = parseTime(h, wire.HeaderBlobExpires, func(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) })
	b.SHA256, errs[2] = parseDigest(h.Get(wire.HeaderReprDigest))
	b.Lock, errs[3] = parseLock(h)
	if err := cmp.Or(b.check(), errs[0], errs[1], errs[2], errs[3]); err != nil {
		return Blob{}, err
	}
	return b, nil
}

// formatDigest returns a SHA-256 as a digest field (RFC 9530, section 3).
func formatDigest(sum [sha256.Size]byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// parseDigest returns the SHA-256 in a digest field, or nil if there is none.
func parseDigest(field string) ([]byte, error) {
	for member := range strings.SplitSeq(field, ",") {
		value, is256 := strings.CutPrefix(strings.TrimSpace(member), "sha-256=")
		if !is256 {
			continue
		}
		begun, open := strings.CutPrefix(value, ":")
		text, closed := strings.CutSuffix(begun, ":")
		sum, err := base64.StdEncoding.DecodeString(text)
		if !open || !closed || err != nil || len(sum) != sha256.Size {
			return nil, invalid(wire.HeaderReprDigest, "has no SHA-256: %s", shown(value))
		}
		return sum, nil
	}
	return nil, nil
}

// check returns an error if no service can have the blob b.
func (b *Blob) check() error {
	return cmp.Or(
		checkSize("size", b.Size, maxBlobSize),
		checkETag(b.ETag, b.Size),
		checkVersion(b.Version),
		checkLength("Content-Type", b.ContentType, wire.MaxHeaderBytes),
		checkLength("Cache-Control", b.CacheControl, wire.MaxCacheControl),
		checkLength("Content-Disposition", b.ContentDisposition, wire.MaxContentDisposition),
		checkLength("Content-Language", b.ContentLanguage, wire.MaxContentLanguage),
		checkMetadata(b.Metadata),
	)
}

func checkMetadata(meta map[string]string) error {
	bytes := 0
	for name, value := range meta {
		bytes += len(wire.HeaderBlobMeta) + len(name) + len(value)
	}
	if len(meta) > wire.MaxBlobMetaHeaders || bytes > wire.MaxBlobMeta {
		return invalid("metadata", "has %d headers with %d bytes, more than %d with %d", len(meta), bytes, wire.MaxBlobMetaHeaders, wire.MaxBlobMeta)
	}
	return nil
}
