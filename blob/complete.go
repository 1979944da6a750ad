package blob

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/checksum"
	"sluice/database"
	"sluice/metastore"
)

// Totals are what an upload is expected to have. A nil field is not checked.
type Totals struct {
	Bytes *int64
	ETag  *string // with or without its quotes
	CRC64 *uint64
}

// maxCompleteAttempts limits how often Complete starts again because a part arrived.
const maxCompleteAttempts = 10

// Complete makes an upload's parts visible as a blob, durably, in one transaction that moves no
// data. Called again after a success, it returns the recorded result without any other check. If it
// returns an error, the upload is unchanged unless the error is database.ErrUnknownOutcome.
// precondition may be nil.
func (s *Service) Complete(ctx context.Context, id string, want Totals, precondition metastore.Precondition) (metastore.Upload, error) {
	return s.complete(ctx, id, precondition, func(u metastore.Upload) (contents, error) {
		c, err := s.assemble(ctx, u)
		if err == nil {
			err = want.check(c.size, c.crc64)
		}
		return c, err
	})
}

// Named are the parts that a caller names to complete an upload with uneven parts.
type Named struct {
	Parts   []NamedPart // at least one, with ascending Index
	MinSize int64       // of every named part but the last, in bytes
	Totals  Totals      // of these parts
	// Metadata returns the blob's metadata, instead of the upload's, from the named parts as they
	// are stored, or CompleteNamed's error. nil: the blob has none.
	Metadata func([]metastore.Part) (string, error)
}

// NamedPart names a part. Its ETag is checksum.ETag with the part's Size and CRC64, with or without
// its quotes.
type NamedPart struct {
	Index int
	ETag  string
}

// CompleteNamed is Complete for an upload with uneven parts. The blob consists of the named parts,
// and the others become garbage. It returns ErrNoParts, ErrTotals, or a PartError with
// ErrPartUnknown, ErrPartOrder or ErrPartTooSmall. For an upload with a part size it returns
// database.ErrNotFound.
func (s *Service) CompleteNamed(ctx context.Context, id string, named Named, precondition metastore.Precondition) (metastore.Upload, error) {
	return s.complete(ctx, id, precondition, func(u metastore.Upload) (contents, error) {
		c, err := s.choose(ctx, u, named)
		if err == nil && named.Metadata != nil {
			c.metadata, err = named.Metadata(c.parts)
		}
		return c, err
	})
}

// PartError is an error about one part, which it names by its number.
type PartError struct {
	Index int // the number less one
	Err   error
}

// Error implements error.
func (e *PartError) Error() string { return fmt.Sprintf("part %d: %v", e.Index+1, e.Err) }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// complete calls choose for what the upload is to contain, until no part arrives meanwhile.
func (s *Service) complete(
	ctx context.Context, id string, precondition metastore.Precondition, choose func(metastore.Upload) (contents, error),
) (metastore.Upload, error) {
	for range maxCompleteAttempts {
		u, err := s.openUpload(ctx, id)
		if errors.Is(err, metastore.ErrCommitted) {
			return u, nil
		}
		if err != nil {
			return u, err
		}
		c, err := choose(u)
		if err != nil {
			// If it has ended meanwhile, it has no parts any more.
			ended, stateErr := s.openUpload(ctx, id)
			switch {
			case errors.Is(stateErr, metastore.ErrCommitted):
				return ended, nil
			case stateErr != nil:
				return ended, stateErr
			default:
				return u, err
			}
		}
		u, err = s.commitContents(ctx, u, c, both(createOnly(u), precondition))
		if err == nil {
			s.garbageArose()
			return u, nil
		}
		if !errors.Is(err, metastore.ErrRevisionMismatch) {
			return u, expiredMeanwhile(err)
		}
	}
	return metastore.Upload{}, ErrUploadChanging
}

func (s *Service) commitContents(ctx context.Context, u metastore.Upload, c contents, precondition metastore.Precondition) (metastore.Upload, error) {
	if u.PartSize == 0 {
		return s.meta.CompleteUneven(ctx, u.ID, u.Revision, c.parts, c.crc64, c.metadata, precondition)
	}
	return s.meta.CompleteUpload(ctx, u.ID, u.Revision, c.size, c.crc64, precondition)
}

// contents are what an upload is to become.
type contents struct {
	parts    []metastore.Part // if they are uneven
	metadata string           // if they are uneven
	size     int64
	crc64    uint64
	sum      checksum.Combiner
}

// add appends a part.
func (c *contents) add(p metastore.Part, uneven bool) error {
	if c.size += p.Size; c.size > MaxSize {
		return ErrTooLarge
	}
	c.crc64 = c.sum.Combine(c.crc64, p.CRC64, p.Size)
	if uneven {
		c.parts = append(c.parts, p)
	}
	return nil
}

