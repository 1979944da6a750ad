package sigv4

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// Errors of ChunkReader, besides its source's.
var (
	// ErrBody means that a body is not in the coding aws-chunked, or has another size than was
	// announced (IncompleteBody).
	ErrBody = errors.New("the body is not in the coding aws-chunked")
	// ErrShortChunk means that a chunk that is not the last one is too short
	// (InvalidChunkSizeError).
	ErrShortChunk = errors.New("only the last chunk may have less than 8192 bytes")
	// ErrChunk means that a chunk or the trailer has another signature (SignatureDoesNotMatch).
	ErrChunk = errors.New("the signature of a chunk does not match")
)

const (
	// mostLine bounds a chunk's header, in bytes.
	mostLine = 256
	// leastChunk is the least size of each chunk but the last, in bytes.
	leastChunk = 8192
	// mostTrailer bounds a trailer, in bytes.
	mostTrailer = 4 << 10
	// sizeDigits bounds how long a chunk's size is: 2^40 bytes are more than any body has.
	sizeDigits = 11
	// signatureField is the extension with a chunk's signature.
	signatureField = ";chunk-signature="
	// trailerSignature is a signed trailer's last line.
	trailerSignature = "x-amz-trailer-signature"
)

// ChunkOptions describes how a body is sent.
type ChunkOptions struct {
	Size    int64  // in bytes, decoded
	Signed  bool   // whether the chunks, and the trailer, have signatures
	Chain   *Chain // verifies them; nil: there are none, or nobody is refused for theirs
	Trailer bool   // whether there is a trailer
}

// ChunkReader reads a body in the content coding aws-chunked, in which S3 clients send chunks with
// a signature each, a trailer with a checksum, or both ("Signature Calculations for the
// Authorization Header: Transferring Payload in Multiple Chunks" in the Amazon S3 API Reference).
// Read returns bytes before their chunk's signature is known to match: only after io.EOF they are
// known to be the bytes that the client signed. A ChunkReader is not safe for concurrent use.
type ChunkReader struct {
	source  *bufio.Reader
	options ChunkOptions
	left    int64 // in the chunk
	short   bool  // the chunk has less than leastChunk
	sum     hash.Hash
	signed  string // the chunk's signature
	total   int64
	trailer map[string]string
	err     error
}

// NewChunkReader returns a reader for the body in source.
func NewChunkReader(source io.Reader, o ChunkOptions) *ChunkReader {
	r := &ChunkReader{source: bufio.NewReaderSize(source, 4<<10), options: o}
	if o.Chain != nil {
		r.sum = sha256.New()
	}
	return r
}

// Trailer returns the trailer's fields by their names in lower case. It is known after io.EOF.
func (r *ChunkReader) Trailer() map[string]string { return r.trailer }

// Read implements io.Reader.
func (r *ChunkReader) Read(p []byte) (int, error) {
	for r.err == nil && r.left == 0 {
		r.err = r.nextChunk()
	}
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	n, err := r.source.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.total += int64(n)
	if r.sum != nil {
		r.sum.Write(p[:n])
	}
	switch {
	case err != nil:
		r.err = unexpected(err)
	case r.left == 0:
		r.err = r.endChunk()
	}
	return n, nil
}

// nextChunk reads a chunk's header. The last one is empty, and after it nextChunk returns io.EOF.
func (r *ChunkReader) nextChunk() error {
	line, err := r.line(mostLine)
	if err != nil {
		return err
	}
	digits, signature, signed := strings.Cut(line, signatureField)
	size, err := strconv.ParseUint(digits, 16, 63)
	switch {
	case err != nil || len(digits) > sizeDigits || signed != r.options.Signed:
		return fmt.Errorf("%w: a chunk begins with %q", ErrBody, line)
	case int64(size) > r.options.Size-r.total:
		return fmt.Errorf("%w: it has more than the %d bytes of x-amz-decoded-content-length", ErrBody, r.options.Size)
	case size > 0 && r.short:
		return ErrShortChunk
	}
	r.left, r.short, r.signed = int64(size), size < leastChunk, signature
	if size > 0 {
		return nil
	}
	return r.end()
}

// endChunk verifies the chunk that was read.
func (r *ChunkReader) endChunk() error {
	if line, err := r.line(len("\r\n")); err != nil {
		return err
	} else if line != "" {
		return fmt.Errorf("%w: a chunk is longer than it states", ErrBody)
	}
	return r.verifyChunk()
}

func (r *ChunkReader) verifyChunk() error {
	if r.options.Chain == nil {
		return nil
	}
	var digest [sha256.Size]byte
	r.sum.Sum(digest[:0])
	r.sum.Reset()
	if !r.options.Chain.Chunk(digest, r.signed) {
		return ErrChunk
	}
	return nil
}

// end reads the trailer after the last chunk, and returns io.EOF if the body is complete.
func (r *ChunkReader) end() error {
	if err := r.verifyChunk(); err != nil {
		return err
	}
	if r.total != r.options.Size {
		return fmt.Errorf("%w: it has %d of the %d bytes of x-amz-decoded-content-length", ErrBody, r.total, r.options.Size)
	}
	if err := r.readTrailer(); err != nil {
		return err
	}
	return r.sourceEnd()
}

// sourceEnd returns io.EOF if nothing follows, or one more empty line, which some clients send.
func (r *ChunkReader) sourceEnd() error {
	for range len("\r\n") + 1 {
		c, err := r.source.ReadByte()
		if err != nil {
			return err
		}
		if c != '\r' && c != '\n' {
			break
		}
	}
	return fmt.Errorf("%w: something follows its end", ErrBody)
}

// readTrailer reads the lines up to an empty one. A signed trailer ends with its signature; some
// clients send an empty line before that, too.
func (r *ChunkReader) readTrailer() error {
	r.trailer = map[string]string{}
	var signedText bytes.Buffer
	due := r.options.Signed && r.options.Trailer
	signature, left := "", mostTrailer
	for {
		line, err := r.line(left)
		if err != nil {
			return err
		}
		left -= len(line) + 1
		if line == "" && due && signature == "" {
			continue
		}
		if line == "" {
			break
		}
		name, value, found := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.Trim(value, " ")
		_, twice := r.trailer[name]
		switch {
		case !found || twice || signature != "" || !r.options.Trailer:
			return fmt.Errorf("%w: the trailer has the line %q", ErrBody, line)
		case name == trailerSignature && due:
			signature = value
		default:
			r.trailer[name] = value
			signedText.WriteString(name + ":" + value + "\n")
		}
	}
	if r.options.Chain != nil && r.options.Trailer && !r.options.Chain.Trailer(sha256.Sum256(signedText.Bytes()), signature) {
		return ErrChunk
	}
	return nil
}

// line returns the next line without its end, which is CRLF or LF. Without the LF it is shorter
// than limit, in bytes.
func (r *ChunkReader) line(limit int) (string, error) {
	var line []byte
	for len(line) < limit {
		c, err := r.source.ReadByte()
		if err != nil {
			return "", unexpected(err)
		}
		if c == '\n' {
			return string(bytes.TrimSuffix(line, []byte("\r"))), nil
		}
		line = append(line, c)
	}
	return "", fmt.Errorf("%w: a line, or the trailer, is too long", ErrBody)
}

// unexpected returns err, or io.ErrUnexpectedEOF instead of io.EOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
