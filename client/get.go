package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"sluice/checksum"
)

// GetOptions are options for reading.
type GetOptions struct {
	// IfMatch makes the read fail with ErrPreconditionFailed unless the blob has this ETag,
	// IfNoneMatch makes it fail with ErrNotModified if it has this one.
	IfMatch     string
	IfNoneMatch string

	// Version is a version's id; "": the current one. The key needs read.
	Version string

	// SkipVerify omits the comparison with the blob's ETag and SHA-256.
	SkipVerify bool

	// Payment pays for the read. If it is nil, the read is not paid. Its method Charged returns the
	// number of charged chunksets.
	Payment *Payment
}

// check returns an error if a condition does not hold for b. If the ETag is unknown, as for a small
// blob that must be paid for, the service checks the conditions.
func (o *GetOptions) check(b Blob) error {
	switch {
	case b.ETag == "":
		return nil
	case o.IfMatch != "" && o.IfMatch != b.ETag:
		return fmt.Errorf("client: get a blob: %w: its ETag is %s", ErrPreconditionFailed, b.ETag)
	case o.IfNoneMatch != "" && o.IfNoneMatch == b.ETag:
		return fmt.Errorf("client: get a blob: %w: its ETag is %s", ErrNotModified, b.ETag)
	}
	return nil
}

// source is a blob that is read.
type source struct {
	c       *Client
	path    string
	name    string
	options GetOptions
	etag    string // that is in use; "" until the first response, then it is not written
}

func (c *Client) source(account, name string, o GetOptions) (*source, error) {
	path, err := versionPath(account, name, o.Version)
	if err != nil {
		return nil, err
	}
	return &source{c: c, path: path, name: name, options: o}, nil
}

// get sends a GET for the bytes from offset up to end, or to the blob's end if end is negative. If
// offset is negative, too, it asks for as many bytes at the end, without a payment. Every read of
// content passes through it. The response's body must be closed.
func (s *source) get(ctx context.Context, offset, end int64) (*http.Response, error) {
	r := newRequest("get a blob", http.MethodGet, s.path, readOnly)
	switch {
	case end >= 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, end-1))
	case offset < 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d", offset))
	case offset > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	// If-Match and not If-Range: if the blob was replaced, nothing is sent, and nothing is charged.
	switch {
	case s.etag != "":
		r.header.Set("If-Match", s.etag)
	case s.options.IfMatch != "":
		r.header.Set("If-Match", s.options.IfMatch)
	}
	if s.etag == "" && s.options.IfNoneMatch != "" {
		r.header.Set("If-None-Match", s.options.IfNoneMatch)
	}
	if s.options.Payment != nil {
		return s.options.Payment.get(ctx, s, r, offset, end)
	}
	return s.c.do(ctx, r)
}

// content is a response's body, and which bytes from the blob it has.
type content struct {
	io.ReadCloser
	blob  Blob
	begin int64 // where the body begins in the blob
	end   int64 // the blob's first byte after the body
}

// open opens the bytes from offset up to end, or to the blob's end if that is before or if end is
// negative. If offset is negative, too, it opens as many bytes at the end, or all that there are.
// Once the first response has arrived it returns ErrChanged if the blob has been replaced.
func (s *source) open(ctx context.Context, offset, end int64) (content, error) {
	resp, err := s.get(ctx, offset, end)
	if s.etag != "" && (errors.Is(err, ErrPreconditionFailed) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone)) {
		err = fmt.Errorf("client: get a blob: %w: %w", ErrChanged, err)
	}
	if err != nil {
		return content{}, err
	}
	c := content{ReadCloser: resp.Body}
	bodyEnd, size, err := contentBounds(resp, offset, end)
	if err == nil {
		c.end = bodyEnd
		if c.begin = offset; offset < 0 {
			c.begin = max(0, size+offset)
		}
		c.blob, err = parseBlob(s.name, resp.Header, size)
	}
	if err == nil && c.blob.ETag == "" { // later requests could not name the version
		err = invalid("ETag", "is missing")
	}
	if err != nil {
		err = fmt.Errorf("client: get a blob: %w", err)
	}
	if err == nil && s.etag != "" && c.blob.ETag != s.etag {
		err = fmt.Errorf("client: get a blob: %w: its ETag was %s, and is %s", ErrChanged, s.etag, c.blob.ETag)
	}
	if err != nil {
		return content{}, errors.Join(err, resp.Body.Close())
	}
	if s.etag == "" {
		s.etag = c.blob.ETag
	}
	return c, nil
}

