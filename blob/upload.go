package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/metastore"
)

// Begin is what a writer says of a multipart upload.
type BeginOptions struct {
	Account     string // as ParseAccount gives it
	Name        string // as CheckName accepts it
	PartSize    int64  // 1 to MaxPartSize
	ContentType string
	Expires     time.Time // of the blob; zero: never
	CreateOnly  bool      // complete must find no blob of that name
	Owner       string    // whose usage the parts and the blob count towards; may be empty
}

// Begin opens an upload. Its id is unguessable. Beside
// metastore.ErrUnknownOutcome the upload has the ID that it has if it was begun,
// or will be, and nothing else.
func (s *Service) Begin(ctx context.Context, b BeginOptions) (metastore.Upload, error) {
	if err := s.checkExpiry(b.Expires); err != nil {
		return metastore.Upload{}, err
	}
	if b.PartSize < 1 || b.PartSize > MaxPartSize {
		return metastore.Upload{}, fmt.Errorf("%w: parts have 1 to %d bytes", ErrPartSize, MaxPartSize)
	}
	if err := s.room(0); err != nil {
		return metastore.Upload{}, err
	}
	id := rand.Text()
	begun, err := s.meta.BeginUpload(ctx, metastore.Upload{
		ID:          id,
		Account:     b.Account,
		Name:        b.Name,
		Content:     metastore.NewContentID(s.meta.Now()),
		PartSize:    b.PartSize,
		ContentType: b.ContentType,
		Expires:     b.Expires,
		CreateOnly:  b.CreateOnly,
		Owner:       b.Owner,
	})
	if errors.Is(err, metastore.ErrUnknownOutcome) {
		begun = metastore.Upload{ID: id}
	}
	return begun, err
}

// PutPart stores a part, in place of what was there under that index. size is
// the exact length of body or bytestore.UnknownSize; sha256, when set, is the
// digest that the body must have. On an error the part is as it was, unless it
// is metastore.ErrUnknownOutcome.
func (s *Service) PutPart(ctx context.Context, uploadID string, index int, sha256 []byte, body Body, size int64) error {
	u, err := s.openUpload(ctx, uploadID)
	if err != nil {
		return err
	}
	if err := admitPart(u, index, size); err != nil {
		return err
	}
	if err := s.room(max(size, 0)); err != nil {
		return err
	}
	in := s.newIntake(body, size, sha256 != nil)
	tooLong := fmt.Errorf("%w: this upload's parts have at most %d bytes", ErrPartSize, u.PartSize)
	extents, err := s.takeIn(ctx, in, size, u.PartSize, tooLong)
	if err != nil {
		return err
	}
	for i := range extents {
		extents[i].Part = index
	}
	err = admitPart(u, index, in.size)
	if err == nil {
		err = in.checkDigest(sha256)
	}
	if err == nil {
		part := metastore.Part{Index: index, Size: in.size, CRC64: in.crc64.Sum64()}
		err = s.meta.PutPart(ctx, uploadID, part, extents)
	}
	if err != nil {
		return s.discard(ctx, extents, err)
	}
	s.gather()
	return nil
}

// openUpload gives an upload that still takes parts.
func (s *Service) openUpload(ctx context.Context, id string) (metastore.Upload, error) {
	u, err := s.meta.Upload(ctx, id)
	if err != nil {
		return u, err
	}
	switch u.State {
	case metastore.UploadAborted:
		return u, metastore.ErrAborted
	case metastore.UploadCommitted:
		return u, metastore.ErrCommitted
	default:
		return u, nil
	}
}

// admitPart judges a part by its index and size alone; the size may be unknown.
func admitPart(u metastore.Upload, index int, size int64) error {
	switch {
	case index < 0 || index >= MaxParts:
		return fmt.Errorf("%w: it must be 0 to %d", ErrPartIndex, MaxParts-1)
	case int64(index)*u.PartSize+max(size, 1) > MaxSize:
		return ErrTooLarge
	case size == 0:
		return fmt.Errorf("%w: a part has at least 1 byte", ErrPartSize)
	case size > u.PartSize:
		return fmt.Errorf("%w: this upload's parts have at most %d bytes", ErrPartSize, u.PartSize)
	default:
		return nil
	}
}

// Totals is what a caller of Complete expects of the whole; nil: anything.
type Totals struct {
	Bytes *int64
	ETag  *string // with or without its quotes
}

