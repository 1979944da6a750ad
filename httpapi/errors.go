package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"sluice/access"
	"sluice/admin"
	"sluice/database"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi/internal/faults"
	"sluice/httpapi/internal/router"
	"sluice/ledger"
	"sluice/metering"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
	"sluice/wire/link"
)

// Only this file and exchange/errors.go assign statuses to errors. Only the responses to requests
// that net/http cannot parse have further statuses.

// The errors of this interface alone. Handlers wrap them with details for the client.
var (
	errNoRoute        = errors.New("the route does not exist")
	errNoSession      = errors.New("the session does not exist")
	errNoChannel      = errors.New("the channel does not exist")
	errSessionExpired = errors.New("the session has expired")
	errLinkForbidden  = errors.New("the link does not permit this request")
	errChangesGone    = errors.New("changes behind the position are no longer known: list the blobs, and continue at the restart position")
	errNoIfMatch      = errors.New("an update needs If-Match: send the etag of the state that you have read")
	errMark           = errors.New("the version marks that the blob was deleted, and has no bytes")
	errNoDigestHere   = errors.New("a digest of the whole blob is not supported here; send one with each part")
)

// errorTable has the rows of this interface, and of all interfaces.
var errorTable = exchange.NewErrors([]exchange.Row{
	// Before the errors that they wrap, which are 404 or 410 for other requests.
	{Is: metering.ErrSessionLost, Code: wire.CodeLostInRollback, Status: http.StatusPaymentRequired, Detail: metering.ErrSessionLost.Error()},
	{Is: metering.ErrSessionNotFound, Code: wire.CodeSessionNotFound, Status: http.StatusPaymentRequired, Detail: metering.ErrSessionNotFound.Error()},
	{Is: metering.ErrSessionExpired, Code: wire.CodeSessionExpired, Status: http.StatusPaymentRequired, Detail: metering.ErrSessionExpired.Error()},
	{Is: metering.ErrChannelNotFound, Code: wire.CodeChannelNotFound, Status: http.StatusPaymentRequired, Detail: "the channel of this sender, receiver, asset and paymentChannelId to pay with does not exist"},
	{Is: metering.ErrChannelClosed, Code: wire.CodeChannelClosed, Status: http.StatusPaymentRequired, Detail: metering.ErrChannelClosed.Error()},
	{Is: metering.ErrChannelExpired, Code: wire.CodeChannelExpired, Status: http.StatusPaymentRequired, Detail: metering.ErrChannelExpired.Error()},

	{Is: admin.ErrNotFound, Code: wire.CodeNotFound},
	{Is: admin.ErrBeyond, Code: wire.CodeBeyondKey},
	{Is: admin.ErrOpening, Code: wire.CodeOpeningForbidden},
	{Is: admin.ErrGuarded, Code: wire.CodeOpeningForbidden},
	{Is: admin.ErrEverything, Code: wire.CodeAccountForbidden},
	{Is: admin.ErrLast, Code: wire.CodeLastAdminKey},
	{Is: admin.ErrChanged, Code: wire.CodePreconditionFailed},
	{Is: admin.ErrConflict, Code: wire.CodeConflict},
	{Is: admin.ErrInvalid, Code: wire.CodeBadParameter},
	{Is: access.ErrInvalidKey, Code: wire.CodeBadParameter},
	{Is: access.ErrInvalidLimit, Code: wire.CodeBadParameter},
	{Is: errNoIfMatch, Code: wire.CodePreconditionRequired},

	{Is: errChangesGone, Code: wire.CodeChangesGone, Detail: errChangesGone.Error()},
	{Is: feed.ErrOwner, Code: wire.CodeTooManyAtOnce},
	{Is: feed.ErrFull, Code: wire.CodeOverloaded},
	{Is: feed.ErrClosed, Code: wire.CodeDraining, Detail: exchange.ErrDraining.Error()},

	{Is: errNoRoute, Code: wire.CodeRouteNotFound},
	{Is: errNoSession, Code: wire.CodeSessionNotFound, Detail: errNoSession.Error()},
	{Is: errNoChannel, Code: wire.CodeChannelNotFound, Detail: errNoChannel.Error()},
	{Is: ledger.ErrNoChannel, Code: wire.CodeChannelNotFound, Detail: "the channel of this sender, receiver, asset and paymentChannelId does not exist"},

	{Is: router.ErrMalformedPath, Code: wire.CodeBadRequest},
	{Is: errMalformedJSON, Code: wire.CodeBadJSON},
	{Is: errNumberTooLarge, Code: wire.CodeNumberTooLarge},
	{Is: micropay.ErrMalformed, Code: wire.CodeMicropaymentMalformed},
	{Is: ledger.ErrAmountOverflow, Code: wire.CodeNumberTooLarge, Detail: errNumberTooLarge.Error()},
	{Is: errMark, Code: wire.CodeBlobNotFound},
	{Is: errNoDigestHere, Code: wire.CodeDigestNotSupported},
	{Is: paychan.ErrChainTerms, Code: wire.CodeBadParameter},
	{Is: paychan.ErrNotOnChain, Code: wire.CodeChannelNotFound},
	{Is: paychan.ErrDepositOnChain, Code: wire.CodeDepositOnChain},
	{Is: paychan.ErrNoChain, Code: wire.CodeBadParameter},
	{Is: paychan.ErrClock, Code: wire.CodeUnavailable, Detail: paychan.ErrClock.Error(), RetryAfter: 5},
	{Is: paychan.ErrChain, Code: wire.CodeUnavailable, Detail: paychan.ErrChain.Error()},
	{Is: paychan.ErrOtherChannel, Code: wire.CodeBadParameter},
	{Is: paychan.ErrExpiryPast, Code: wire.CodeBadParameter},

	{Is: metering.ErrPaymentRequired, Code: wire.CodePaymentRequired, Detail: "the read must be paid for: name a session in " + wire.HeaderSessionID + ", or send a micropayment in " + wire.HeaderMicropayment},
	{Is: metering.ErrAboveLimit, Code: wire.CodeChargeAboveLimit, Detail: "the read costs more chunksets than " + wire.HeaderMaxChunksets + " allows"},
	{Is: micropay.ErrRefused, Code: wire.CodeMicropaymentRefused},
	{Is: ledger.ErrPriceChanged, Code: wire.CodePriceChanged},
	{Is: ledger.ErrInsufficientFunds, Code: wire.CodeInsufficientFunds, Detail: "the payment is insufficient"},
	{Is: ledger.ErrChannelStopped, Code: wire.CodeChannelStopped},
	{Is: ledger.ErrOutdated, Code: wire.CodeUnavailable, Detail: "the channel could not be read from the chain"},
	{Is: ledger.ErrUnsettledLimit, Code: wire.CodeUnsettledLimit},
	{Is: session.ErrPaymentRequired, Code: wire.CodePaymentRequired},
	{Is: ledger.ErrExhausted, Code: wire.CodeNoChunksetsLeft, Detail: "the session does not have enough chunksets left"},
	{Is: link.ErrExpired, Code: wire.CodeLinkExpired, Detail: link.ErrExpired.Error()},
	{Is: link.ErrSignature, Code: wire.CodeCredentialUnknown, Detail: link.ErrSignature.Error() + ": it was signed with another secret, or for another blob"},
	{Is: errLinkForbidden, Code: wire.CodeLinkForbidden},
	{Is: exchange.ErrNoCredential, Code: wire.CodeCredentialRequired, Detail: "a key is required: send it as Authorization: Bearer KEY or as X-Api-Key: KEY"},

	{Is: ledger.ErrStalePayment, Code: wire.CodeMicropaymentStale, Detail: "the sequence number or amount of the micropayment is not greater than the accepted one"},
	{Is: ledger.ErrNothingExpired, Code: wire.CodeNothingExpired, Detail: "the payment over the channel has not expired, so there is nothing to renew"},
	{Is: database.ErrExists, Code: wire.CodeChannelExists, Detail: "the channel of this sender, receiver, asset and paymentChannelId already exists"},
	{Is: ledger.ErrChannelClosed, Code: wire.CodeChannelClosed, Detail: "the channel is closed"},
	{Is: paychan.ErrChannelEnding, Code: wire.CodeChannelExpired, Detail: "the channel ends too soon to collect a payment over it"},
	{Is: ledger.ErrChannelExpired, Code: wire.CodeChannelExpired, Detail: "the channel has expired"},
	{Is: errSessionExpired, Code: wire.CodeSessionExpired, Detail: errSessionExpired.Error()},

	{Is: errContentEncoding, Code: wire.CodeContentEncoding},

	{Is: metering.ErrBacklog, Code: wire.CodeOverloaded, Detail: metering.ErrBacklog.Error()},
}, rowOfFault, explain)

