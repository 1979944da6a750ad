package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/database"
	"sluice/metastore"
)

// BeginOptions describes a multipart upload.
type BeginOptions struct {
	Account     string // in the canonical form that ParseAccount returns
	Name        string // valid according to CheckName
	PartSize    int64  // in bytes, 1 to MaxPartSize
	ContentType string
	Metadata    string    // of the blob, as in PutOptions
	Expires     time.Time // of the blob; zero if it does not expire
	CreateOnly  bool      // Complete fails if the blob exists
	Owner       string    // the quota group charged for the parts and the blob, or ""
}

// Begin begins an upload. Its id cannot be guessed. If Begin returns database.ErrUnknownOutcome,
// the returned upload has only the ID that it has if it was begun.
func (s *Service) Begin(ctx context.Context, b BeginOptions) (metastore.Upload, error) {
	if err := s.checkExpiry(b.Expires); err != nil {
		return metastore.Upload{}, err
	}
	if b.PartSize < 1 || b.PartSize > MaxPartSize {
		return metastore.Upload{}, fmt.Errorf("%w: a part size is 1 to %d bytes", ErrPartSize, MaxPartSize)
	}
	if err := s.checkSpace(0); err != nil {
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
		Metadata:    b.Metadata,
		Expires:     b.Expires,
		CreateOnly:  b.CreateOnly,
		Owner:       b.Owner,
	})
	if errors.Is(err, database.ErrUnknownOutcome) {
		begun = metastore.Upload{ID: id}
	}
	return begun, err
}

// PartOptions describes a part to be stored.
type PartOptions struct {
	UploadID string
	Index    int    // 0 to MaxParts - 1
	SHA256   []byte // if set, the body must have this digest
	Permit   Permit // as in PutOptions
}

// PutPart stores a part durably, and replaces an earlier part with the same index. size is the
// exact length of body in bytes, or bytestore.UnknownSize. If PutPart returns an error, nothing has
// changed unless the error is database.ErrUnknownOutcome.
func (s *Service) PutPart(ctx context.Context, p PartOptions, body Body, size int64) error {
	u, err := s.openUpload(ctx, p.UploadID)
	if err != nil {
		return err
	}
	if err := checkPart(u, p.Index, size); err != nil {
		return err
	}
	if err := s.checkSpace(max(size, 0)); err != nil {
		return err
	}
	r := s.newBodyReader(body, size, p.SHA256 != nil)
	tooLong := fmt.Errorf("%w: a part of this upload has at most %d bytes", ErrPartSize, u.PartSize)
	extents, err := s.storeBody(ctx, r, size, u.PartSize, tooLong)
	if err != nil {
		return err
	}
	for i := range extents {
		extents[i].Part = p.Index
	}
	err = checkPart(u, p.Index, r.size)
	if err == nil {
		err = r.checkDigest(p.SHA256)
	}
	if err == nil {
		err = p.Permit.check(ctx)
	}
	if err == nil {
		part := metastore.Part{Index: p.Index, Size: r.size, CRC64: r.crc64.Sum64()}
		err = s.meta.PutPart(ctx, p.UploadID, part, extents)
	}
	if err != nil {
		return s.discard(ctx, extents, err)
	}
	s.garbageArose()
	return nil
}

// openUpload returns an upload that still accepts parts. It returns metastore.ErrAborted or
// metastore.ErrCommitted, with the upload, if it does not.
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

// checkPart checks a part's index and size; the size may be unknown.
func checkPart(u metastore.Upload, index int, size int64) error {
	switch {
	case index < 0 || index >= MaxParts:
		return fmt.Errorf("%w: it must be 0 to %d", ErrPartIndex, MaxParts-1)
	case int64(index)*u.PartSize+max(size, 1) > MaxSize:
		return ErrTooLarge
	case size == 0:
		return fmt.Errorf("%w: a part has at least 1 byte", ErrPartSize)
	case size > u.PartSize:
		return fmt.Errorf("%w: a part of this upload has at most %d bytes", ErrPartSize, u.PartSize)
	default:
		return nil
	}
}

// Totals are what an upload is expected to have. A nil field is not checked.
type Totals struct {
	Bytes *int64
	ETag  *string // with or without its quotes
}

