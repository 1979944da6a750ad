package httpapi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/httpapi/internal/router"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// sessionError tells that it is a session which is not there, or not any more.
func sessionError(err error) error {
	switch {
	case errors.Is(err, metastore.ErrNotFound):
		return fmt.Errorf("%w: %w", errNoSession, err)
	case errors.Is(err, metastore.ErrExpired):
		return fmt.Errorf("%w: %w", errSessionExpired, err)
	default:
		return err
	}
}

func (s *Server) createSession(x *exchange, r *http.Request, _ router.Params) error {
	var in wire.CreateSession
	body, err := readJSON(r, &in)
	if err != nil {
		return err
	}
	identity, err := userIdentity(in.UserIdentity)
	if err != nil {
		return err
	}
	if in.MicropaymentUpdate != nil {
		return s.buySession(x, r, in, identity, body)
	}
	if in.SessionID != nil {
		return fmt.Errorf("%w: a session can only be added to with a micropaymentUpdate", errParameter)
	}
	idem, err := idempotency(x, r, "create-session", "", body)
	if err != nil {
		return err
	}
	made, err := s.Sessions.Grant(r.Context(), identity, idem)
	if errors.Is(err, session.ErrPaymentRequired) {
		return &metering.ShortfallError{Err: session.ErrPaymentRequired, Required: s.meter.Price()}
	}
	if err != nil { // another session that nobody paid for does no harm
		return inDoubt(err, doubtError{sessionID: made.ID, again: true})
	}
	return writeJSON(x, http.StatusCreated, sessionJSON(made))
}

// buySession sells a session for a micropayment, or chunksets for one that
// there is.
func (s *Server) buySession(x *exchange, r *http.Request, in wire.CreateSession, identity string, body []byte) error {
	payment, err := s.Channels.Verify(*in.MicropaymentUpdate)
	if err != nil {
		return err
	}
	idem, err := idempotency(x, r, "create-session", payment.Sender, body)
	if err != nil {
		return err
	}
	buy, status := paychan.BuyOptions{Payment: payment, UserIdentity: identity}, http.StatusCreated
	if in.SessionID != nil {
		if *in.SessionID == "" {
			return errNoSession
		}
		buy.SessionID, status = *in.SessionID, http.StatusOK
	}
	bought, err := s.Channels.Buy(r.Context(), buy, idem)
	if err != nil { // a micropayment counts once, however often it is sent
		return inDoubt(sessionError(err), doubtError{sessionID: bought.ID, again: true})
	}
	return writeJSON(x, status, sessionJSON(bought))
}

// userIdentity checks what a caller calls himself.
func userIdentity(given *string) (string, error) {
	const limit = 255
	if given == nil {
		return "", nil
	}
	if *given == "" || len(*given) > limit || !utf8.ValidString(*given) {
		return "", fmt.Errorf("%w: userIdentity must have 1 to %d bytes", errParameter, limit)
	}
	return *given, nil
}

func (s *Server) getSession(x *exchange, r *http.Request, p router.Params) error {
	found, err := s.Sessions.Get(r.Context(), p.Get("sessionId"))
	if err != nil {
		return sessionError(err)
	}
	return writeJSON(x, http.StatusOK, sessionJSON(found))
}

func (s *Server) useSession(x *exchange, r *http.Request, p router.Params) error {
	var nothing struct{}
	body, err := readJSON(r, &nothing)
	if err != nil {
		return err
	}
	id := p.Get("sessionId")
	idem, err := idempotency(x, r, "use-session", id, body)
	if err != nil {
		return err
	}
	used, err := s.Sessions.Use(r.Context(), id, 1, idem)
	if err != nil {
		return inDoubt(sessionError(err), doubtError{again: idem != nil})
	}
	x.Header().Set(wire.HeaderChunksetsLeft, strconv.FormatInt(used.Left, 10))
	x.Header().Set("Content-Length", "0")
	x.WriteHeader(http.StatusOK)
	return nil
}

func sessionJSON(s metastore.Session) wire.Session {
	return wire.Session{
		SessionID:      s.ID,
		UserIdentity:   s.UserIdentity,
		ChunksetsLeft:  s.Left,
		ChunksetsTotal: s.Total,
		Created:        s.Created,
		Expires:        s.Expires,
	}
}

// idempotency reads the Idempotency-Key of a request, nil when there is none.
// The scope is the operation, its resource (empty: none) and the caller's key;
// on a local instance all callers are one.
func idempotency(x *exchange, r *http.Request, operation, resource string, body []byte) (*metastore.Idempotency, error) {
	keys := r.Header.Values(wire.HeaderIdempotencyKey)
	if len(keys) == 0 {
		return nil, nil
	}
	const limit = 255
	if len(keys) > 1 || len(keys[0]) < 1 || len(keys[0]) > limit || !isVisibleASCII(keys[0]) {
		return nil, fmt.Errorf("%w: %s must come once, with 1 to %d visible ASCII characters", errHeader, wire.HeaderIdempotencyKey, limit)
	}
	request := append([]byte(r.Method+"\n"+router.EscapedPath(r.URL)+"\n"), body...)
	return &metastore.Idempotency{Scope: scope(operation, resource) + callerScope(x), Key: keys[0], Hash: sha256.Sum256(request)}, nil
}

// scope joins an operation and its resource, which can hold any character, so
// that no two pairs of them, with any caller behind, are one text. The ids and
// addresses that this service makes stand as they are, as in every version
// before; everything else stands in quotes.
func scope(operation, resource string) string {
	switch {
	case resource == "":
		return operation
	case strings.Trim(resource, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == "":
		return operation + " " + resource
	default:
		return operation + " " + strconv.Quote(resource)
	}
}

func isVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