// rowOfFault returns the row for a requested fault that has a status of its own.
func rowOfFault(err error) (exchange.Row, bool) {
	var fault *requestedFault
	if errors.As(err, &fault) && fault.as == nil {
		return faultRow(fault), true
	}
	return exchange.Row{}, false
}

// explain adds to a row how a payer can proceed, and which outcome is unknown.
func explain(row *exchange.Row, err error) {
	var payment *micropay.Error
	var limit *ledger.UnsettledLimitError
	if errors.As(err, &payment) {
		row.Detail = payment.Detail
	}
	if errors.As(err, &limit) {
		row.Detail = limitDetail(limit)
	}
	explainDoubt(row, err)
}

// requestedFault is the error in an exchange that has a fault.
type requestedFault struct {
	faults.Fault

	as error // the error that the service has without the fault; nil: it has none
}

// Error returns the fault and not the error, which did not happen.
func (e *requestedFault) Error() string { return fmt.Sprintf("this fault was requested: %s", e.Fault) }

func (e *requestedFault) Unwrap() error { return e.as }

// faultRow returns the row for a requested fault with a status. As with other errors of these
// statuses, a retry can help after 429, 502, 503 and 504.
func faultRow(fault *requestedFault) exchange.Row {
	row := exchange.Row{Status: fault.Status, Code: wire.CodeFaultInjected, Detail: fault.Error()}
	switch fault.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		row.RetryAfter = 1
	}
	return row
}

