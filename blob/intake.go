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
	"hash/crc32"
	"io"
	"time"

	"github.com/minio/crc64nvme"

	"sluice/bytestore"
	"sluice/metastore"
)

// Body is where the bytes of a blob or part come from. Its errors come back
// wrapped, as they are. A Body that knows that it was cut, as one that comes over
// a connection does, returns ErrIncompleteBody itself: the error of a store is
// never taken for that of the body, whatever it wraps.
type Body = io.Reader

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// intake is a body on its way in: it counts and sums what passes, and ends it
// when it takes too long.
type intake struct {
	src      io.Reader
	now      func() time.Time
	deadline time.Time
	size     int64 // of what has passed
	declared int64 // or bytestore.UnknownSize
	crc64    hash.Hash64
	sha256   hash.Hash // nil when no digest was given
}

func (s *Service) newIntake(src io.Reader, size int64, digest bool) *intake {
	in := &intake{src: src, now: s.meta.Now, declared: size, crc64: crc64nvme.New()}
	in.deadline = in.now().Add(metastore.MaxExtentAge)
	if digest {
		in.sha256 = sha256.New()
	}
	return in
}

// Read reads on in the body. ErrIncompleteBody when that ends before its
// declared length.
func (in *intake) Read(p []byte) (int, error) {
	if in.now().After(in.deadline) {
		return 0, ErrPutTooLong
	}
	n, err := in.src.Read(p)
	in.size += int64(n)
	in.crc64.Write(p[:n])
	if in.sha256 != nil {
		in.sha256.Write(p[:n])
	}
	if errors.Is(err, io.EOF) && in.size < in.declared {
		err = fmt.Errorf("%w: %d of %d bytes came", ErrIncompleteBody, in.size, in.declared)
	}
	return n, err
}

// checkDigest compares the digest of what came in with want, when there is one.
func (in *intake) checkDigest(want []byte) error {
	if want == nil || subtle.ConstantTimeCompare(in.sha256.Sum(nil), want) == 1 {
		return nil
	}
	return ErrDigestMismatch
}

// takeIn stores the body as the extents of part 0. size is exact or
// bytestore.UnknownSize; a body of unknown size that goes on beyond limit fails
// with tooLong. On an error nothing of it stays.
func (s *Service) takeIn(ctx context.Context, in *intake, size, limit int64, tooLong error) ([]metastore.Extent, error) {
	if size == bytestore.UnknownSize {
		return s.takeInUnknown(ctx, in, limit, tooLong)
	}
	if size <= s.opt.InlineSize {
		return takeInInline(in, size)
	}
	var extents []metastore.Extent
	for in.size < size {
		e, err := s.putExtent(ctx, in, in.size, min(s.opt.ExtentSize, size-in.size), true)
		if err != nil {
			return nil, s.discard(ctx, extents, err)
		}
		extents = append(extents, e)
	}
	return extents, nil
}

// takeInInline keeps a small body of known size in the extent itself.
func takeInInline(in *intake, size int64) ([]metastore.Extent, error) {
	body := make([]byte, size)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, err
	}
	return inlineExtent(body), nil
}

func inlineExtent(body []byte) []metastore.Extent {
	if len(body) == 0 {
		return nil
	}
	return []metastore.Extent{{
		Size:   int64(len(body)),
		Blocks: []uint32{crc32.Checksum(body, castagnoli)},
		Body:   body,
	}}
}

// takeInUnknown reads ahead by what may be inline: only then it is known
// whether an object is needed. One byte beyond limit is enough to refuse.
func (s *Service) takeInUnknown(ctx context.Context, in *intake, limit int64, tooLong error) ([]metastore.Extent, error) {
	src := bufio.NewReaderSize(in.src, 64<<10)
	head, err := io.ReadAll(io.LimitReader(src, max(0, min(s.opt.InlineSize, limit))+1))
	if err != nil {
		return nil, err
	}
	if int64(len(head)) > limit {
		return nil, tooLong
	}
	in.src = io.MultiReader(bytes.NewReader(head), src)
	if int64(len(head)) <= s.opt.InlineSize {
		return takeInInline(in, int64(len(head)))
	}
	var extents []metastore.Extent
	for {
		e, err := s.putExtent(ctx, in, in.size, s.opt.ExtentSize, false)
		if err == nil && in.size > limit {
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

// putExtent stores the next run of the body, of exactly size bytes or, when the
// size is not exact, of at most that many.
func (s *Service) putExtent(ctx context.Context, in *intake, offset, size int64, exact bool) (metastore.Extent, error) {
	created := s.meta.Now()
	key := bytestore.NewKey(created)
	src := &extentReader{src: in, left: size}
	promised := size
	if !exact {
		promised = bytestore.UnknownSize
	}
	if err := s.bytes.Put(ctx, key, src, promised); err != nil {
		return metastore.Extent{}, err
	}
	return metastore.Extent{
		Offset:  offset,
		Size:    src.size,
		Blocks:  src.blocks(),
		Key:     string(key),
		Created: created,
	}, nil
}

// extentReader yields the next bytes of a body as one extent, and sums its
// blocks as they pass.
type extentReader struct {
	src  io.Reader
	left int64
	size int64
	full []uint32 // of the blocks that are complete
	crc  uint32   // of the block that is not
}

func (r *extentReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	n, err := r.src.Read(p)
	r.left -= int64(n)
	for p = p[:n]; len(p) > 0; {
		m := min(int64(len(p)), blockSize-r.size%blockSize)
		r.crc = crc32.Update(r.crc, castagnoli, p[:m])
		r.size += m
		p = p[m:]
		if r.size%blockSize == 0 {
			r.full, r.crc = append(r.full, r.crc), 0
		}
	}
	return n, err
}

func (r *extentReader) blocks() []uint32 {
	if r.size%blockSize == 0 {
		return r.full
	}
	return append(r.full, r.crc)
}

// discardTime bounds the clean-up after a failed write. What it leaves behind
// is found by the orphan sweep.
const discardTime = 10 * time.Second

// discard deletes the objects of a write that failed with cause, and returns
// cause. When it is not known whether the write happened they stay. What goes
// wrong with a delete is in the text of the error alone: it is not why the write
// failed.
func (s *Service) discard(ctx context.Context, extents []metastore.Extent, cause error) error {
	if errors.Is(cause, metastore.ErrUnknownOutcome) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	if left := s.deleteObjects(ctx, objectsOf(extents)); len(left) > 0 {
		return fmt.Errorf("%w\nthe orphan sweep has to free its bytes: %s", cause, left.Error())
	}
	return cause
}