// completeTries bounds how often Complete starts over because a part came in.
const completeTries = 10

// Complete makes the upload's parts visible as a blob, in one transaction that
// moves no data. Repeated after a success it returns the recorded outcome,
// before it looks at anything else. A refusal leaves an open upload open and
// unchanged. guard may be nil.
func (s *Service) Complete(ctx context.Context, id string, want Totals, guard metastore.Precondition) (metastore.Upload, error) {
	for range completeTries {
		u, err := s.openUpload(ctx, id)
		if errors.Is(err, metastore.ErrCommitted) {
			return u, nil
		}
		if err != nil {
			return u, err
		}
		size, crc64, err := s.assemble(ctx, u)
		if err != nil {
			return u, err
		}
		if err := want.check(size, crc64); err != nil {
			return u, err
		}
		u, err = s.meta.CompleteUpload(ctx, id, u.Revision, size, crc64, both(createOnly(u), guard))
		if err == nil {
			s.gather()
			return u, nil
		}
		if !errors.Is(err, metastore.ErrRevisionMismatch) {
			return u, expiredMeanwhile(err)
		}
	}
	return metastore.Upload{}, ErrUploadChanging
}

// assemble gives the size and CRC-64/NVME of an upload's parts in a row.
func (s *Service) assemble(ctx context.Context, u metastore.Upload) (int64, uint64, error) {
	const page = 10_000
	var (
		size  int64
		crc64 uint64
		sum   combiner
		last  = metastore.Part{Index: -1, Size: u.PartSize}
	)
	for {
		parts, err := s.meta.Parts(ctx, u.ID, last.Index, page)
		if err != nil {
			return 0, 0, err
		}
		for _, p := range parts {
			if p.Index != last.Index+1 {
				return 0, 0, fmt.Errorf("%w: part %d is not there, part %d is", ErrPartsMissing, last.Index+1, p.Index)
			}
			if last.Size != u.PartSize {
				return 0, 0, fmt.Errorf("%w: part %d has %d bytes; all but the last have %d", ErrPartSize, last.Index, last.Size, u.PartSize)
			}
			size += p.Size
			crc64 = sum.combine(crc64, p.CRC64, p.Size)
			last = p
		}
		if len(parts) < page {
			return size, crc64, nil
		}
	}
}

func (t Totals) check(size int64, crc64 uint64) error {
	if t.Bytes != nil && *t.Bytes != size {
		return fmt.Errorf("%w: its parts have %d bytes together, totalBytes says %d", ErrTotals, size, *t.Bytes)
	}
	if t.ETag != nil && strings.Trim(*t.ETag, `"`) != strings.Trim(ETag(size, crc64), `"`) {
		return fmt.Errorf("%w: its parts have the ETag %s together", ErrTotals, ETag(size, crc64))
	}
	return nil
}

// createOnly is the Precondition of an upload that was begun with CreateOnly.
func createOnly(u metastore.Upload) metastore.Precondition {
	if !u.CreateOnly {
		return nil
	}
	return func(current *metastore.Blob) error {
		if current != nil {
			return ErrExists
		}
		return nil
	}
}

// both is the Precondition that asks a, then b; each may be nil.
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

// Abort ends an open upload and frees its parts. Repeated: nil.
// metastore.ErrCommitted when it was completed.
func (s *Service) Abort(ctx context.Context, id string) error {
	var content metastore.ContentID
	err := s.relieved(func() (err error) {
		content, err = s.meta.AbortUpload(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	s.freeSoon(ctx, content)
	return nil
}

// FindUpload gives an upload in whatever state it is. metastore.ErrNotFound.
func (s *Service) FindUpload(ctx context.Context, id string) (metastore.Upload, error) {
	return s.meta.Upload(ctx, id)
}

// Upload gives an upload in whatever state it is, with up to limit of its
// parts whose index is greater than after.
func (s *Service) Upload(ctx context.Context, id string, after, limit int) (metastore.Upload, []metastore.Part, error) {
	u, err := s.meta.Upload(ctx, id)
	if err != nil {
		return u, nil, err
	}
	parts, err := s.meta.Parts(ctx, id, after, limit)
	return u, parts, err
}

// Uploads gives up to limit open uploads of the account, oldest first,
// beginning behind the one whose id is after.
func (s *Service) Uploads(ctx context.Context, account, after string, limit int) ([]metastore.Upload, error) {
	return s.meta.ListUploads(ctx, account, after, limit)
}