// limitDetail returns how a payer can proceed at an unsettled limit.
func limitDetail(e *ledger.UnsettledLimitError) string {
	detail := fmt.Sprintf("the payment would exceed the selling limit of the channel: %d units may be unsettled, and %d are", e.Limit, e.Unsettled)
	switch {
	case e.Expired > 0:
		return detail + fmt.Sprintf("; %d of them have expired, and are collected after a renewal: send a micropayment of the accepted amount with a higher sequence number to .../renew", e.Expired)
	case e.Unsettled == 0:
		return detail + "; pay a smaller amount first"
	default:
		return detail + "; pay less, or wait until they are settled"
	}
}

// doubtError is a database.ErrUnknownOutcome with the ids that a client needs to resolve it.
type doubtError struct {
	err       error
	retryable bool // a retry has no second effect

	channelID, sessionID, uploadID string // the id that was created, if any
}

// Error returns the error's text.
func (e *doubtError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *doubtError) Unwrap() error { return e.err }

// inDoubt returns d with err if err is database.ErrUnknownOutcome and no doubtError yet, and
// otherwise err.
func inDoubt(err error, d doubtError) error {
	if !errors.Is(err, database.ErrUnknownOutcome) || errors.As(err, new(*doubtError)) {
		return err
	}
	d.err = err
	return &d
}

// explainDoubt changes an unknown outcome's row if the request must not be retried blindly.
func explainDoubt(row *exchange.Row, err error) {
	var doubt *doubtError
	if row.Code == wire.CodeOutcomeUnknown && errors.As(err, &doubt) && !doubt.retryable {
		row.Detail = "it is unknown whether the request took effect or soon will: check before a retry, and send retries with an Idempotency-Key"
		row.RetryAfter = 0
	}
}
