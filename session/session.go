// Package session implements sessions: prepaid or granted counts of chunksets, from which every
// read takes the chunksets that it touches, exactly and durably.
//
// A Service grants sessions and uses them up; package paychan sells them. ledger.Sessions counts,
// in one transaction for each use.
package session

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/ledger"
)

// ErrPaymentRequired means that the service grants no sessions: they must be paid for.
var ErrPaymentRequired = errors.New("a session must be paid for")

// Options are a Service's settings.
type Options struct {
	// TTL is the time from a session's creation to its expiry. Default DefaultTTL.
	TTL time.Duration
	// Space is called with 0 before something is stored permanently. It returns an error if
	// there is not enough space. nil: there always is.
	Space func(n int64) error
	// Grant is how many chunksets an unpaid session has. If it is 0, every session must be paid
	// for.
	Grant int64
	// NewID returns a session's id, which cannot be guessed. nil: crypto/rand.Text.
	NewID func() string
}

// Defaults for a local development instance.
const (
	DefaultTTL   = 30 * 24 * time.Hour
	DefaultGrant = 1_000
)

// Store holds sessions, and the clock by which they expire.
type Store interface {
	ledger.Sessions
	database.Clock
}

// Service grants and uses sessions. Its methods may be called concurrently.
type Service struct {
	meta   Store
	opt    Options
	counts struct{ granted, uses, chunksets atomic.Int64 }
}

// Stats are a Service's counters since it was created. A call that is repeated with the same
// Idempotency counts again.
type Stats struct {
	Granted   int64 // sessions that were created without a payment
	Uses      int64 // uses and charges that succeeded
	Chunksets int64 // that these took
}

// Stats returns the counters.
func (s *Service) Stats() Stats {
	return Stats{Granted: s.counts.granted.Load(), Uses: s.counts.uses.Load(), Chunksets: s.counts.chunksets.Load()}
}

// used counts a use of n chunksets that returned err.
func (s *Service) used(n int64, err error) {
	if err == nil {
		s.counts.uses.Add(1)
		s.counts.chunksets.Add(n)
	}
}

// New returns a Service over a store.
func New(meta Store, opt Options) *Service {
	if opt.TTL == 0 {
		opt.TTL = DefaultTTL
	}
	if opt.Space == nil {
		opt.Space = func(int64) error { return nil }
	}
	if opt.NewID == nil {
		opt.NewID = rand.Text
	}
	return &Service{meta: meta, opt: opt}
}

// TTL returns the time from a session's creation to its expiry.
func (s *Service) TTL() time.Duration { return s.opt.TTL }

// Granted returns how many chunksets an unpaid session has, or 0 if every session must be.
func (s *Service) Granted() int64 { return s.opt.Grant }

// Grant creates a session that is not paid for and returns it, or, if idem was recorded before, the
// session as it was first returned. idem may be nil. It returns ErrPaymentRequired or
// database.ErrIdempotencyReuse. With database.ErrUnknownOutcome, and without an idem, it also
// returns a Session with only ID set: the session's id if it was, or will be, created.
func (s *Service) Grant(ctx context.Context, userIdentity string, idem *database.Idempotency) (ledger.Session, error) {
	if s.opt.Grant == 0 {
		return ledger.Session{}, ErrPaymentRequired
	}
	if err := s.opt.Space(0); err != nil {
		return ledger.Session{}, err
	}
	id := s.opt.NewID()
	made, err := s.meta.CreateSession(ctx, ledger.Session{
		ID:           id,
		UserIdentity: userIdentity,
		Total:        s.opt.Grant,
		Left:         s.opt.Grant,
		Expires:      s.meta.Now().Add(s.opt.TTL),
	}, idem)
	if err == nil {
		s.counts.granted.Add(1)
	}
	if idem == nil && errors.Is(err, database.ErrUnknownOutcome) {
		made = ledger.Session{ID: id}
	}
	return made, err
}

// Get returns a session, expired or not, or database.ErrNotFound.
func (s *Service) Get(ctx context.Context, id string) (ledger.Session, error) {
	return s.meta.Session(ctx, id)
}

// Live returns nil if a session exists and has not expired, otherwise database.ErrNotFound or
// database.ErrExpired.
func (s *Service) Live(ctx context.Context, id string) error {
	found, err := s.meta.Session(ctx, id)
	if err == nil && !found.Expires.After(s.meta.Now()) {
		err = database.ErrExpired
	}
	return err
}

// Use takes exactly n chunksets, or none, and returns the session after that. n must be at
// least 1. Concurrent uses never take more than is left. If idem was recorded before, nothing is
// taken and the first result is returned. idem may be nil. It returns database.ErrNotFound,
// database.ErrExpired, ledger.ErrExhausted (with the unchanged session) or
// database.ErrIdempotencyReuse.
func (s *Service) Use(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	if idem != nil { // the key is stored
		if err := s.opt.Space(0); err != nil {
			return ledger.Session{}, err
		}
	}
	used, err := s.meta.UseSession(ctx, id, n, idem)
	s.used(n, err)
	return used, err
}

// Charge is Use for a read. charge is a new, unguessable name by which ReturnCharge finds the
// charge if its outcome is database.ErrUnknownOutcome.
func (s *Service) Charge(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	charged, err := s.meta.ChargeSession(ctx, id, n, charge)
	s.used(n, err)
	return charged, err
}

// ReturnCharge returns the chunksets that Charge took under this name, if it did; see
// ledger.Sessions.ReturnCharge.
func (s *Service) ReturnCharge(ctx context.Context, id, charge string) (ledger.Session, error) {
	return s.meta.ReturnCharge(ctx, id, charge)
}

// Return returns n chunksets that were used but for which nothing was served. request identifies
// the return: repeated with the same request, it has no effect. It returns
// database.ErrNotFound.
func (s *Service) Return(ctx context.Context, id string, n int64, request string) (ledger.Session, error) {
	return s.meta.ReturnChunksets(ctx, id, n, request)
}
