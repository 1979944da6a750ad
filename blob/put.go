package blob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/metastore"
)

// PutOptions describes a blob to be stored.
type PutOptions struct {
	Account       string // in the canonical form that ParseAccount returns, or as Place returns it
	Name          string // valid according to CheckName, or as Place returns it
	ContentType   string
	Metadata      string                 // any text, stored with the blob and returned with it
	FinalMetadata func() string          // returns the Metadata once the body has been received; nil: it is Metadata
	Owner         string                 // the quota group charged for the blob, or ""
	By            string                 // who stores it, see metastore.Blob
	Lock          metastore.Lock         // see metastore.Blob
	Expires       time.Time              // zero if it does not expire
	SHA256        []byte                 // if set, the body must have this digest, which is stored
	Precondition  metastore.Precondition // nil if the blob is stored unconditionally
	Permit        Permit                 // nil if the blob may be stored, however long the body takes
}

// Permit decides, when the body has been received and just before the transaction that makes it
// visible, whether that may still happen. If it returns an error, nothing is stored.
type Permit func(context.Context) error

func (p Permit) check(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p(ctx)
}

// Put stores a blob and returns it as stored. size is the exact length of body in bytes, or
// bytestore.UnknownSize. Once Put returns nil, the blob is durable. The Precondition is checked
// before the body is read and again within the transaction that stores the blob, which decides. If
// Put returns an error, nothing has changed unless the error is database.ErrUnknownOutcome.
func (s *Service) Put(ctx context.Context, p PutOptions, body Body, size int64) (metastore.Blob, error) {
	if err := s.checkPut(ctx, p, size); err != nil {
		return metastore.Blob{}, err
	}
	r := s.newBodyReader(body, size, p.SHA256 != nil)
	extents, err := s.storeBody(ctx, r, size, MaxSize, ErrTooLarge)
	if err != nil {
		return metastore.Blob{}, err
	}
	if p.FinalMetadata != nil {
		p.Metadata = p.FinalMetadata()
	}
	b := metastore.Blob{
		Account: p.Account, Name: p.Name,
		Content:     metastore.NewContentID(s.meta.Now()),
		Size:        r.size,
		CRC64:       r.crc64.Sum64(),
		ContentType: p.ContentType,
		Metadata:    p.Metadata,
		Owner:       p.Owner,
		By:          p.By,
		Lock:        p.Lock,
		Expires:     p.Expires,
		SHA256:      p.SHA256,
	}
	err = r.checkDigest(p.SHA256)
	if err == nil {
		err = p.Permit.check(ctx)
	}
	if err == nil {
		b, err = s.meta.CommitBlob(ctx, b, extents, p.Precondition)
		err = expiredMeanwhile(err)
	}
	if err != nil {
		return metastore.Blob{}, s.discard(ctx, extents, err)
	}
	s.garbageArose()
	return b, nil
}

// checkPut rejects a Put for reasons that are known before the body is read.
func (s *Service) checkPut(ctx context.Context, p PutOptions, size int64) error {
	if size > MaxSize {
		return ErrTooLarge
	}
	if err := s.checkExpiry(p.Expires); err != nil {
		return err
	}
	if p.Precondition != nil {
		current, err := s.current(ctx, p.Account, p.Name)
		if err != nil {
			return err
		}
		if err := p.Precondition(current); err != nil {
			return err
		}
	}
	return s.checkSpace(max(size, 0))
}

func (s *Service) checkExpiry(t time.Time) error {
	if !t.IsZero() && !t.After(s.meta.Now()) {
		return ErrExpiryPast
	}
	return nil
}

// expiredMeanwhile maps a commit's error if the blob has expired since its expiry was checked.
func expiredMeanwhile(err error) error {
	if errors.Is(err, database.ErrExpired) {
		return fmt.Errorf("%w: %w", ErrExpiryPast, err)
	}
	return err
}

// current returns the blob to which a Precondition applies, or nil if there is none.
func (s *Service) current(ctx context.Context, account, name string) (*metastore.Blob, error) {
	b, err := s.meta.Blob(ctx, account, name)
	switch {
	case err == nil:
		return &b, nil
	case errors.Is(err, database.ErrNotFound), errors.Is(err, database.ErrExpired):
		return nil, nil
	default:
		return nil, err
	}
}
