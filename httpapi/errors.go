package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/httpapi/internal/faults"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/router"
	"sluice/httpapi/internal/transfer"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/metering"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// Only this file of the package assigns statuses to errors. Only the responses to requests that
// net/http cannot parse have others.

// The HTTP layer's errors. Handlers wrap them with details for the client.
var (
	errNoRoute        = errors.New("the route does not exist")
	errMethod         = errors.New("the method is not allowed on this route")
	errNoBlob         = errors.New("the blob does not exist")
	errNoUpload       = errors.New("the upload does not exist")
	errNoSession      = errors.New("the session does not exist")
	errNoChannel      = errors.New("the channel does not exist")
	errBlobExpired    = errors.New("the blob has expired")
	errSessionExpired = errors.New("the session has expired")
	errParameter      = errors.New("malformed parameter")
	errHeader         = errors.New("malformed header")
	errNoDigestHere   = errors.New("a digest of the whole blob is not supported here; send one with each part")
	errNoLength       = errors.New("the body needs a Content-Length or must be chunked; the length of an empty body is 0")
	errPrecondition   = errors.New("a precondition failed")
	errRange          = errors.New("the range lies outside the blob")
	errForeignHost    = errors.New("this local instance does not accept requests for this host name; allow it with --allowed-hosts")
	errForeignOrigin  = errors.New("this local instance does not accept requests from pages of this origin; allow it with --cors-origins")
	errServiceWorker  = errors.New("a blob cannot be registered as a service worker of this origin")

	errNoCredential  = errors.New("a key is required: send it as Authorization: Bearer KEY or as X-Api-Key: KEY")
	errBadCredential = errors.New("malformed credential")
	errOtherGroup    = errors.New("the upload was begun with a key of another group, and only keys of that group may add parts")
	errTooBusy       = errors.New("too many requests are in progress")

	errNotReady = errors.New("the service cannot serve requests now")
	errDraining = errors.New("the service is shutting down")

	errOlderNodes = errors.New("metadata cannot be stored while a node of an earlier version runs; try again when all nodes are upgraded")
)

// errorRow says how an error is reported to a client. An error matches the first row for which
// errors.Is holds. If detail is empty, the error's own text is sent.
type errorRow struct {
	is         error
	code       wire.Code
	status     int // set by complete
	detail     string
	payment    bool // it is about the means of payment of a read: the status is 402
	retryAfter int  // seconds; 0: a retry does not help, or after a second, as the code says
	closes     bool // the connection cannot be used again
}

// complete returns the row with the status and the delay that its code implies.
func (r errorRow) complete() errorRow {
	implied := r.code.Row()
	r.status = implied.Status
	if r.payment {
		r.status = http.StatusPaymentRequired
	}
	if r.retryAfter == 0 && implied.Retry == wire.RetryLater {
		r.retryAfter = 1
	}
	return r
}

func complete(rows []errorRow) []errorRow {
	for i := range rows {
		rows[i] = rows[i].complete()
	}
	return rows
}

