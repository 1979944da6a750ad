package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"sluice/micropay"
	"sluice/wire"
)

// Session is a count of chunksets that can be read or used. Its ID is a capability: it is all that
// is needed to use the session.
type Session struct {
	ID             string
	UserIdentity   string // as the creator set it, or ""
	ChunksetsLeft  int64
	ChunksetsTotal int64 // bought and granted so far
	Created        time.Time
	Expires        time.Time
}

// CreateSessionOptions are the options of CreateSession.
type CreateSessionOptions struct {
	UserIdentity string // 1 to 255 bytes that the session shows; "": none

	// Micropayment buys chunksets. If it is nil, a session without a payment is requested, which
	// only a local instance grants. See Payer, which signs micropayments and keeps count of them.
	Micropayment *micropay.Micropayment

	// MaxPrice is the greatest price of a chunkset. If the service has a higher one when it accepts
	// the micropayment, it takes nothing: the error has the code wire.CodePriceChanged. 0: any.
	MaxPrice uint64

	// SessionID is the session that the bought chunksets are added to; "": a new session.
	SessionID string

	// IdempotencyKey identifies the request for 24 hours: a second one with the same key and the
	// same options has no further effect and returns the first response. It has 1 to 255 visible
	// ASCII characters. If it is "", the client makes one for this call.
	IdempotencyKey string
}

// CreateSession creates a session, or adds chunksets to one. It repeats the request until its
// outcome is known, without a further effect. It returns ErrPaymentRequired if the micropayment is
// missing, is refused or does not pay for a chunkset, and ErrConflict if the micropayment is stale.
func (c *Client) CreateSession(ctx context.Context, o CreateSessionOptions) (Session, error) {
	if !utf8.ValidString(o.UserIdentity) { // JSON would have other characters
		return Session{}, fmt.Errorf("client: create a session: %w: the user identity is not valid UTF-8", ErrInvalid)
	}
	r := newRequest("create a session", http.MethodPost, "/v1/sessions", idempotent)
	setIdempotencyKey(r, o.IdempotencyKey)
	var body struct {
		UserIdentity       string `json:"userIdentity,omitempty"`
		MicropaymentUpdate string `json:"micropaymentUpdate,omitempty"`
		SessionID          string `json:"sessionId,omitempty"`
	}
	body.UserIdentity, body.SessionID = o.UserIdentity, o.SessionID
	if o.Micropayment != nil {
		body.MicropaymentUpdate = o.Micropayment.Base64()
		r.ownEffect = refusesPayment
		if o.MaxPrice > 0 {
			r.header.Set(wire.HeaderMaxChunksetPrice, strconv.FormatUint(o.MaxPrice, 10))
		}
	}
	if err := r.setJSON(body); err != nil {
		return Session{}, err
	}
	return c.callSession(ctx, r)
}

// callSession sends a request. Its response is a session.
func (c *Client) callSession(ctx context.Context, r *request) (Session, error) {
	var s wire.Session
	r.check = func() error { return checkSession(&s) }
	if _, err := c.call(ctx, r, &s); err != nil {
		return Session{}, err
	}
	return parseSession(s), nil
}

// refusesPayment reports whether err refuses a micropayment that an earlier attempt may have spent:
// once it has expired it is refused before its Idempotency-Key is looked up.
func refusesPayment(err error) bool {
	e, reported := errors.AsType[*Error](err)
	return reported && (e.Code == wire.CodeMicropaymentRefused || e.Code == wire.CodeMicropaymentStale)
}

// Session returns a session, and for a while an expired one. It returns ErrNotFound if there is
// none.
func (c *Client) Session(ctx context.Context, id string) (Session, error) {
	path, err := sessionPath(id)
	if err != nil {
		return Session{}, err
	}
	return c.callSession(ctx, newRequest("get a session", http.MethodGet, path, readOnly))
}

// UseOptions are the options of Use.
type UseOptions struct {
	IdempotencyKey string // as in CreateSessionOptions
}

// Use deducts one chunkset from a session, durably, and returns how many are left. It repeats the
// request until its outcome is known, and deducts only one. It returns ErrPaymentRequired if none
// is left, ErrNotFound, or ErrGone if the session has expired.
func (c *Client) Use(ctx context.Context, id string, o UseOptions) (left int64, err error) {
	path, err := sessionPath(id)
	if err != nil {
		return 0, err
	}
	r := newRequest("use a session", http.MethodPost, path+"/use", idempotent)
	setIdempotencyKey(r, o.IdempotencyKey)
	h, err := c.call(ctx, r, nil)
	if err != nil {
		return 0, err
	}
	left, err = parseCount(h, wire.HeaderChunksetsLeft, math.MaxInt64)
	if err != nil {
		return 0, r.failed(err)
	}
	return left, nil
}

// sessionPath returns a session's path, or ErrInvalid if the id cannot be one.
func sessionPath(id string) (string, error) { return idPath("/v1/sessions", id, "session") }

// setIdempotencyKey sets the key, or a new one if it is "".
func setIdempotencyKey(r *request, key string) {
	if key == "" {
		key = rand.Text()
	}
	r.header.Set(wire.HeaderIdempotencyKey, key)
}

func parseSession(s wire.Session) Session {
	return Session{
		ID: s.SessionID, UserIdentity: s.UserIdentity, ChunksetsLeft: s.ChunksetsLeft, ChunksetsTotal: s.ChunksetsTotal,
		Created: s.Created, Expires: s.Expires,
	}
}

func checkSession(s *wire.Session) error {
	if s.ChunksetsLeft < 0 || s.ChunksetsLeft > s.ChunksetsTotal {
		return invalid("chunksetsLeft", "is %d of %d", s.ChunksetsLeft, s.ChunksetsTotal)
	}
	return cmp.Or(checkID("sessionId", s.SessionID), checkLength("userIdentity", s.UserIdentity, maxWord))
}
