// Package blob holds the rules for blobs and multipart uploads: how a body is
// cut into extents and checked, what makes it visible, how it is read back, and
// how the bytes that nothing refers to any more are freed.
//
// It knows neither HTTP nor SQL nor the file system: bytes go into a
// bytestore.Store, everything else into a metastore.Store. The order of writes
// is always the same: bytes first, then one metadata transaction, the only
// moment of truth, and deletes last. So a crash leaves at worst objects that
// nothing refers to, and the orphan sweep finds those.
package blob

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// Errors of this package. They arrive wrapped; compare with errors.Is. Errors
// of the two stores pass through beside them.
var (
	// ErrIncompleteBody: the body ended before its declared length.
	ErrIncompleteBody = errors.New("the body ended before its declared length")
	// ErrDigestMismatch: the body does not have the SHA-256 that was given.
	ErrDigestMismatch = errors.New("the body does not match its digest")
	// ErrTooLarge: the content would exceed MaxSize.
	ErrTooLarge = errors.New("the blob would be larger than 5 TiB")
	// ErrPutTooLong: a body took longer than metastore.MaxExtentAge.
	ErrPutTooLong = errors.New("the body took longer than 12 hours")
	// ErrExpiryPast: the expiry lies in the past.
	ErrExpiryPast = errors.New("the expiry lies in the past")
	// ErrPartIndex: the index of a part is out of range.
	ErrPartIndex = errors.New("the part index is out of range")
	// ErrPartSize: a part is empty, too long, or too short for its place.
	ErrPartSize = errors.New("the part has a wrong size")
	// ErrPartsMissing: parts are missing between those that are there.
	ErrPartsMissing = errors.New("parts are missing")
	// ErrTotals: the upload has another size or ETag than complete was told.
	ErrTotals = errors.New("the upload is not what complete expects")
	// ErrUploadChanging: parts kept arriving while complete ran.
	ErrUploadChanging = errors.New("parts kept arriving during complete")
	// ErrExists: the blob exists, and the upload was to create it only.
	ErrExists = errors.New("the blob exists already")
	// ErrCorrupt: stored bytes do not match their checksum, are gone, or cannot
	// be read off their medium (EIO). A store that cannot be reached is not that.
	ErrCorrupt = errors.New("stored bytes are damaged")
	// ErrCut: a content cannot be read to its end, because it was deleted or
	// replaced and its bytes have to be freed.
	ErrCut = errors.New("the blob was deleted or replaced while it was read, and its bytes are needed no longer")
	// ErrForeignStore: metadata and bytes belong to different instances.
	ErrForeignStore = errors.New("metadata and bytes do not belong together")
	// ErrUnfinishedCopy: the stores are the target of a copy that has not ended.
	ErrUnfinishedCopy = errors.New("the stores hold an unfinished copy")
	// ErrLargeSweep: the orphan sweep would delete so much that it stopped.
	ErrLargeSweep = errors.New("the orphan sweep stopped: it would delete too much")
)

// Limits.
const (
	MaxSize     = 5 << 40 // bytes of a blob
	MaxPartSize = 1 << 30 // bytes of a part
	MaxParts    = 100_000 // parts of an upload; indexes are below it
	// MaxNameLength is the greatest length of a blob name in UTF-16 code units, which
	// the public client counts.
	MaxNameLength = 1_024
)

// blockSize is the length of the runs of an extent that have a CRC-32C each,
// counted from the extent's start.
const blockSize = 1 << 20