// errorTable contains only errors of this module, because an error of another package, such as
// io.ErrUnexpectedEOF, does not say who caused it. The exceptions, context.Canceled and
// context.DeadlineExceeded, are last.
var errorTable = complete([]errorRow{
	// The stores' errors are first, whatever they wrap: an unknown outcome must not look like a
	// refusal, nor an outage like a client's error.
	{is: database.ErrUnknownOutcome, code: wire.CodeOutcomeUnknown, detail: "it is unknown whether the request took effect; check, or retry it", retryAfter: 1},
	{is: blob.ErrFenced, code: wire.CodeNotReady, detail: "another database uses the same bytes, so that this node accepts no writes; nothing was changed", retryAfter: 10},
	{is: blob.ErrFenceWaits, code: wire.CodeNotReady, detail: "writes wait until it is known that no other database uses the same bytes; nothing was changed"},
	{is: blob.ErrCorrupt, code: wire.CodeInternal, detail: internalError.detail},
	{is: database.ErrUnavailable, code: wire.CodeUnavailable, detail: "the database is unreachable or read-only; nothing was changed"},
	{is: database.ErrBusy, code: wire.CodeOverloaded, detail: "the request waited too long for other requests in the database; nothing was changed"},
	{is: blob.ErrCut, code: wire.CodeOverloaded, detail: blob.ErrCut.Error()},
	{is: bytestore.ErrOverloaded, code: wire.CodeOverloaded, detail: "the storage is overloaded or unreachable"},
	{is: bytestore.ErrNoSpace, code: wire.CodeStorageFull, detail: "the storage is full"},
	{is: database.ErrNoSpace, code: wire.CodeStorageFull, detail: "the storage is full"},

	// Before the errors that they wrap, which are 404 or 410 for other requests.
	{is: metering.ErrSessionNotFound, code: wire.CodeSessionNotFound, payment: true, detail: metering.ErrSessionNotFound.Error()},
	{is: metering.ErrSessionExpired, code: wire.CodeSessionExpired, payment: true, detail: metering.ErrSessionExpired.Error()},
	{is: metering.ErrChannelNotFound, code: wire.CodeChannelNotFound, payment: true, detail: "the channel of this sender, receiver, asset and paymentChannelId to pay with does not exist"},
	{is: metering.ErrChannelClosed, code: wire.CodeChannelClosed, payment: true, detail: metering.ErrChannelClosed.Error()},
	{is: metering.ErrChannelExpired, code: wire.CodeChannelExpired, payment: true, detail: metering.ErrChannelExpired.Error()},

	{is: errPrecondition, code: wire.CodePreconditionFailed},
	{is: blob.ErrExists, code: wire.CodePreconditionFailed},
	{is: errRange, code: wire.CodeRangeNotSatisfiable},

	{is: errNoRoute, code: wire.CodeRouteNotFound},
	{is: errNoBlob, code: wire.CodeBlobNotFound, detail: errNoBlob.Error()},
	{is: errNoUpload, code: wire.CodeUploadNotFound, detail: errNoUpload.Error()},
	{is: errNoSession, code: wire.CodeSessionNotFound, detail: errNoSession.Error()},
	{is: errNoChannel, code: wire.CodeChannelNotFound, detail: errNoChannel.Error()},
	{is: ledger.ErrNoChannel, code: wire.CodeChannelNotFound, detail: "the channel of this sender, receiver, asset and paymentChannelId does not exist"},
	{is: errMethod, code: wire.CodeMethodNotAllowed},

	{is: router.ErrMalformedPath, code: wire.CodeBadRequest},
	{is: errParameter, code: wire.CodeBadParameter},
	{is: errMalformedJSON, code: wire.CodeBadJSON},
	{is: errNumberTooLarge, code: wire.CodeNumberTooLarge},
	{is: headers.ErrMalformedCondition, code: wire.CodeBadHeader},
	{is: headers.ErrMalformedMetadata, code: wire.CodeBadHeader},
	{is: headers.ErrMalformedDigest, code: wire.CodeBadDigest},
	{is: transfer.ErrBrokenBody, code: wire.CodeIncompleteBody, detail: transfer.ErrBrokenBody.Error(), closes: true},
	{is: transfer.ErrSlowBody, code: wire.CodeBodyTooSlow, detail: transfer.ErrSlowBody.Error(), closes: true},
	{is: errHeader, code: wire.CodeBadHeader},
	{is: micropay.ErrMalformed, code: wire.CodeMicropaymentMalformed},
	{is: ledger.ErrAmountOverflow, code: wire.CodeNumberTooLarge, detail: errNumberTooLarge.Error()},
	{is: errNoDigestHere, code: wire.CodeDigestNotSupported},
	{is: blob.ErrIncompleteBody, code: wire.CodeIncompleteBody, detail: blob.ErrIncompleteBody.Error()},
	{is: blob.ErrDigestMismatch, code: wire.CodeDigestMismatch},
	{is: blob.ErrExpiryPast, code: wire.CodeBadParameter, detail: blob.ErrExpiryPast.Error()},
	{is: paychan.ErrChainTerms, code: wire.CodeBadParameter},
	{is: paychan.ErrNotOnChain, code: wire.CodeChannelNotFound},
	{is: paychan.ErrDepositOnChain, code: wire.CodeDepositOnChain},
	{is: paychan.ErrNoChain, code: wire.CodeBadParameter},
	{is: paychan.ErrClock, code: wire.CodeUnavailable, detail: paychan.ErrClock.Error(), retryAfter: 5},
	{is: paychan.ErrChain, code: wire.CodeUnavailable, detail: paychan.ErrChain.Error()},
	{is: paychan.ErrOtherChannel, code: wire.CodeBadParameter},
	{is: paychan.ErrExpiryPast, code: wire.CodeBadParameter},
	{is: blob.ErrPartIndex, code: wire.CodePartIndex},
	{is: blob.ErrPartSize, code: wire.CodePartSize},
	{is: blob.ErrPartsMissing, code: wire.CodePartsMissing},
	{is: blob.ErrTotals, code: wire.CodeTotalMismatch},

	{is: metering.ErrPaymentRequired, code: wire.CodePaymentRequired, detail: "the read must be paid for: name a session in " + wire.HeaderSessionID + ", or send a micropayment in " + wire.HeaderMicropayment},
	{is: metering.ErrAboveLimit, code: wire.CodeChargeAboveLimit, detail: "the read costs more chunksets than " + wire.HeaderMaxChunksets + " allows"},
	{is: micropay.ErrRefused, code: wire.CodeMicropaymentRefused},
	{is: ledger.ErrInsufficientFunds, code: wire.CodeInsufficientFunds, detail: "the payment is insufficient"},
	{is: ledger.ErrChannelStopped, code: wire.CodeChannelStopped},
	{is: ledger.ErrOutdated, code: wire.CodeUnavailable, detail: "the channel could not be read from the chain"},
	{is: ledger.ErrUnsettledLimit, code: wire.CodeUnsettledLimit},
	{is: session.ErrPaymentRequired, code: wire.CodePaymentRequired},
	{is: ledger.ErrExhausted, code: wire.CodeNoChunksetsLeft, detail: "the session does not have enough chunksets left"},
	{is: errNoCredential, code: wire.CodeCredentialRequired},
	{is: errBadCredential, code: wire.CodeCredentialUnknown},
	{is: access.ErrUnknownKey, code: wire.CodeCredentialUnknown, detail: "the key is unknown, has expired or was revoked"},
	{is: access.ErrScope, code: wire.CodeScopeMissing},
	{is: access.ErrAccount, code: wire.CodeAccountForbidden},
	{is: errOtherGroup, code: wire.CodeAccountForbidden},
	{is: access.ErrQuota, code: wire.CodeQuotaExceeded},
	{is: access.ErrRate, code: wire.CodeRateLimited, detail: "too many requests per second"},
	{is: access.ErrConcurrent, code: wire.CodeTooManyAtOnce, detail: "too many concurrent requests"},
	{is: errForeignOrigin, code: wire.CodeForbiddenOrigin},
	{is: errServiceWorker, code: wire.CodeScriptForbidden},
	{is: errForeignHost, code: wire.CodeForeignHost},

	{is: ledger.ErrStalePayment, code: wire.CodeMicropaymentStale, detail: "the sequence number or amount of the micropayment is not greater than the accepted one"},
	{is: ledger.ErrNothingExpired, code: wire.CodeNothingExpired, detail: "the payment over the channel has not expired, so there is nothing to renew"},
	{is: metastore.ErrCommitted, code: wire.CodeUploadCommitted, detail: "the upload was already completed"},
	{is: database.ErrExists, code: wire.CodeChannelExists, detail: "the channel of this sender, receiver, asset and paymentChannelId already exists"},
	{is: blob.ErrUploadChanging, code: wire.CodeUploadChanged},
	{is: metastore.ErrRevisionMismatch, code: wire.CodeUploadChanged, detail: blob.ErrUploadChanging.Error()},
	{is: metastore.ErrAborted, code: wire.CodeUploadAborted, detail: "the upload was aborted"},
	{is: ledger.ErrChannelClosed, code: wire.CodeChannelClosed, detail: "the channel is closed"},
	{is: paychan.ErrChannelEnding, code: wire.CodeChannelExpired, detail: "the channel ends too soon to collect a payment over it"},
	{is: ledger.ErrChannelExpired, code: wire.CodeChannelExpired, detail: "the channel has expired"},
	{is: errBlobExpired, code: wire.CodeBlobExpired, detail: errBlobExpired.Error()},
	{is: errSessionExpired, code: wire.CodeSessionExpired, detail: errSessionExpired.Error()},
	{is: metastore.ErrNoSource, code: wire.CodeBlobNotFound, detail: errNoBlob.Error()}, // see blobError

	{is: errNoLength, code: wire.CodeLengthRequired},
	{is: blob.ErrTooLarge, code: wire.CodeTooLarge},
	{is: errBodyTooLarge, code: wire.CodeTooLarge},
	{is: errContentEncoding, code: wire.CodeContentEncoding},
	{is: database.ErrIdempotencyReuse, code: wire.CodeIdempotencyReuse, detail: "the Idempotency-Key was used for another request"},

	{is: blob.ErrSourceChanging, code: wire.CodeOverloaded, detail: blob.ErrSourceChanging.Error()},
	{is: blob.ErrPutTooLong, code: wire.CodePutTooLong, detail: blob.ErrPutTooLong.Error()},
	{is: metastore.ErrStaleExtent, code: wire.CodePutTooLong, detail: blob.ErrPutTooLong.Error()},
	{is: metering.ErrBacklog, code: wire.CodeOverloaded, detail: metering.ErrBacklog.Error()},
	{is: errTooBusy, code: wire.CodeOverloaded, detail: errTooBusy.Error()},
	{is: errNotReady, code: wire.CodeNotReady, detail: errNotReady.Error()},
	{is: errOlderNodes, code: wire.CodeNotReady, detail: errOlderNodes.Error(), retryAfter: 10},
	{is: errDraining, code: wire.CodeDraining, detail: errDraining.Error()},
	{is: context.Canceled, code: wire.CodeClientGone, detail: "the client closed the connection"},
	{is: context.DeadlineExceeded, code: wire.CodeOverloaded, detail: "the request took too long"},
})

