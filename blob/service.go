package blob

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"sluice/bytestore"
	"sluice/integrity"
	"sluice/metastore"
)

// maxDeletes is the number of concurrent delete requests to the byte store. It compensates for a
// store's latency, and waiting requests are served in order.
const maxDeletes = 32

// Options are a Service's settings. The zero value is valid.
type Options struct {
	// ExtentSize is a stored object's greatest length in bytes: a multiple of 1 MiB, at most 64
	// MiB. Default 64 MiB.
	ExtentSize int64

	// InlineSize is the greatest length in bytes of inline contents, which are stored in their
	// metadata row instead of an object. Default DefaultInlineSize; a negative value disables
	// inline contents.
	InlineSize int64

	// VerifyTTL is how long a block that was checked is served without being checked again, if the
	// store can send it without copying. 0 means that every read checks.
	VerifyTTL time.Duration

	// ReadBuffers limits the bytes of blocks that all reads together buffer until their clients
	// have received them, if the store cannot send them without copying. A read above the limit
	// reads its block twice, in small pieces. Default DefaultReadBuffers; less than 1 MiB, a
	// block's size, means none.
	ReadBuffers int64

	// Space is called before n bytes are stored, or 0 if their number is not known. It must return
	// bytestore.ErrNoSpace, wrapped, if they do not fit. It is not called for deletes. nil means
	// that they always fit.
	Space func(n int64) error

	// Relieve releases disk space that was reserved so that deletes can be recorded on a full disk.
	// It reports whether there was any. nil means that there is none.
	Relieve func() bool

	// Restore reserves that space again if enough is free. Run calls it.
	Restore func() error

	// GarbageGrace is how long a content remains readable after its last reference is gone. 0 is
	// correct for a single process, which knows its readers and frees a content when the last of
	// them has closed it.
	GarbageGrace time.Duration

	// MayDelete is called before each batch of deletions if other processes may refer to the
	// objects: a garbage page, or a sweep's page. If it returns an error the deletions are
	// postponed. It must be fast and safe for concurrent use. nil means that deletions are always
	// permitted.
	MayDelete func(ctx context.Context) error

	// KeptBefore returns a time: an object that was made before it is no orphan. nil means that
	// there is none.
	KeptBefore func() time.Time

	// NewID returns an upload's id, which cannot be guessed. nil means crypto/rand.Text.
	NewID func() string

	// PurgeEvery and SweepEvery are the intervals of Run. Default DefaultPurgeEvery and
	// DefaultSweepEvery.
	PurgeEvery, SweepEvery time.Duration

	// PurgeMore is called as a part of Purge, repeatedly until it returns 0. It handles up to about
	// limit rows of other packages, and returns how many. nil means that there are none.
	PurgeMore func(ctx context.Context, limit int) (int, error)

	// ChangesKeep is for how long Run keeps changes. Default DefaultChangesKeep.
	ChangesKeep time.Duration

	// ScrubPeriod is the period in which Run reads and checks all stored bytes once. 0 means that
	// it does not, and lists no damage but what reads find.
	ScrubPeriod time.Duration

	// OpenStored opens what is stored itself, past all caches that can be avoided, to check it. nil
	// means the byte store's Open.
	OpenStored bytestore.OpenFunc

	// HealFrom is a second store, from which Heal repairs what is damaged. nil means that there is
	// none.
	HealFrom integrity.HealSource

	// Found is called when damage of a content was recorded that had none. It must be fast and safe
	// for concurrent use. nil means that nothing is called.
	Found func(metastore.Damage)

	// Busy reports whether requests are in progress, for which the tasks of Run pause between their
	// steps. It must be fast and safe for concurrent use. nil means that there are none.
	Busy func() bool
}

// DefaultInlineSize is the default of Options.InlineSize in bytes. Above it an object is cheaper
// than a larger row; decision 4 has the measurement.
const DefaultInlineSize = 32 << 10

// DefaultReadBuffers is the default of Options.ReadBuffers in bytes.
const DefaultReadBuffers = 64 << 20

// The defaults of Options.PurgeEvery and Options.SweepEvery.
const (
	DefaultPurgeEvery = time.Minute
	// DefaultChangesKeep is the default of Options.ChangesKeep.
	DefaultChangesKeep = 7 * 24 * time.Hour
	DefaultSweepEvery  = 6 * time.Hour
)

