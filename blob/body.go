package blob

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"sluice/bytestore"
	"sluice/checksum"
	"sluice/integrity"
	"sluice/metastore"
)

// Body is the source of a blob's or part's bytes. Its errors are returned wrapped. A Body that can
// detect that it was cut off, for example because it is read from a connection, must return
// ErrIncompleteBody itself: a store's error is never taken for the body's, whatever it wraps.
type Body = io.Reader

// bodyReader reads a body. It counts the bytes, computes their checksums, and fails if the body
// takes too long.
type bodyReader struct {
	src      io.Reader
	now      func() time.Time
	deadline time.Time
	size     int64 // bytes read
	declared int64 // or bytestore.UnknownSize
	crc64    hash.Hash64
	sha256   hash.Hash // nil if there is no digest
}

func (s *Service) newBodyReader(src io.Reader, size int64, digest bool) *bodyReader {
	r := &bodyReader{src: src, now: s.meta.Now, declared: size, crc64: checksum.New()}
	r.deadline = r.now().Add(metastore.MaxExtentAge)
	if digest {
		r.sha256 = sha256.New()
	}
	return r
}

// Read implements io.Reader. It returns ErrIncompleteBody if the body ends before its declared
// length, and ErrPutTooLong after the deadline.
func (r *bodyReader) Read(p []byte) (int, error) {
	if r.now().After(r.deadline) {
		return 0, ErrPutTooLong
	}
	n, err := r.src.Read(p)
	r.size += int64(n)
	r.crc64.Write(p[:n])
	if r.sha256 != nil {
		r.sha256.Write(p[:n])
	}
	if errors.Is(err, io.EOF) && r.size < r.declared {
		err = fmt.Errorf("%w: %d of %d bytes were received", ErrIncompleteBody, r.size, r.declared)
	}
	return n, err
}

// checkDigest returns ErrDigestMismatch if want is set and is not the digest of what was read.
func (r *bodyReader) checkDigest(want []byte) error {
	if want == nil || subtle.ConstantTimeCompare(r.sha256.Sum(nil), want) == 1 {
		return nil
	}
	return ErrDigestMismatch
}

// storeBody stores the body as the extents of part 0. size is the exact length or
// bytestore.UnknownSize; a body of unknown size that exceeds limit fails with tooLong. If storeBody
// fails, it deletes what it stored.
func (s *Service) storeBody(ctx context.Context, body *bodyReader, size, limit int64, tooLong error) ([]metastore.Extent, error) {
	if size == bytestore.UnknownSize {
		return s.storeUnknownSize(ctx, body, limit, tooLong)
	}
	if size <= s.opt.InlineSize {
		return readInline(body, size)
	}
	var extents []metastore.Extent
	for body.size < size {
		e, err := s.putExtent(ctx, body, body.size, min(s.opt.ExtentSize, size-body.size), true)
		if err != nil {
			return nil, s.discard(ctx, extents, err)
		}
		extents = append(extents, e)
	}
	return extents, nil
}

// readInline returns a body of exactly size bytes as an inline extent.
func readInline(body *bodyReader, size int64) ([]metastore.Extent, error) {
	content := make([]byte, size)
	if _, err := io.ReadFull(body, content); err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, nil
	}
	return []metastore.Extent{{
		Size:   size,
		Blocks: []uint32{integrity.Sum(content)},
		Body:   content,
	}}, nil
}

// storeUnknownSize reads as much as may be inline before it decides whether an object is needed. It
// stores at most one byte more than limit, and reads at most a buffer more.
func (s *Service) storeUnknownSize(ctx context.Context, body *bodyReader, limit int64, tooLong error) ([]metastore.Extent, error) {
	src := bufio.NewReaderSize(body.src, 64<<10)
	head, err := io.ReadAll(io.LimitReader(src, max(0, min(s.opt.InlineSize, limit))+1))
	if err != nil {
		return nil, err
	}
	if int64(len(head)) > limit {
		return nil, tooLong
	}
	body.src = io.MultiReader(bytes.NewReader(head), src)
	if int64(len(head)) <= s.opt.InlineSize {
		return readInline(body, int64(len(head)))
	}
	var extents []metastore.Extent
	for {
		e, err := s.putExtent(ctx, body, body.size, min(s.opt.ExtentSize, limit+1-body.size), false)
		if err == nil && body.size > limit {
			extents, err = append(extents, e), tooLong
		}
		if err != nil {
			return nil, s.discard(ctx, extents, err)
		}
		extents = append(extents, e)
		if _, err := src.Peek(1); errors.Is(err, io.EOF) {
			return extents, nil
		}
	}
}

// putExtent stores the body's next bytes as an object: exactly size of them, or at most size if
// exact is false.
func (s *Service) putExtent(ctx context.Context, body *bodyReader, offset, size int64, exact bool) (metastore.Extent, error) {
	created := s.meta.Now()
	name := bytestore.NewName(created)
	src := &extentSource{src: body, left: size}
	declared := size
	if !exact {
		declared = bytestore.UnknownSize
	}
	if err := s.bytes.Put(ctx, name, src, declared); err != nil {
		return metastore.Extent{}, err
	}
	return metastore.Extent{
		Offset:  offset,
		Size:    src.size,
		Blocks:  src.blocks(),
		Object:  string(name),
		Created: created,
	}, nil
}

// extentSource reads a body's next bytes as one extent and computes its blocks' checksums.
type extentSource struct {
	src  io.Reader
	left int64
	size int64
	full []uint32 // checksums of complete blocks
	crc  uint32   // checksum of what follows them
}

func (r *extentSource) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	n, err := r.src.Read(p)
	r.left -= int64(n)
	for p = p[:n]; len(p) > 0; {
		m := min(int64(len(p)), integrity.BlockSize-r.size%integrity.BlockSize)
		r.crc = integrity.UpdateSum(r.crc, p[:m])
		r.size += m
		p = p[m:]
		if r.size%integrity.BlockSize == 0 {
			r.full, r.crc = append(r.full, r.crc), 0
		}
	}
	return n, err
}

func (r *extentSource) blocks() []uint32 {
	if r.size%integrity.BlockSize == 0 {
		return r.full
	}
	return append(r.full, r.crc)
}