// Options are the settings of a Service. The zero value works.
type Options struct {
	// ExtentSize is the greatest length of a stored object, a multiple of
	// 1 MiB, at most 64 MiB. Default 64 MiB.
	ExtentSize int64
	// InlineSize is the greatest length of a content that is kept in the
	// metadata instead of an object. Default DefaultInlineSize; below 0: none.
	InlineSize int64
	// VerifyTTL is how long a checked block is served without checking it
	// again, where the store can send it without copying. 0: each read checks.
	VerifyTTL time.Duration
	// ReadBuffers is how many bytes of blocks all reads together hold until
	// their clients have taken them, where the store cannot send them without
	// copying. A read beyond it reads its block twice, in small pieces. Default
	// DefaultReadBuffers; below 1 MiB, which is one block: none.
	ReadBuffers int64
	// Space is asked before n bytes are taken in (0 when their number is not
	// known); it returns an error that is bytestore.ErrNoSpace when there is no
	// room for them. Deletes do not ask. nil: there always is.
	Space func(n int64) error
	// Relieve gives up room that was set aside, so that deletes can be written
	// down on a full disk; it reports whether there was any. nil: there is none.
	Relieve func() bool
	// Restore sets that room aside again when there is plenty; Run calls it.
	Restore func() error
	// GarbageGrace is how long a content stays readable after the last
	// reference to it is gone. 0 is right for a single process, which knows its
	// readers and frees a content when the last of them ends.
	GarbageGrace time.Duration
	// MayDelete is asked before each round of deletions of what others may refer
	// to: a page of garbage, a page of a sweep. Its error stops the round, and
	// what was to be deleted stays for a later one. It must be quick and may be
	// called at once. nil: nothing speaks against them.
	MayDelete func(ctx context.Context) error
	// AllowLargeSweep lets one orphan sweep delete more than the brake allows.
	AllowLargeSweep bool
}

// DefaultInlineSize is where an object of its own becomes cheaper than a row
// (docs/benchmarks.md has the measurement).
const DefaultInlineSize = 16 << 10

// DefaultReadBuffers is the default of Options.ReadBuffers.
const DefaultReadBuffers = 64 << 20

// Service keeps blobs. Its methods may be called at once from many goroutines.
type Service struct {
	meta     metastore.Store
	bytes    bytestore.Store
	opt      Options
	verified *verifyLog
	reads    *readLimits
	pins     *pins
	kick     chan struct{}
	deletes  chan struct{} // one for each request for deletes that is at work

	unfreeable *unfreeable

	largeSweep atomic.Bool // the brake lets one sweep pass
}

// New gives a Service over two stores that Bind has found to belong together.
func New(meta metastore.Store, bytes bytestore.Store, opt Options) *Service {
	if opt.ExtentSize == 0 {
		opt.ExtentSize = 64 << 20
	}
	if opt.InlineSize == 0 {
		opt.InlineSize = DefaultInlineSize
	}
	if opt.ReadBuffers == 0 {
		opt.ReadBuffers = DefaultReadBuffers
	}
	if opt.Space == nil {
		opt.Space = func(int64) error { return nil }
	}
	if opt.Relieve == nil {
		opt.Relieve = func() bool { return false }
	}
	if opt.Restore == nil {
		opt.Restore = func() error { return nil }
	}
	if opt.MayDelete == nil {
		opt.MayDelete = func(context.Context) error { return nil }
	}
	s := &Service{
		meta:     meta,
		bytes:    bytes,
		opt:      opt,
		verified: newVerifyLog(opt.VerifyTTL, func() time.Time { return meta.Now() }),
		reads:    newReadLimits(opt.ReadBuffers),
		pins:     newPins(),
		kick:     make(chan struct{}, 1),
		deletes:  make(chan struct{}, deleters),

		unfreeable: newUnfreeable(),
	}
	s.largeSweep.Store(opt.AllowLargeSweep)
	return s
}

// Now returns the time by which blobs are dated and expire.
func (s *Service) Now() time.Time { return s.meta.Now() }

// ETag is the strong entity tag of a content, quotes included. It depends on
// nothing but the bytes: their number and their CRC-64/NVME.
func ETag(size int64, crc64 uint64) string {
	return fmt.Sprintf(`"%x-%016x"`, size, crc64)
}

// Put is what a writer says of a blob beside its bytes.
type PutOptions struct {
	Account      string // as ParseAccount gives it
	Name         string // as CheckName accepts it
	ContentType  string
	Owner        string                 // whose usage it counts towards; may be empty
	Expires      time.Time              // zero: never
	SHA256       []byte                 // when set, the body must have this digest, and it is kept
	Precondition metastore.Precondition // nil: write whatever is there
}

