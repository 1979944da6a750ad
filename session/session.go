// Package session holds the rules for sessions: counts of paid chunksets, of
// which each use takes one, exactly and durably.
package session

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"sluice/metastore"
)

// ErrPaymentRequired says that this service gives no sessions away.
var ErrPaymentRequired = errors.New("a session must be paid for")

// Options are the settings of a Service.
type Options struct {
	// TTL is how long a session lives. Default DefaultTTL.
	TTL time.Duration
	// Space is asked before something is written that stays; it returns an error
	// when there is no room. nil: there always is.
	Space func(n int64) error
	// Grant is the number of chunksets of a session that is not paid for. 0:
	// every session must be paid for.
	Grant int64
}

// Defaults of a local development instance.
const (
	DefaultTTL   = 30 * 24 * time.Hour
	DefaultGrant = 1_000
)

// Store is where sessions are kept, and whose time they live by.
type Store interface {
	metastore.Sessions
	metastore.Clock
}

// Service keeps sessions. Its methods may be called at once from many
// goroutines.
type Service struct {
	meta Store
	opt  Options
}

// New gives a Service over a store.
func New(meta Store, opt Options) *Service {
	if opt.TTL == 0 {
		opt.TTL = DefaultTTL
	}
	if opt.Space == nil {
		opt.Space = func(int64) error { return nil }
	}
	return &Service{meta: meta, opt: opt}
}

// TTL is how long a session lives.
func (s *Service) TTL() time.Duration { return s.opt.TTL }

// Granted is the number of chunksets of a session that is not paid for, 0 when
// every session must be.
func (s *Service) Granted() int64 { return s.opt.Grant }

// Grant creates a session that is not paid for and returns it, or, when idem
// was seen before, the session as it was first returned. idem may be nil.
// ErrPaymentRequired, metastore.ErrIdempotencyReuse. Beside
// metastore.ErrUnknownOutcome without an idem the session has the ID that it has
// if it was created, or will be, and nothing else.
func (s *Service) Grant(ctx context.Context, userIdentity string, idem *metastore.Idempotency) (metastore.Session, error) {
	if s.opt.Grant == 0 {
		return metastore.Session{}, ErrPaymentRequired
	}
	if err := s.opt.Space(0); err != nil {
		return metastore.Session{}, err
	}
	id := rand.Text()
	made, err := s.meta.CreateSession(ctx, metastore.Session{
		ID:           id,
		UserIdentity: userIdentity,
		Total:        s.opt.Grant,
		Left:         s.opt.Grant,
		Expires:      s.meta.Now().Add(s.opt.TTL),
	}, idem)
	if idem == nil && errors.Is(err, metastore.ErrUnknownOutcome) {
		made = metastore.Session{ID: id}
	}
	return made, err
}

// Get gives a session, expired or not. metastore.ErrNotFound.
func (s *Service) Get(ctx context.Context, id string) (metastore.Session, error) {
	return s.meta.Session(ctx, id)
}

// Live reports why a session cannot be used: metastore.ErrNotFound, ErrExpired.
func (s *Service) Live(ctx context.Context, id string) error {
	found, err := s.meta.Session(ctx, id)
	if err == nil && !found.Expires.After(s.meta.Now()) {
		err = metastore.ErrExpired
	}
	return err
}

// Use takes exactly n chunksets, at least 1, or none, and returns the session as
// it then is. With N left and any number of uses at once, no more than N are
// ever taken. When idem was seen before, nothing is taken and the first answer
// returned. idem may be nil. metastore.ErrNotFound, ErrExpired, ErrExhausted
// (with the session as it is), ErrIdempotencyReuse.
func (s *Service) Use(ctx context.Context, id string, n int64, idem *metastore.Idempotency) (metastore.Session, error) {
	if idem != nil { // a key is remembered
		if err := s.opt.Space(0); err != nil {
			return metastore.Session{}, err
		}
	}
	return s.meta.UseSession(ctx, id, n, idem)
}

// Charge is Use for a read. charge is a fresh, unguessable name by which
// ReturnCharge finds it, should its outcome be metastore.ErrUnknownOutcome.
func (s *Service) Charge(ctx context.Context, id string, n int64, charge string) (metastore.Session, error) {
	return s.meta.ChargeSession(ctx, id, n, charge)
}

// ReturnCharge gives back what Charge took under this name, if it did; see
// metastore.Sessions.
func (s *Service) ReturnCharge(ctx context.Context, id, charge string) (metastore.Session, error) {
	return s.meta.ReturnCharge(ctx, id, charge)
}

// Return gives n chunksets back that were used and of which nothing was served.
// request names this return: repeated, it has no effect. metastore.ErrNotFound.
func (s *Service) Return(ctx context.Context, id string, n int64, request string) (metastore.Session, error) {
	return s.meta.ReturnChunksets(ctx, id, n, request)
}