// eachPart calls fn with the upload's parts, in order, until it returns an error.
func (s *Service) eachPart(ctx context.Context, id string, fn func(metastore.Part) error) error {
	const page = 10_000
	for after := -1; ; {
		parts, err := s.meta.Parts(ctx, id, after, page)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := fn(p); err != nil {
				return err
			}
			after = p.Index
		}
		if len(parts) < page {
			return nil
		}
	}
}

// assemble returns all of an upload's parts. If they have a part size, they must be contiguous.
func (s *Service) assemble(ctx context.Context, u metastore.Upload) (contents, error) {
	c := contents{metadata: u.Metadata}
	uneven := u.PartSize == 0
	last := metastore.Part{Index: -1, Size: u.PartSize}
	err := s.eachPart(ctx, u.ID, func(p metastore.Part) error {
		switch {
		case uneven:
		case p.Index != last.Index+1:
			return fmt.Errorf("%w: there is no part %d, but a part %d", ErrPartsMissing, last.Index+1, p.Index)
		case last.Size != u.PartSize:
			return fmt.Errorf("%w: part %d has %d bytes; all parts but the last must have %d", ErrPartSize, last.Index, last.Size, u.PartSize)
		}
		last = p
		return c.add(p, uneven)
	})
	if err == nil && uneven && len(c.parts) == 0 {
		err = fmt.Errorf("%w: there are none", ErrPartsMissing)
	}
	return c, err
}

// choose returns the parts that are named.
func (s *Service) choose(ctx context.Context, u metastore.Upload, named Named) (contents, error) {
	if u.PartSize != 0 {
		return contents{}, fmt.Errorf("an upload with uneven parts: %w", database.ErrNotFound)
	}
	if err := named.checkOrder(); err != nil {
		return contents{}, err
	}
	var c contents
	left := named.Parts
	err := s.eachPart(ctx, u.ID, func(p metastore.Part) error {
		if len(left) == 0 || p.Index < left[0].Index {
			return nil
		}
		if err := left[0].check(p); err != nil {
			return err
		}
		if left = left[1:]; len(left) > 0 && p.Size < named.MinSize {
			return &PartError{p.Index, fmt.Errorf("%w: it has %d bytes, and all but the last must have %d", ErrPartTooSmall, p.Size, named.MinSize)}
		}
		return c.add(p, true)
	})
	if err == nil && len(left) > 0 {
		err = &PartError{left[0].Index, ErrPartUnknown}
	}
	if err == nil {
		err = named.Totals.check(c.size, c.crc64)
	}
	return c, err
}

// checkOrder returns ErrNoParts, or ErrPartOrder unless the indexes ascend.
func (n Named) checkOrder() error {
	if len(n.Parts) == 0 {
		return ErrNoParts
	}
	for i, p := range n.Parts[1:] {
		if p.Index <= n.Parts[i].Index {
			return &PartError{p.Index, ErrPartOrder}
		}
	}
	return nil
}

// check returns ErrPartUnknown unless n names the part p.
func (n NamedPart) check(p metastore.Part) error {
	size, crc64, ok := checksum.ParseETag(n.ETag)
	if p.Index != n.Index || !ok || size != p.Size || crc64 != p.CRC64 {
		return &PartError{n.Index, ErrPartUnknown}
	}
	return nil
}

func (t Totals) check(size int64, crc64 uint64) error {
	if t.Bytes != nil && *t.Bytes != size {
		return fmt.Errorf("%w: the parts have %d bytes in total, but totalBytes is %d", ErrTotals, size, *t.Bytes)
	}
	if t.ETag != nil && strings.Trim(*t.ETag, `"`) != strings.Trim(checksum.ETag(size, crc64), `"`) {
		return fmt.Errorf("%w: the ETag of all parts is %s", ErrTotals, checksum.ETag(size, crc64))
	}
	if t.CRC64 != nil && *t.CRC64 != crc64 {
		return fmt.Errorf("%w: the parts have another CRC-64/NVME", ErrTotals)
	}
	return nil
}

// createOnly returns an upload's Precondition if it was begun with CreateOnly, or nil.
func createOnly(u metastore.Upload) metastore.Precondition {
	if !u.CreateOnly {
		return nil
	}
	return func(current *metastore.Blob) error {
		if current != nil && current != metastore.VersionGoes {
			return ErrExists
		}
		return nil
	}
}

// both returns the Precondition that checks a and then b. Each may be nil.
func both(a, b metastore.Precondition) metastore.Precondition {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(current *metastore.Blob) error {
		if err := a(current); err != nil {
			return err
		}
		return b(current)
	}
}
