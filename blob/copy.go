package blob

import (
	"context"
	"errors"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/metastore"
)

// Admit decides whether a blob may be copied or moved. It is called with the source before the
// transaction, and again if another blob has become the source meanwhile.
type Admit func(ctx context.Context, source metastore.Blob) error

// Restate changes the ContentType, the Metadata and the Expires that the copy of a source gets: the
// source's type and metadata, unless CopyOptions has them, and the expiry that CopyOptions has.
type Restate func(source metastore.Blob, copied *metastore.Blob) error

// ActOf returns the act that is recorded with the copy of a source, which may be nil.
type ActOf func(source metastore.Blob, copied *metastore.Blob) (*actions.Act, error)

// CopyOptions describes a copy of a blob.
type CopyOptions struct {
	From, To     metastore.BlobName     // valid as the Account and the Name of PutOptions
	FromVersion  *metastore.VersionName // is copied instead of From; nil: none
	By           string                 // who copies it, see metastore.Blob
	Lock         metastore.Lock         // the copy's, see metastore.Blob
	Restated     bool                   // whether the copy has this ContentType and this Metadata, not the source's
	ContentType  string
	Metadata     string
	Owner        string                 // the quota group charged for the copy, or ""
	Expires      time.Time              // zero if the copy does not expire
	Restate      Restate                // may be nil
	Act          ActOf                  // is called after Restate; may be nil
	KeepDate     bool                   // see metastore.Copy
	Restores     bool                   // see metastore.Copy
	Source       metastore.Precondition // is called with the source; may be nil
	Precondition metastore.Precondition // is called with the blob that the copy replaces; may be nil
	Admit        Admit                  // may be nil
	Permit       Permit                 // is called just before the transaction; may be nil
}

// Copy makes the blob o.From's bytes readable as the blob o.To, and returns that as stored.
// Its cost does not grow with their number. The bytes are freed when no blob has them any longer.
// If o.To is o.From, only the properties that o states change. o.Restate is called with the source
// that is copied, before o.Admit.
//
// It returns metastore.ErrNoSource if there is no source, ErrExpiryPast, ErrSourceChanging, or an
// error of the functions in o. After an error nothing has changed, unless the error is
// database.ErrUnknownOutcome.
func (s *Service) Copy(ctx context.Context, o CopyOptions) (metastore.Blob, error) {
	if err := s.checkExpiry(o.Expires); err != nil {
		return metastore.Blob{}, err
	}
	if err := s.checkSpace(0); err != nil {
		return metastore.Blob{}, err
	}
	c := metastore.Copy{
		From: o.From, FromVersion: o.FromVersion, Restated: o.Restated || o.Restate != nil, KeepDate: o.KeepDate, Restores: o.Restores, Precondition: o.Precondition,
		To: metastore.Blob{
			Account: o.To.Account, Name: o.To.Name, ContentType: o.ContentType, Metadata: o.Metadata, Owner: o.Owner, By: o.By, Lock: o.Lock, Expires: o.Expires,
		},
	}
	admit := func(ctx context.Context, source metastore.Blob) (err error) {
		if o.Restate != nil {
			if !o.Restated {
				c.To.ContentType, c.To.Metadata = source.ContentType, source.Metadata
			} else {
				c.To.ContentType, c.To.Metadata = o.ContentType, o.Metadata
			}
			c.To.Expires = o.Expires
			if err = o.Restate(source, &c.To); err == nil {
				err = s.checkExpiry(c.To.Expires)
			}
		}
		if err == nil && o.Act != nil {
			c.Act, err = o.Act(source, &c.To)
		}
		if err == nil && o.Admit != nil {
			err = o.Admit(ctx, source)
		}
		return err
	}
	b, err := s.transfer(ctx, transfer{from: o.From, version: o.FromVersion, source: o.Source, admit: admit, permit: o.Permit}, func(source metastore.Precondition) (metastore.Blob, error) {
		c.Source = source
		return s.meta.CopyBlob(ctx, c)
	})
	if !errors.Is(err, metastore.ErrNoSource) {
		err = expiredMeanwhile(err)
	}
	return b, err
}

