package s3api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/exchange"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
	"sluice/s3api/internal/sigv4"
	"sluice/wire"
)

// body is a request's body as it is stored: decoded, and verified at its end.
type body struct {
	io.Reader
	size   int64              // or bytestore.UnknownSize
	sha256 []byte             // that it must have; nil: it is not stated
	stated *checksums.Reader  // has the checksum that the client has stated
	chunks *sigv4.ChunkReader // nil: the body is not in chunks
}

// openBody returns the request's body. It refuses a wrong header before it reads.
func (x *call) openBody() (*body, error) {
	stated, err := x.statedChecksum()
	if err != nil {
		return nil, err
	}
	return x.openStated(stated)
}

// statedChecksum returns the checksum that the header states. One in the query is ignored, as by
// Amazon (https://github.com/localstack/localstack/pull/12164): Amazon's SDK for JavaScript adds
// the one of an empty body to each URL that it presigns.
func (x *call) statedChecksum() (checksums.Stated, error) { return checksums.Parse(x.Request.Header) }

// openStated is openBody for a body that has this checksum.
func (x *call) openStated(stated checksums.Stated) (*body, error) {
	if _, announced := x.Request.Trailer["Content-Md5"]; announced {
		return nil, refuseWith("InvalidRequest", wire.CodeBadHeader, "Content-MD5 must be sent before the body")
	}
	payload, err := x.payload()
	if err != nil {
		return nil, err
	}
	b := &body{size: x.Request.ContentLength, Reader: x.Request.Body}
	if digest, ok := payload.Digest(); ok {
		b.sha256 = digest[:]
	}
	if b.size == 0 && x.Request.Header.Get("Content-Length") == "" {
		return nil, exchange.ErrNoLength
	}
	if err := b.decode(x, payload, stated.Trailer); err != nil {
		return nil, err
	}
	return b, b.verify(stated)
}

// payload returns the request's statement about its body.
func (x *call) payload() (sigv4.Payload, error) {
	if x.signed != nil {
		return x.signed.Payload, x.requireProtection(x.signed.Payload)
	}
	stated := sigv4.Payload(x.header.Get("X-Amz-Content-Sha256"))
	if stated == "" {
		return sigv4.Unsigned, nil
	}
	if _, digest := stated.Digest(); digest || stated == sigv4.Unsigned {
		return stated, nil
	}
	if chunked, _ := stated.Chunked(); chunked {
		return stated, nil
	}
	return "", refuseWith("InvalidRequest", wire.CodeBadHeader, "x-amz-content-sha256 is neither a SHA-256 in hexadecimal digits nor a supported constant")
}

// requireProtection refuses a body that no signature covers if somebody on the network could have
// changed it.
func (x *call) requireProtection(p sigv4.Payload) error {
	if p != sigv4.Unsigned && p != sigv4.StreamingUnsignedTrailer || x.unsigned || x.Secure() {
		return nil
	}
	return refuseWith("AccessDenied", wire.CodeBadHeader, "a body that the signature does not cover is accepted over TLS only: sign the body, or use https")
}

// decode makes b the decoded body if the body is in chunks. A client that does not sign need not
// declare them in x-amz-content-sha256. Then the decoded length differs from the body's, since
// chunks have headers.
func (b *body) decode(x *call, payload sigv4.Payload, trailer bool) error {
	const field = "X-Amz-Decoded-Content-Length"
	chunked, signed := payload.Chunked()
	text := x.header.Get(field)
	if text == "" && !chunked {
		return nil
	}
	size, err := strconv.ParseUint(text, 10, 63)
	switch {
	case err != nil:
		return refuseWith("MissingContentLength", wire.CodeLengthRequired, "a body in chunks needs x-amz-decoded-content-length")
	case chunked:
		trailer = strings.HasSuffix(string(payload), "-TRAILER")
	case int64(size) == b.size:
		return nil
	}
	options := sigv4.ChunkOptions{Size: int64(size), Signed: signed, Trailer: trailer}
	if x.signed != nil && signed {
		options.Chain = x.signed.chain
	}
	b.size = int64(size)
	b.chunks = sigv4.NewChunkReader(b.Reader, options)
	b.Reader = ended{b.chunks}
	return nil
}

