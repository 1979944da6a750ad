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
	"sluice/httpapi/internal/faults"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/router"
	"sluice/httpapi/internal/transfer"
	"sluice/metastore"
	"sluice/metering"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// This file is the only one of the package that assigns statuses to errors. Only the responses to
// requests that net/http cannot parse have others.

// Errors of the HTTP layer. Handlers wrap them with details for the client.
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

// errorRow says how an error is reported to a client. An error matches the first row of the table
// that it is. If detail is empty, the text of the error itself is sent.
type errorRow struct {
	is         error
	status     int
	code       wire.Code
	detail     string
	retryAfter int  // seconds; 0: a retry does not help
	closes     bool // the connection cannot be used again
}

// errorTable contains only errors of this module, because an error of another package, such as
// io.ErrUnexpectedEOF, does not say who caused it. The exceptions, context.Canceled and
// context.DeadlineExceeded, are last.
var errorTable = []errorRow{
	// Errors of the stores are first, whatever they wrap: an unknown outcome must not look like a
	// refusal, nor an outage like an error of the client.
	{is: metastore.ErrUnknownOutcome, status: http.StatusServiceUnavailable, code: wire.CodeOutcomeUnknown, detail: "it is unknown whether the request took effect; check, or retry it", retryAfter: 1},
	{is: blob.ErrFenced, status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: "another database uses the same bytes, so that this node accepts no writes; nothing was changed", retryAfter: 10},
	{is: blob.ErrFenceWaits, status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: "writes wait until it is known that no other database uses the same bytes; nothing was changed", retryAfter: 1},
	{is: blob.ErrCorrupt, status: http.StatusInternalServerError, code: wire.CodeInternal, detail: internalError.detail},
	{is: metastore.ErrUnavailable, status: http.StatusServiceUnavailable, code: wire.CodeUnavailable, detail: "the database is unreachable or read-only; nothing was changed", retryAfter: 1},
	{is: metastore.ErrBusy, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "the request waited too long for other requests in the database; nothing was changed", retryAfter: 1},
	{is: blob.ErrCut, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: blob.ErrCut.Error(), retryAfter: 1},
	{is: bytestore.ErrOverloaded, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "the storage is overloaded or unreachable", retryAfter: 1},
	{is: bytestore.ErrNoSpace, status: http.StatusInsufficientStorage, code: wire.CodeStorageFull, detail: "the storage is full"},
	{is: metastore.ErrNoSpace, status: http.StatusInsufficientStorage, code: wire.CodeStorageFull, detail: "the storage is full"},

	// Before the errors that they wrap, which are 404 or 410 for other requests.
	{is: metering.ErrSessionNotFound, status: http.StatusPaymentRequired, code: wire.CodeSessionNotFound, detail: metering.ErrSessionNotFound.Error()},
	{is: metering.ErrSessionExpired, status: http.StatusPaymentRequired, code: wire.CodeSessionExpired, detail: metering.ErrSessionExpired.Error()},
	{is: metering.ErrChannelNotFound, status: http.StatusPaymentRequired, code: wire.CodeChannelNotFound, detail: "the channel of this sender, receiver, asset and paymentChannelId to pay with does not exist"},
	{is: metering.ErrChannelClosed, status: http.StatusPaymentRequired, code: wire.CodeChannelClosed, detail: metering.ErrChannelClosed.Error()},
	{is: metering.ErrChannelExpired, status: http.StatusPaymentRequired, code: wire.CodeChannelExpired, detail: metering.ErrChannelExpired.Error()},

	{is: errPrecondition, status: http.StatusPreconditionFailed, code: wire.CodePreconditionFailed},
	{is: blob.ErrExists, status: http.StatusPreconditionFailed, code: wire.CodePreconditionFailed},
	{is: errRange, status: http.StatusRequestedRangeNotSatisfiable, code: wire.CodeRangeNotSatisfiable},

	{is: errNoRoute, status: http.StatusNotFound, code: wire.CodeRouteNotFound},
	{is: errNoBlob, status: http.StatusNotFound, code: wire.CodeBlobNotFound, detail: errNoBlob.Error()},
	{is: errNoUpload, status: http.StatusNotFound, code: wire.CodeUploadNotFound, detail: errNoUpload.Error()},
	{is: errNoSession, status: http.StatusNotFound, code: wire.CodeSessionNotFound, detail: errNoSession.Error()},
	{is: errNoChannel, status: http.StatusNotFound, code: wire.CodeChannelNotFound, detail: errNoChannel.Error()},
	{is: metastore.ErrNoChannel, status: http.StatusNotFound, code: wire.CodeChannelNotFound, detail: "the channel of this sender, receiver, asset and paymentChannelId does not exist"},
	{is: errMethod, status: http.StatusMethodNotAllowed, code: wire.CodeMethodNotAllowed},

	{is: router.ErrMalformedPath, status: http.StatusBadRequest, code: wire.CodeBadRequest},
	{is: errParameter, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: errMalformedJSON, status: http.StatusBadRequest, code: wire.CodeBadJSON},
	{is: errNumberTooLarge, status: http.StatusBadRequest, code: wire.CodeNumberTooLarge},
	{is: headers.ErrMalformedCondition, status: http.StatusBadRequest, code: wire.CodeBadHeader},
	{is: headers.ErrMalformedMetadata, status: http.StatusBadRequest, code: wire.CodeBadHeader},
	{is: headers.ErrMalformedDigest, status: http.StatusBadRequest, code: wire.CodeBadDigest},
	{is: transfer.ErrBrokenBody, status: http.StatusBadRequest, code: wire.CodeIncompleteBody, detail: transfer.ErrBrokenBody.Error(), closes: true},
	{is: transfer.ErrSlowBody, status: http.StatusRequestTimeout, code: wire.CodeBodyTooSlow, detail: transfer.ErrSlowBody.Error(), closes: true},
	{is: errHeader, status: http.StatusBadRequest, code: wire.CodeBadHeader},
	{is: micropay.ErrMalformed, status: http.StatusBadRequest, code: wire.CodeMicropaymentMalformed},
	{is: metastore.ErrAmountOverflow, status: http.StatusBadRequest, code: wire.CodeNumberTooLarge, detail: errNumberTooLarge.Error()},
	{is: errNoDigestHere, status: http.StatusBadRequest, code: wire.CodeDigestNotSupported},
	{is: blob.ErrIncompleteBody, status: http.StatusBadRequest, code: wire.CodeIncompleteBody, detail: blob.ErrIncompleteBody.Error()},
	{is: blob.ErrDigestMismatch, status: http.StatusBadRequest, code: wire.CodeDigestMismatch},
	{is: blob.ErrExpiryPast, status: http.StatusBadRequest, code: wire.CodeBadParameter, detail: blob.ErrExpiryPast.Error()},
	{is: paychan.ErrChainTerms, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: paychan.ErrNotOnChain, status: http.StatusNotFound, code: wire.CodeChannelNotFound},
	{is: paychan.ErrDepositOnChain, status: http.StatusConflict, code: wire.CodeDepositOnChain},
	{is: paychan.ErrNoChain, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: paychan.ErrClock, status: http.StatusServiceUnavailable, code: wire.CodeUnavailable, detail: paychan.ErrClock.Error(), retryAfter: 5},
	{is: paychan.ErrChain, status: http.StatusServiceUnavailable, code: wire.CodeUnavailable, detail: paychan.ErrChain.Error(), retryAfter: 1},
	{is: paychan.ErrOtherChannel, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: paychan.ErrExpiryPast, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: blob.ErrPartIndex, status: http.StatusBadRequest, code: wire.CodePartIndex},
	{is: blob.ErrPartSize, status: http.StatusBadRequest, code: wire.CodePartSize},
	{is: blob.ErrPartsMissing, status: http.StatusBadRequest, code: wire.CodePartsMissing},
	{is: blob.ErrTotals, status: http.StatusBadRequest, code: wire.CodeTotalMismatch},

	{is: metering.ErrPaymentRequired, status: http.StatusPaymentRequired, code: wire.CodePaymentRequired, detail: "the read must be paid for: name a session in " + wire.HeaderSessionID + ", or send a micropayment in " + wire.HeaderMicropayment},
	{is: metering.ErrAboveLimit, status: http.StatusPaymentRequired, code: wire.CodeChargeAboveLimit, detail: "the read costs more chunksets than " + wire.HeaderMaxChunksets + " allows"},
	{is: micropay.ErrRefused, status: http.StatusPaymentRequired, code: wire.CodeMicropaymentRefused},
	{is: metastore.ErrInsufficientFunds, status: http.StatusPaymentRequired, code: wire.CodeInsufficientFunds, detail: "the payment is insufficient"},
	{is: metastore.ErrChannelStopped, status: http.StatusPaymentRequired, code: wire.CodeChannelStopped},
	{is: metastore.ErrOutdated, status: http.StatusServiceUnavailable, code: wire.CodeUnavailable, detail: "the channel could not be read from the chain", retryAfter: 1},
	{is: metastore.ErrUnsettledLimit, status: http.StatusPaymentRequired, code: wire.CodeUnsettledLimit},
	{is: session.ErrPaymentRequired, status: http.StatusPaymentRequired, code: wire.CodePaymentRequired},
	{is: metastore.ErrExhausted, status: http.StatusPaymentRequired, code: wire.CodeNoChunksetsLeft, detail: "the session does not have enough chunksets left"},
	{is: errNoCredential, status: http.StatusUnauthorized, code: wire.CodeCredentialRequired},
	{is: errBadCredential, status: http.StatusUnauthorized, code: wire.CodeCredentialUnknown},
	{is: access.ErrUnknownKey, status: http.StatusUnauthorized, code: wire.CodeCredentialUnknown, detail: "the key is unknown, has expired or was revoked"},
	{is: access.ErrScope, status: http.StatusForbidden, code: wire.CodeScopeMissing},
	{is: access.ErrAccount, status: http.StatusForbidden, code: wire.CodeAccountForbidden},
	{is: errOtherGroup, status: http.StatusForbidden, code: wire.CodeAccountForbidden},
	{is: access.ErrQuota, status: http.StatusForbidden, code: wire.CodeQuotaExceeded},
	{is: access.ErrRate, status: http.StatusTooManyRequests, code: wire.CodeRateLimited, detail: "too many requests per second", retryAfter: 1},
	{is: access.ErrConcurrent, status: http.StatusTooManyRequests, code: wire.CodeTooManyAtOnce, detail: "too many concurrent requests", retryAfter: 1},
	{is: errForeignOrigin, status: http.StatusForbidden, code: wire.CodeForbiddenOrigin},
	{is: errServiceWorker, status: http.StatusForbidden, code: wire.CodeScriptForbidden},
	{is: errForeignHost, status: http.StatusMisdirectedRequest, code: wire.CodeForeignHost},

	{is: metastore.ErrStalePayment, status: http.StatusConflict, code: wire.CodeMicropaymentStale, detail: "the sequence number or amount of the micropayment is not greater than the accepted one"},
	{is: metastore.ErrNothingExpired, status: http.StatusConflict, code: wire.CodeNothingExpired, detail: "the payment over the channel has not expired, so there is nothing to renew"},
	{is: metastore.ErrCommitted, status: http.StatusConflict, code: wire.CodeUploadCommitted, detail: "the upload was already completed"},
	{is: metastore.ErrExists, status: http.StatusConflict, code: wire.CodeChannelExists, detail: "the channel of this sender, receiver, asset and paymentChannelId already exists"},
	{is: blob.ErrUploadChanging, status: http.StatusConflict, code: wire.CodeUploadChanged, retryAfter: 1},
	{is: metastore.ErrRevisionMismatch, status: http.StatusConflict, code: wire.CodeUploadChanged, detail: blob.ErrUploadChanging.Error(), retryAfter: 1},
	{is: metastore.ErrAborted, status: http.StatusGone, code: wire.CodeUploadAborted, detail: "the upload was aborted"},
	{is: metastore.ErrChannelClosed, status: http.StatusGone, code: wire.CodeChannelClosed, detail: "the channel is closed"},
	{is: paychan.ErrChannelEnding, status: http.StatusGone, code: wire.CodeChannelExpired, detail: "the channel ends too soon to collect a payment over it"},
	{is: metastore.ErrChannelExpired, status: http.StatusGone, code: wire.CodeChannelExpired, detail: "the channel has expired"},
	{is: errBlobExpired, status: http.StatusGone, code: wire.CodeBlobExpired, detail: errBlobExpired.Error()},
	{is: errSessionExpired, status: http.StatusGone, code: wire.CodeSessionExpired, detail: errSessionExpired.Error()},

	{is: errNoLength, status: http.StatusLengthRequired, code: wire.CodeLengthRequired},
	{is: blob.ErrTooLarge, status: http.StatusRequestEntityTooLarge, code: wire.CodeTooLarge},
	{is: errBodyTooLarge, status: http.StatusRequestEntityTooLarge, code: wire.CodeTooLarge},
	{is: errContentEncoding, status: http.StatusUnsupportedMediaType, code: wire.CodeContentEncoding},
	{is: metastore.ErrIdempotencyReuse, status: http.StatusUnprocessableEntity, code: wire.CodeIdempotencyReuse, detail: "the Idempotency-Key was used for another request"},

	{is: blob.ErrPutTooLong, status: http.StatusServiceUnavailable, code: wire.CodePutTooLong, detail: blob.ErrPutTooLong.Error()},
	{is: metastore.ErrStaleExtent, status: http.StatusServiceUnavailable, code: wire.CodePutTooLong, detail: blob.ErrPutTooLong.Error()},
	{is: metering.ErrBacklog, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: metering.ErrBacklog.Error(), retryAfter: 1},
	{is: errTooBusy, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: errTooBusy.Error(), retryAfter: 1},
	{is: errNotReady, status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: errNotReady.Error(), retryAfter: 1},
	{is: errOlderNodes, status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: errOlderNodes.Error(), retryAfter: 10},
	{is: errDraining, status: http.StatusServiceUnavailable, code: wire.CodeDraining, detail: errDraining.Error(), retryAfter: 1},
	{is: context.Canceled, status: statusClientGone, code: wire.CodeClientGone, detail: "the client closed the connection"},
	{is: context.DeadlineExceeded, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "the request took too long", retryAfter: 1},
}