// MoveOptions describes a move of a blob.
type MoveOptions struct {
	From, To     metastore.BlobName                 // valid as the Account and the Name of PutOptions
	Owner        string                             // the quota group charged for the blob from then on, or ""
	By           string                             // who moves it, see metastore.Blob
	Lock         metastore.Lock                     // the moved blob's, see metastore.Blob
	Source       metastore.Precondition             // is called with the source; may be nil
	Precondition metastore.Precondition             // is called with the blob that the move replaces; may be nil
	Made         func(current *metastore.Blob) bool // see metastore.Move; may be nil
	Once         *database.Idempotency              // makes the move idempotent; may be nil
	NoRecord     error                              // see metastore.Move
	Admit        Admit                              // is not called if there is no source, or From is To; may be nil
	Permit       Permit                             // is called just before the transaction; may be nil
}

// Move makes the blob o.From the blob o.To, charged to o.Owner, and returns it as stored.
// Its cost does not grow with the blob's size. If o.To is o.From, nothing changes. A move that
// o.Once has recorded returns its result, whatever Admit, the preconditions and o.NoRecord say.
//
// It returns metastore.ErrNoSource if there is no source, ErrSourceChanging, or an error of the
// functions in o. After an error nothing has changed, unless the error is
// database.ErrUnknownOutcome.
func (s *Service) Move(ctx context.Context, o MoveOptions) (metastore.Blob, error) {
	m := metastore.Move{From: o.From, To: o.To, Owner: o.Owner, By: o.By, Lock: o.Lock, Precondition: o.Precondition, Made: o.Made, Once: o.Once, NoRecord: o.NoRecord}
	t := transfer{from: o.From, source: o.Source, admit: o.Admit, permit: o.Permit, repeatable: true}
	if o.From == o.To {
		t.admit = nil
	}
	return s.transfer(ctx, t, func(source metastore.Precondition) (metastore.Blob, error) {
		m.Source = source
		return s.meta.MoveBlob(ctx, m)
	})
}

// transferAttempts is how often a transfer looks up its source before it returns ErrSourceChanging.
const transferAttempts = 5

// transfer is what a copy and a move have in common.
type transfer struct {
	from       metastore.BlobName
	version    *metastore.VersionName // of from; nil: the current one
	source     metastore.Precondition
	admit      Admit
	permit     Permit
	repeatable bool // the transaction may return the result of an earlier call
}

// transfer calls commit, which makes one transaction, for the source that was admitted.
func (s *Service) transfer(
	ctx context.Context, t transfer, commit func(source metastore.Precondition) (metastore.Blob, error),
) (metastore.Blob, error) {
	other := errors.New("the source is another blob than the one that was admitted")
	for range transferAttempts {
		source, err := s.admitted(ctx, t, other)
		if err != nil {
			return metastore.Blob{}, err
		}
		if err := t.permit.check(ctx); err != nil {
			return metastore.Blob{}, err
		}
		b, err := commit(source)
		if errors.Is(err, other) {
			continue
		}
		if err == nil {
			s.garbageArose()
		}
		return b, err
	}
	return metastore.Blob{}, ErrSourceChanging
}

// sourceOf returns the blob that is to be copied or moved, or nil if there is none.
func (s *Service) sourceOf(ctx context.Context, t transfer) (*metastore.Blob, error) {
	if t.version == nil {
		return s.current(ctx, t.from.Account, t.from.Name)
	}
	b, _, err := s.meta.OpenVersion(ctx, *t.version)
	if err == nil && !b.Mark {
		return &b, nil
	}
	if errors.Is(err, database.ErrNotFound) {
		err = nil
	}
	return nil, err
}

// admitted looks up the source and returns the condition that it is admitted, and the same in the
// transaction: if it is not, the condition's error is other. If there is nothing to admit, the
// transaction decides alone.
func (s *Service) admitted(ctx context.Context, t transfer, other error) (metastore.Precondition, error) {
	check := func(current *metastore.Blob) error {
		if t.source == nil {
			return nil
		}
		return t.source(current)
	}
	if t.admit == nil {
		return check, nil
	}
	source, err := s.sourceOf(ctx, t)
	if err != nil {
		return nil, err
	}
	if source == nil {
		return func(current *metastore.Blob) error {
			if err := check(current); err != nil {
				return err
			}
			return other
		}, nil
	}
	// A condition that does not hold is reported before a refusal.
	refused := check(source)
	if refused == nil {
		refused = t.admit(ctx, *source)
	}
	if refused != nil && !t.repeatable {
		return nil, refused
	}
	return func(current *metastore.Blob) error {
		if err := check(current); err != nil {
			return err
		}
		if current.Content != source.Content || current.Metadata != source.Metadata || current.Owner != source.Owner {
			return other
		}
		if current.ContentType != source.ContentType || !current.Expires.Equal(source.Expires) {
			return other // it was described anew
		}
		return refused
	}, nil
}
