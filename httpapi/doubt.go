package httpapi

import (
	"errors"

	"sluice/metastore"
	"sluice/wire"
)

// doubtError is metastore.ErrUnknownOutcome of a request whose repetition would
// have a second effect, or with the id of what the request may have made.
type doubtError struct {
	err   error
	again bool // the request can be sent again without a second effect

	channelID, sessionID, uploadID string // of what was made, if it was
}

// Error returns the text of the error.
func (e *doubtError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *doubtError) Unwrap() error { return e.err }

// inDoubt returns d around an err that is metastore.ErrUnknownOutcome, and any
// other err as it is.
func inDoubt(err error, d doubtError) error {
	if !errors.Is(err, metastore.ErrUnknownOutcome) {
		return err
	}
	d.err = err
	return &d
}

// explainDoubt changes the row of an error whose request must not simply be sent
// again.
func explainDoubt(row *errorRow, err error) {
	var doubt *doubtError
	if row.code == wire.CodeOutcomeUnknown && errors.As(err, &doubt) && !doubt.again {
		row.detail = "it is not known whether this took effect, now or shortly: look before it is sent again, and send it with an Idempotency-Key"
		row.retryAfter = 0
	}
}

// tellDoubt adds to a problem the id by which the client can look.
func tellDoubt(p *wire.Problem, err error) {
	var doubt *doubtError
	if errors.As(err, &doubt) {
		p.ChannelID, p.SessionID, p.UploadID = doubt.channelID, doubt.sessionID, doubt.uploadID
	}
}
