package checksums

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Reader computes a body's checksums while it is read, and compares them with the request's. Read
// returns bytes before they are known to be right: only after io.EOF they are known to be the bytes
// that the client sent. A Reader is not safe for concurrent use.
type Reader struct {
	body    io.Reader
	stated  Stated
	trailer func() map[string]string
	sum     hash.Hash // nil without an algorithm
	md5     hash.Hash // nil without Content-MD5
	value   Value     // known after err
	err     error
}

// NewReader returns a reader for a body. It calls trailer after the body's end for the trailer's
// fields by their names in lower case: the checksum if stated.Trailer is true, and otherwise none.
// trailer may be nil if there is no trailer.
func NewReader(body io.Reader, stated Stated, trailer func() map[string]string) *Reader {
	r := &Reader{body: body, stated: stated, trailer: trailer}
	if stated.Algorithm != "" {
		r.sum = stated.Algorithm.New()
	}
	if stated.MD5 != nil {
		r.md5 = md5.New()
	}
	return r
}

// Read implements io.Reader. At the body's end it returns io.EOF if the checksums are right.
// Otherwise the error wraps ErrBadDigest or ErrMalformedTrailer.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.body.Read(p)
	for _, h := range []hash.Hash{r.sum, r.md5} {
		if h != nil {
			h.Write(p[:n])
		}
	}
	if errors.Is(err, io.EOF) {
		err = r.compare()
	}
	r.err = err
	return n, err
}

// Algorithm returns the stated algorithm.
func (r *Reader) Algorithm() Algorithm { return r.stated.Algorithm }

// Value returns the body's checksum under the stated algorithm. Before io.EOF, or without an
// algorithm, it is none.
func (r *Reader) Value() Value { return r.value }

// compare returns io.EOF if the body has the stated checksums.
func (r *Reader) compare() error {
	if r.md5 != nil && !bytes.Equal(r.md5.Sum(nil), r.stated.MD5) {
		return fmt.Errorf("%w: the Content-MD5 does not match", ErrBadDigest)
	}
	if !r.stated.Trailer && r.trailer != nil && len(r.trailer()) > 0 {
		return fmt.Errorf("%w: x-amz-trailer does not announce it", ErrMalformedTrailer)
	}
	if r.sum == nil {
		return io.EOF
	}
	want := r.stated.Sum
	if r.stated.Trailer {
		sent, err := r.sent()
		if err != nil {
			return err
		}
		want = sent
	}
	computed := r.sum.Sum(nil)
	if want != nil && !bytes.Equal(computed, want) {
		return fmt.Errorf("%w: the %s does not match", ErrBadDigest, r.stated.Algorithm)
	}
	r.value = Value{r.stated.Algorithm, computed}
	return io.EOF
}

// sent returns the checksum in the trailer.
func (r *Reader) sent() ([]byte, error) {
	field := r.stated.Algorithm.Header()
	fields := r.trailer()
	text, ok := fields[field]
	if !ok || len(fields) > 1 {
		return nil, fmt.Errorf("%w: it must have %s, and nothing else", ErrMalformedTrailer, field)
	}
	value, err := ParseValue(r.stated.Algorithm, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedTrailer, err)
	}
	return value.Sum, nil
}