// maxCompleteAttempts limits how often Complete starts again because a part arrived.
const maxCompleteAttempts = 10

// Complete makes an upload's parts visible as a blob, durably, in one transaction that moves no
// data. Called again after a success, it returns the recorded result without any other check. If it
// returns an error, the upload is unchanged unless the error is database.ErrUnknownOutcome.
// precondition may be nil.
func (s *Service) Complete(ctx context.Context, id string, want Totals, precondition metastore.Precondition) (metastore.Upload, error) {
	for range maxCompleteAttempts {
		u, err := s.openUpload(ctx, id)
		if errors.Is(err, metastore.ErrCommitted) {
			return u, nil
		}
		if err != nil {
			return u, err
		}
		size, crc64, err := s.assemble(ctx, u)
		if err == nil {
			err = want.check(size, crc64)
		}
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
		u, err = s.meta.CompleteUpload(ctx, id, u.Revision, size, crc64, both(createOnly(u), precondition))
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

// assemble returns the size in bytes and the CRC-64/NVME of an upload's concatenated parts.
func (s *Service) assemble(ctx context.Context, u metastore.Upload) (int64, uint64, error) {
	const page = 10_000
	var (
		size  int64
		crc64 uint64
		sum   checksum.Combiner
		last  = metastore.Part{Index: -1, Size: u.PartSize}
	)
	for {
		parts, err := s.meta.Parts(ctx, u.ID, last.Index, page)
		if err != nil {
			return 0, 0, err
		}
		for _, p := range parts {
			if p.Index != last.Index+1 {
				return 0, 0, fmt.Errorf("%w: there is no part %d, but a part %d", ErrPartsMissing, last.Index+1, p.Index)
			}
			if last.Size != u.PartSize {
				return 0, 0, fmt.Errorf("%w: part %d has %d bytes; all parts but the last must have %d", ErrPartSize, last.Index, last.Size, u.PartSize)
			}
			size += p.Size
			crc64 = sum.Combine(crc64, p.CRC64, p.Size)
			last = p
		}
		if len(parts) < page {
			return size, crc64, nil
		}
	}
}

func (t Totals) check(size int64, crc64 uint64) error {
	if t.Bytes != nil && *t.Bytes != size {
		return fmt.Errorf("%w: the parts have %d bytes in total, but totalBytes is %d", ErrTotals, size, *t.Bytes)
	}
	if t.ETag != nil && strings.Trim(*t.ETag, `"`) != strings.Trim(checksum.ETag(size, crc64), `"`) {
		return fmt.Errorf("%w: the ETag of all parts is %s", ErrTotals, checksum.ETag(size, crc64))
	}
	return nil
}

// createOnly returns an upload's Precondition if it was begun with CreateOnly, or nil.
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

// Abort ends an open upload durably and frees its parts. It is idempotent. It returns
// metastore.ErrCommitted if the upload was completed.
func (s *Service) Abort(ctx context.Context, id string) error {
	var content metastore.ContentID
	err := s.withRelief(func() (err error) {
		content, err = s.meta.AbortUpload(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	s.freeNow(ctx, content)
	return nil
}

// FindUpload returns an upload in any state. It returns database.ErrNotFound if there is none.
func (s *Service) FindUpload(ctx context.Context, id string) (metastore.Upload, error) {
	return s.meta.Upload(ctx, id)
}

// Upload returns an upload in any state, with up to limit of its parts with an index greater than
// after.
func (s *Service) Upload(ctx context.Context, id string, after, limit int) (metastore.Upload, []metastore.Part, error) {
	u, err := s.meta.Upload(ctx, id)
	if err != nil {
		return u, nil, err
	}
	parts, err := s.meta.Parts(ctx, id, after, limit)
	return u, parts, err
}

// Uploads returns up to limit open uploads of the account, oldest first, after the upload with the
// id after, and whether there are more. bytes bounds them as in metastore.Uploads.
func (s *Service) Uploads(ctx context.Context, account, after string, limit int, bytes int64) (list []metastore.Upload, more bool, err error) {
	return s.meta.ListUploads(ctx, account, after, limit, bytes)
}