// Rows of connections that are refused before any handler runs.
var (
	tooManyConnections = errorRow{code: wire.CodeOverloaded, detail: "too many connections are open"}.complete()
	tooManyFromAddress = errorRow{code: wire.CodeTooManyAtOnce, detail: "too many connections from this address are open"}.complete()
)

// statusClientGone is the status in the log if the client did not wait for the response, as in
// nginx.
var statusClientGone = wire.CodeClientGone.Row().Status

// internalError is the row of errors that are in no other row.
var internalError = errorRow{code: wire.CodeInternal, detail: "an internal error occurred; the log of the server has the cause under this requestId"}.complete()

// allCodes returns all codes, sorted.
func allCodes() []string {
	var list []string
	for _, row := range wire.Codes {
		list = append(list, string(row.Code))
	}
	slices.Sort(list)
	return list
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
func faultRow(fault *requestedFault) errorRow {
	row := errorRow{status: fault.Status, code: wire.CodeFaultInjected, detail: fault.Error()}
	switch fault.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		row.retryAfter = 1
	}
	return row
}

// rowOf returns an error's row.
func rowOf(err error) errorRow {
	var fault *requestedFault
	if errors.As(err, &fault) && fault.as == nil {
		return faultRow(fault)
	}
	var name *blob.NameError
	if errors.As(err, &name) {
		code := wire.CodeBadName
		if name.What == "account" {
			code = wire.CodeBadAccount
		}
		return errorRow{code: code, detail: name.Error()}.complete()
	}
	var payment *micropay.Error
	var quota *access.QuotaError
	var limit *ledger.UnsettledLimitError
	for _, row := range errorTable {
		if errors.Is(err, row.is) {
			if errors.As(err, &payment) {
				row.detail = payment.Detail
			}
			if errors.As(err, &quota) {
				row.detail = quota.Error() // without what wraps it
			}
			if errors.As(err, &limit) {
				row.detail = limitDetail(limit)
			}
			if row.detail == "" {
				// Errors that were joined to it are for the log.
				row.detail, _, _ = strings.Cut(err.Error(), "\n")
			}
			explainDoubt(&row, err)
			return row
		}
	}
	return internalError
}