// Rows of connections that are refused before any handler runs.
var (
	tooManyConnections = errorRow{status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "too many connections are open", retryAfter: 1}
	tooManyFromAddress = errorRow{status: http.StatusTooManyRequests, code: wire.CodeTooManyAtOnce, detail: "too many connections from this address are open", retryAfter: 1}
)

// statusClientGone is the status in the log if the client did not wait for the response. It is that
// of nginx.
const statusClientGone = 499

// internalError is the row of errors that are in no other row.
var internalError = errorRow{status: http.StatusInternalServerError, code: wire.CodeInternal, detail: "an internal error occurred; the log of the server has the cause under this requestId"}

// allCodes returns the codes of all rows, sorted.
func allCodes() []string {
	list := []string{string(wire.CodeBadAccount), string(wire.CodeBadName), string(wire.CodeFaultInjected), string(internalError.code)}
	for _, row := range errorTable {
		list = append(list, string(row.code))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// requestedFault is the error of an exchange that has a fault.
type requestedFault struct {
	faults.Fault

	as error // the error that the service has without the fault; nil: it has none
}

// Error returns the fault and not the error, which did not happen.
func (e *requestedFault) Error() string { return fmt.Sprintf("this fault was requested: %s", e.Fault) }

func (e *requestedFault) Unwrap() error { return e.as }

// faultRow returns the row of a requested fault with a status. As with other errors of these statuses, a retry
// can help after 429, 502, 503 and 504.
func faultRow(fault *requestedFault) errorRow {
	row := errorRow{status: fault.Status, code: wire.CodeFaultInjected, detail: fault.Error()}
	switch fault.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		row.retryAfter = 1
	}
	return row
}

// rowOf returns the row of an error.
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
		return errorRow{status: http.StatusBadRequest, code: code, detail: name.Error()}
	}
	var payment *micropay.Error
	var quota *access.QuotaError
	var limit *metastore.UnsettledLimitError
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
func limitDetail(e *metastore.UnsettledLimitError) string {
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

// unsatisfiedRange is errRange with the size of the blob.
type unsatisfiedRange struct{ size int64 }

// Error includes the size, from which a client can choose another range.
func (e *unsatisfiedRange) Error() string {
	return fmt.Sprintf("%s, whose size is %d bytes", errRange, e.size)
}

// Unwrap returns errRange.
func (e *unsatisfiedRange) Unwrap() error { return errRange }

// doubtError is a metastore.ErrUnknownOutcome with what the client needs to resolve it.
type doubtError struct {
	err       error
	retryable bool // a retry of the request has no second effect

	channelID, sessionID, uploadID string // of what was created, if it was
}

// Error returns the text of the error.
func (e *doubtError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *doubtError) Unwrap() error { return e.err }

// inDoubt returns d with err if err is metastore.ErrUnknownOutcome, and otherwise err.
func inDoubt(err error, d doubtError) error {
	if !errors.Is(err, metastore.ErrUnknownOutcome) {
		return err
	}
	d.err = err
	return &d
}

// explainDoubt changes the row of an unknown outcome if the request must not be retried blindly.
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