// verify makes b verify the statement about the body.
func (b *body) verify(stated checksums.Stated) error {
	if stated.Trailer && b.chunks == nil {
		return refuseWith("InvalidRequest", wire.CodeBadHeader, "a checksum in the trailer needs a body in chunks")
	}
	var trailer func() map[string]string
	if b.chunks != nil {
		trailer = b.chunks.Trailer
	}
	b.stated = checksums.NewReader(b.Reader, stated, trailer)
	b.Reader = b.stated
	switch b.size {
	case bytestore.UnknownSize:
		return nil
	case 0: // nobody reads it
		if _, err := (&whole{b.stated, 0}).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	default:
		b.Reader = &whole{b.stated, b.size}
		return nil
	}
}

// whole reads a body of known size. Who reads that many bytes need not read on, but the body's own
// statement is verified at its end: so the last bytes are returned only when the end was read.
type whole struct {
	io.Reader
	left int64
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.left -= int64(n); w.left == 0 && err == nil {
		_, err = io.ReadFull(w.Reader, make([]byte, 1))
	}
	switch {
	case w.left < 0, w.left == 0 && err == nil:
		return 0, fmt.Errorf("%w: it is longer than stated", blob.ErrIncompleteBody)
	case err != nil && !errors.Is(err, io.EOF):
		return 0, err
	default:
		return n, err
	}
}

// setStated repeats the checksum that the client has stated, which was verified.
func (x *call) setStated(b *body) {
	if v := b.stated.Value(); v.Algorithm != "" {
		x.Fields.Set(http.CanonicalHeaderKey(v.Algorithm.Header()), v.String())
	}
}

// ended reports a body that ends early as blob.ErrIncompleteBody.
type ended struct{ io.Reader }

// Read implements io.Reader.
func (e ended) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", blob.ErrIncompleteBody, err)
	}
	return n, err
}

// store reserves space for the body in the caller's quota. name and metadata are the blob's, or ""
// for a part. The caller must call Confirm with the write's result.
func (x *call) store(b *body, name, metadata string) (*exchange.StoredBody, error) {
	return x.StoreBody(b, b.size, name, metadata)
}

// readDocument reads a small body of at most limit bytes.
func (x *call) readDocument(limit int64) (text []byte, err error) {
	stated, err := x.statedChecksum()
	if err != nil {
		return nil, err
	}
	return text, x.decode(limit, stated, func(body io.Reader) (err error) {
		text, err = io.ReadAll(body)
		return err
	})
}

// readAs reads a small body of at most limit bytes, and decodes it.
func readAs[T any](x *call, limit int64, decode func([]byte) (T, error)) (sent T, err error) {
	text, err := x.readDocument(limit)
	if err == nil {
		sent, err = decode(text)
	}
	return sent, err
}

// decode decodes a body of at most limit bytes as it arrives, compares it with the request's
// statement about it, and checks the caller's key again, because a slow body takes minutes. No
// memory for the reply is held meanwhile.
func (x *call) decode(limit int64, stated checksums.Stated, decode func(io.Reader) error) error {
	b, err := x.openStated(stated)
	if errors.Is(err, exchange.ErrNoLength) {
		return decode(http.NoBody)
	}
	if err != nil {
		return err
	}
	if b.size != bytestore.UnknownSize && b.size > limit {
		return exchange.BodyTooLarge(int(limit))
	}
	bounded := &io.LimitedReader{R: &sha256Reader{b, newSHA256(b.sha256), b.sha256}, N: limit + 1}
	err = decode(bounded)
	if errors.Is(err, document.ErrMalformed) || errors.Is(err, access.ErrConcurrent) || errors.Is(err, exchange.ErrTooBusy) {
		// A client that is sending reads no response, and a malformed body may not be the one that
		// was sent.
		x.ReleaseDocument()
		if _, unread := io.Copy(io.Discard, bounded); unread != nil {
			err = unread
		}
	}
	switch {
	case bounded.N == 0:
		return exchange.BodyTooLarge(int(limit))
	case err != nil:
		return err
	}
	return x.Recheck(x.Request.Context())
}