// Put stores the blob and returns it as stored. size is the exact length of
// body, or bytestore.UnknownSize. The Precondition is asked before the body is read,
// and decides inside the commit. On an error nothing has changed, unless it is
// metastore.ErrUnknownOutcome.
func (s *Service) Put(ctx context.Context, p PutOptions, body Body, size int64) (metastore.Blob, error) {
	if err := s.admit(ctx, p, size); err != nil {
		return metastore.Blob{}, err
	}
	in := s.newIntake(body, size, p.SHA256 != nil)
	extents, err := s.takeIn(ctx, in, size, MaxSize, ErrTooLarge)
	if err != nil {
		return metastore.Blob{}, err
	}
	b := metastore.Blob{
		Account: p.Account, Name: p.Name,
		Content:     metastore.NewContentID(s.meta.Now()),
		Size:        in.size,
		CRC64:       in.crc64.Sum64(),
		ContentType: p.ContentType,
		Owner:       p.Owner,
		Expires:     p.Expires,
		SHA256:      p.SHA256,
	}
	err = in.checkDigest(p.SHA256)
	if err == nil {
		b, err = s.meta.CommitBlob(ctx, b, extents, p.Precondition)
		err = expiredMeanwhile(err)
	}
	if err != nil {
		return metastore.Blob{}, s.discard(ctx, extents, err)
	}
	s.gather()
	return b, nil
}

// admit refuses what can be refused before the body is read.
func (s *Service) admit(ctx context.Context, p PutOptions, size int64) error {
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
	return s.room(max(size, 0))
}

// room asks for room for n bytes. Where there is none Run looks for garbage that
// only readers keep.
func (s *Service) room(n int64) error {
	err := s.opt.Space(n)
	if err != nil && s.pins.waited() {
		s.wake()
	}
	return err
}

func (s *Service) checkExpiry(t time.Time) error {
	if !t.IsZero() && !t.After(s.meta.Now()) {
		return ErrExpiryPast
	}
	return nil
}

// expiredMeanwhile names the refusal of a commit whose blob has expired since
// it was admitted.
func expiredMeanwhile(err error) error {
	if errors.Is(err, metastore.ErrExpired) {
		return fmt.Errorf("%w: %w", ErrExpiryPast, err)
	}
	return err
}

// current gives the blob that a Precondition judges: nil when there is none.
func (s *Service) current(ctx context.Context, account, name string) (*metastore.Blob, error) {
	b, err := s.meta.Blob(ctx, account, name)
	switch {
	case err == nil:
		return &b, nil
	case errors.Is(err, metastore.ErrNotFound), errors.Is(err, metastore.ErrExpired):
		return nil, nil
	default:
		return nil, err
	}
}

// Stat gives what is known of a blob. metastore.ErrNotFound,
// metastore.ErrExpired.
func (s *Service) Stat(ctx context.Context, account, name string) (metastore.Blob, error) {
	return s.meta.Blob(ctx, account, name)
}

// Delete removes a blob, which need not exist, and frees its bytes, at once
// unless it is being read. guard may be nil.
func (s *Service) Delete(ctx context.Context, account, name string, guard metastore.Precondition) error {
	var (
		content metastore.ContentID
		existed bool
	)
	err := s.relieved(func() (err error) {
		content, existed, err = s.meta.DeleteBlob(ctx, account, name, guard)
		return err
	})
	if err != nil || !existed {
		return err
	}
	s.freeSoon(ctx, content)
	return nil
}

// GarbageBacklog reports how much garbage could be freed and is still there.
func (s *Service) GarbageBacklog(ctx context.Context) (metastore.Backlog, error) {
	return s.meta.GarbageBacklog(ctx, s.opt.GarbageGrace)
}

// List gives a page of an account's blobs.
func (s *Service) List(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	return s.meta.ListBlobs(ctx, q)
}
