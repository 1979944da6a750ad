package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"sluice/database"
	"sluice/exchange"
	"sluice/ledger"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// sessionError reports that a session does not exist or has expired.
func sessionError(err error) error {
	switch {
	case errors.Is(err, database.ErrNotFound):
		return fmt.Errorf("%w: %w", errNoSession, err)
	case errors.Is(err, database.ErrExpired):
		return fmt.Errorf("%w: %w", errSessionExpired, err)
	default:
		return err
	}
}

func (s *Server) createSession(x *call) error {
	var in wire.CreateSession
	body, err := x.readJSON(&in)
	if err != nil {
		return err
	}
	identity, err := userIdentity(in.UserIdentity)
	if err != nil {
		return err
	}
	if in.MicropaymentUpdate != nil {
		return s.buySession(x, in, identity, body)
	}
	if in.SessionID != nil {
		return fmt.Errorf("%w: sessionId requires a micropaymentUpdate", exchange.ErrParameter)
	}
	idem, err := idempotency(x, "create-session", "", body)
	if err != nil {
		return err
	}
	created, err := s.sessions.Grant(x.Request.Context(), identity, idem)
	if errors.Is(err, session.ErrPaymentRequired) {
		return &metering.ShortfallError{Err: session.ErrPaymentRequired, Required: s.meter.Price()}
	}
	if err != nil { // a second session without a payment is harmless
		return inDoubt(err, doubtError{sessionID: created.ID, retryable: true})
	}
	return writeJSON(x, http.StatusCreated, sessionJSON(created))
}

// buySession sells a session, or chunksets for an existing session, for a micropayment.
func (s *Server) buySession(x *call, in wire.CreateSession, identity string, body []byte) error {
	payment, err := s.verify(x, *in.MicropaymentUpdate)
	if err != nil {
		return err
	}
	idem, err := idempotency(x, "create-session", payment.Sender, body)
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
	bought, err := s.channels.Buy(x.Request.Context(), buy, idem)
	if err != nil { // a micropayment counts once, however often it is sent
		return inDoubt(sessionError(err), doubtError{sessionID: bought.ID, retryable: true})
	}
	return writeJSON(x, status, sessionJSON(bought))
}

// userIdentity checks the name that a caller chooses for itself.
func userIdentity(sent *string) (string, error) {
	const limit = 255
	if sent == nil {
		return "", nil
	}
	if *sent == "" || len(*sent) > limit || !utf8.ValidString(*sent) {
		return "", fmt.Errorf("%w: userIdentity must be 1 to %d bytes of UTF-8", exchange.ErrParameter, limit)
	}
	return *sent, nil
}

func (s *Server) getSession(x *call) error {
	found, err := s.sessions.Get(x.Request.Context(), x.params.Get("sessionId"))
	if err != nil {
		return sessionError(err)
	}
	return writeJSON(x, http.StatusOK, sessionJSON(found))
}

func (s *Server) useSession(x *call) error {
	var nothing struct{}
	body, err := x.readJSON(&nothing)
	if err != nil {
		return err
	}
	id := x.params.Get("sessionId")
	idem, err := idempotency(x, "use-session", id, body)
	if err != nil {
		return err
	}
	used, err := s.sessions.Use(x.Request.Context(), id, 1, idem)
	if err != nil {
		return inDoubt(sessionError(err), doubtError{retryable: idem != nil})
	}
	x.Fields.Set(wire.HeaderChunksetsLeft, strconv.FormatInt(used.Left, 10))
	x.Fields.Set("Content-Length", "0")
	x.WriteHeader(http.StatusOK)
	return nil
}

func sessionJSON(s ledger.Session) wire.Session {
	return wire.Session{
		SessionID:      s.ID,
		UserIdentity:   s.UserIdentity,
		ChunksetsLeft:  s.Left,
		ChunksetsTotal: s.Total,
		Created:        s.Created,
		Expires:        s.Expires,
	}
}