// limitDetail says what a payer can do about an unsettled limit.
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

// unsatisfiedRange is errRange with the blob's size.
type unsatisfiedRange struct{ size int64 }

// Error includes the size, from which a client can choose another range.
func (e *unsatisfiedRange) Error() string {
	return fmt.Sprintf("%s, whose size is %d bytes", errRange, e.size)
}

// Unwrap returns errRange.
func (e *unsatisfiedRange) Unwrap() error { return errRange }

// doubtError is a database.ErrUnknownOutcome with what the client needs to resolve it.
type doubtError struct {
	err       error
	retryable bool // a retry has no second effect

	channelID, sessionID, uploadID string // of what was created, if it was
}

// Error returns the error's text.
func (e *doubtError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *doubtError) Unwrap() error { return e.err }

// inDoubt returns d with err if err is database.ErrUnknownOutcome, and otherwise err.
func inDoubt(err error, d doubtError) error {
	if !errors.Is(err, database.ErrUnknownOutcome) {
		return err
	}
	d.err = err
	return &d
}

// explainDoubt changes an unknown outcome's row if the request must not be retried blindly.
func explainDoubt(row *errorRow, err error) {
	var doubt *doubtError
	if row.code == wire.CodeOutcomeUnknown && errors.As(err, &doubt) && !doubt.retryable {
		row.detail = "it is unknown whether the request took effect or soon will: check before a retry, and send retries with an Idempotency-Key"
		row.retryAfter = 0
	}
}

// sentence turns the text of an error into a sentence.
func sentence(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[n:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