// Service stores and serves blobs. Its methods may be called concurrently.
type Service struct {
	*integrity.Checker

	meta     Metadata
	bytes    bytestore.Store
	opt      Options
	verified *checkLog
	reads    *readLimits
	pins     *pins
	deletes  chan struct{} // semaphore of maxDeletes requests to the byte store
	retries  *retries      // of contents that could not be freed

	wakeup  chan struct{} // holds an element if Run has to look for garbage
	holds   atomic.Bool   // garbage was held when it was looked at last
	ruled   rulesCache
	refused atomic.Int64 // the largest write that did not fit, in bytes, up to maxRefused
	counts  counts
	unkept  unkept

	rulesLeft atomic.Bool // a run of rules ended before it was done
}

// New returns a Service for two stores that Bind has found to belong together.
func New(meta Metadata, bytes bytestore.Store, opt Options) *Service {
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
	if opt.KeptBefore == nil {
		opt.KeptBefore = func() time.Time { return time.Time{} }
	}
	if opt.OpenStored == nil {
		opt.OpenStored = func(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
			return bytes.Open(ctx, name, off, n)
		}
	}
	if opt.Found == nil {
		opt.Found = func(metastore.Damage) {}
	}
	if opt.NewID == nil {
		opt.NewID = rand.Text
	}
	if opt.PurgeMore == nil {
		opt.PurgeMore = func(context.Context, int) (int, error) { return 0, nil }
	}
	opt.ChangesKeep = cmp.Or(opt.ChangesKeep, DefaultChangesKeep)
	opt.PurgeEvery = cmp.Or(opt.PurgeEvery, DefaultPurgeEvery)
	opt.SweepEvery = cmp.Or(opt.SweepEvery, DefaultSweepEvery)
	if opt.Busy == nil {
		opt.Busy = func() bool { return false }
	}
	s := &Service{
		meta:     meta,
		bytes:    bytes,
		opt:      opt,
		verified: newCheckLog(opt.VerifyTTL, func() time.Time { return meta.Now() }),
		reads:    newReadLimits(opt.ReadBuffers),
		pins:     newPins(),
		deletes:  make(chan struct{}, maxDeletes),
		retries:  newRetries(),
		wakeup:   make(chan struct{}, 1),
	}
	s.Checker = integrity.New(meta, bytes, integrity.Options{
		ScrubPeriod: opt.ScrubPeriod, CompareEvery: opt.SweepEvery, OpenStored: opt.OpenStored, HealFrom: opt.HealFrom,
		Found: opt.Found, Pace: func() integrity.Pace { return s.newPacer().next }, Space: s.checkSpace, Replace: s.replaceObject,
	})
	return s
}

// Now returns the time by which blobs are dated and expire.
func (s *Service) Now() time.Time { return s.meta.Now() }

// checkSpace returns an error if n bytes do not fit. In that case it wakes Run if there is garbage
// that only its readers or a backup retain.
func (s *Service) checkSpace(n int64) error {
	err := s.opt.Space(n)
	if errors.Is(err, bytestore.ErrNoSpace) {
		s.refused.Store(max(s.refused.Load(), min(n, maxRefused)))
	}
	if err != nil && (s.pins.waiting() || s.holds.Load()) {
		s.FreeSoon()
	}
	return err
}

// maxRefused is the greatest size of a refused write for which held garbage is freed. A larger one
// may be a mistake that would never fit.
const maxRefused = 1 << 30

// spaceIsShort reports whether a write that was refused, or any other, would still be refused.
func (s *Service) spaceIsShort() bool {
	n := s.refused.Load()
	if errors.Is(s.opt.Space(n), bytestore.ErrNoSpace) {
		return true
	}
	s.refused.CompareAndSwap(n, 0)
	return false
}

// FreeSoon makes Run look for garbage, for example because MayDelete permits deletions again.
func (s *Service) FreeSoon() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// garbageArose makes Run look for new garbage, unless there is a grace period: then it is found
// once it is due, and looking earlier would only list it.
func (s *Service) garbageArose() {
	if s.opt.GarbageGrace == 0 {
		s.FreeSoon()
	}
}