// contentBounds returns where in the blob a response's body ends, and the blob's size. The response
// must have the bytes from offset up to end, or up to the blob's end if that is before or if end is
// negative; if offset is, too, it must have the last bytes. A whole blob will do if it begins with
// them.
func contentBounds(resp *http.Response, offset, end int64) (bodyEnd, size int64, err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		if offset > 0 || offset < 0 && resp.ContentLength > -offset {
			return 0, 0, invalid("status", "is 200, and a range from offset %d was requested", offset)
		}
		return resp.ContentLength, resp.ContentLength, checkSize("Content-Length", resp.ContentLength, maxBlobSize)
	case http.StatusPartialContent:
		field := resp.Header.Get("Content-Range")
		from, to, size, err := parseRange(field)
		if err != nil {
			return 0, 0, err
		}
		if end < 0 {
			end = size
		}
		if offset < 0 {
			offset = max(0, size+offset)
		}
		if from != offset || to != min(end, size) {
			return 0, 0, invalid("Content-Range", "is %s, and the range from offset %d up to %d was requested", shown(field), offset, end)
		}
		if to-from != resp.ContentLength {
			return 0, 0, invalid("Content-Length", "is %d, and the Content-Range %s", resp.ContentLength, shown(field))
		}
		return to, size, nil
	default:
		return 0, 0, invalid("status", "is %d", resp.StatusCode)
	}
}

// contentSums are the checksums of content that is read in order.
type contentSums struct {
	size   int64
	crc    uint64
	sha256 hash.Hash // nil if the blob has none
}

func newContentSums(b Blob) *contentSums {
	s := &contentSums{}
	if b.SHA256 != nil {
		s.sha256 = sha256.New()
	}
	return s
}

func (s *contentSums) update(p []byte) {
	s.size += int64(len(p))
	s.crc = checksum.Update(s.crc, p)
	if s.sha256 != nil {
		_, _ = s.sha256.Write(p) // a hash returns no error
	}
}

// check returns ErrCorrupt if these are not the checksums of b.
func (s *contentSums) check(b Blob) error {
	if err := checkContent(b, s.size, s.crc); err != nil {
		return err
	}
	if s.sha256 != nil {
		return checkSHA256(b, s.sha256.Sum(nil))
	}
	return nil
}

func checkContent(b Blob, size int64, crc uint64) error {
	if _, _, known := checksum.ParseETag(b.ETag); known && b.ETag != checksum.ETag(size, crc) {
		return fmt.Errorf("client: %w: %s was received, and the blob is %s", ErrCorrupt, checksum.ETag(size, crc), b.ETag)
	}
	return nil
}

func checkSHA256(b Blob, sum []byte) error {
	if !bytes.Equal(sum, b.SHA256) {
		return fmt.Errorf("client: %w: the bytes have the SHA-256 %x, and the blob has %x", ErrCorrupt, sum, b.SHA256)
	}
	return nil
}

// parseRange returns the offsets in a Content-Range (RFC 9110, section 14.4), with end exclusive,
// and the blob's size.
func parseRange(field string) (begin, end, size int64, err error) {
	bounds, whole, _ := strings.Cut(strings.TrimPrefix(field, "bytes "), "/")
	first, last, _ := strings.Cut(bounds, "-")
	var errs [3]error
	for i, n := range []struct {
		text string
		to   *int64
	}{{first, &begin}, {last, &end}, {whole, &size}} {
		var value uint64
		value, errs[i] = strconv.ParseUint(n.text, 10, 63)
		*n.to = int64(value)
	}
	if errors.Join(errs[:]...) != nil || !strings.HasPrefix(field, "bytes ") || begin > end || end >= size || size > maxBlobSize {
		return 0, 0, 0, invalid("Content-Range", "is not a range of a blob of at most %d bytes: %s", int64(maxBlobSize), shown(field))
	}
	return begin, end + 1, size, nil
}
