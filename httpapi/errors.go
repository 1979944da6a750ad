package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/router"
	"sluice/metastore"
	"sluice/metering"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// Errors of the HTTP layer. Handlers return them wrapped, with what the caller
// should know; the table below gives each its status.
var (
	errNoRoute        = errors.New("there is no such route")
	errMethod         = errors.New("the method is not known here")
	errNoBlob         = errors.New("there is no blob of this name")
	errNoUpload       = errors.New("there is no such upload")
	errNoSession      = errors.New("there is no such session")
	errNoChannel      = errors.New("there is no such channel")
	errBlobExpired    = errors.New("the blob has expired")
	errSessionExpired = errors.New("the session has expired")
	errParameter      = errors.New("malformed parameter")
	errHeader         = errors.New("malformed header")
	errNoDigestHere   = errors.New("a digest of the whole cannot be checked here; send one with each part")
	errNoLength       = errors.New("the body must come with a Content-Length, or chunked; an empty one has the length 0")
	errPrecondition   = errors.New("a precondition does not hold")
	errRange          = errors.New("the range lies outside the blob")
	errForeignHost    = errors.New("this local instance does not answer under this host name; allow it with --allowed-hosts")
	errForeignOrigin  = errors.New("this local instance does not serve pages of this origin; allow it with --cors-origins")

	errNoCredential  = errors.New("this needs a key: send it as Authorization: Bearer KEY or as X-Api-Key: KEY")
	errBadCredential = errors.New("the credential cannot be read")
	errOtherGroup    = errors.New("the upload was begun with a key of another group, whose parts it takes alone")
	errTooBusy       = errors.New("too many requests are at work")

	errNotReady = errors.New("the service cannot serve now")
	errDraining = errors.New("the service is shutting down")
)

// errorRow says how an error is told to a client. An empty detail means that
// the error's own text is fit for it. An error matches the first row that it is.
type errorRow struct {
	is         error
	status     int
	code       wire.Code
	detail     string
	retryAfter int  // seconds; 0: not a matter of waiting
	closes     bool // the connection is of no more use
}

// errorTable is the only place where errors have a status. It has only errors of
// our own: one of another package (io.ErrUnexpectedEOF, say) does not tell whose
// fault it is. context.Canceled and context.DeadlineExceeded come last, for what
// nobody named.
var errorTable = []errorRow{
	// First what the stores say, whatever it wraps: an outcome that is not known
	// must not look like a refusal, nor an outage like the client's fault.
	{is: metastore.ErrUnknownOutcome, status: http.StatusServiceUnavailable, code: wire.CodeOutcomeUnknown, detail: "it is not known whether this took effect; look, or repeat it", retryAfter: 1},
	{is: blob.ErrCorrupt, status: http.StatusInternalServerError, code: wire.CodeInternal, detail: internalError.detail},
	{is: metastore.ErrUnavailable, status: http.StatusServiceUnavailable, code: wire.CodeUnavailable, detail: "the database cannot be reached or takes no writes now; nothing was changed", retryAfter: 1},
	{is: metastore.ErrBusy, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "this waited too long for others in the database; nothing was changed", retryAfter: 1},
	{is: blob.ErrCut, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: blob.ErrCut.Error(), retryAfter: 1},
	{is: bytestore.ErrOverloaded, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "the storage is busy or cannot be reached now", retryAfter: 1},
	{is: bytestore.ErrNoSpace, status: http.StatusInsufficientStorage, code: wire.CodeStorageFull, detail: "the storage is full; delete something first"},
	{is: metastore.ErrNoSpace, status: http.StatusInsufficientStorage, code: wire.CodeStorageFull, detail: "the storage is full; delete something first"},

	// Before the errors that they wrap, which are 404 or 410 for other requests.
	{is: metering.ErrSessionNotFound, status: http.StatusPaymentRequired, code: wire.CodeSessionNotFound, detail: metering.ErrSessionNotFound.Error()},
	{is: metering.ErrSessionExpired, status: http.StatusPaymentRequired, code: wire.CodeSessionExpired, detail: metering.ErrSessionExpired.Error()},
	{is: metering.ErrChannelNotFound, status: http.StatusPaymentRequired, code: wire.CodeChannelNotFound, detail: "there is no channel of this sender, receiver, asset and paymentChannelId to pay with"},
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
	{is: metastore.ErrNoChannel, status: http.StatusNotFound, code: wire.CodeChannelNotFound, detail: "there is no channel of this sender, receiver, asset and paymentChannelId"},
	{is: errMethod, status: http.StatusMethodNotAllowed, code: wire.CodeMethodNotAllowed},

	{is: router.ErrMalformedPath, status: http.StatusBadRequest, code: wire.CodeBadRequest},
	{is: errParameter, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: errMalformedJSON, status: http.StatusBadRequest, code: wire.CodeBadJSON},
	{is: errNumberTooLarge, status: http.StatusBadRequest, code: wire.CodeNumberTooLarge},
	{is: headers.ErrMalformedCondition, status: http.StatusBadRequest, code: wire.CodeBadHeader},
	{is: headers.ErrMalformedDigest, status: http.StatusBadRequest, code: wire.CodeBadDigest},
	{is: errBrokenBody, status: http.StatusBadRequest, code: wire.CodeIncompleteBody, detail: errBrokenBody.Error(), closes: true},
	{is: errSlowBody, status: http.StatusRequestTimeout, code: wire.CodeBodyTooSlow, detail: errSlowBody.Error(), closes: true},
	{is: errHeader, status: http.StatusBadRequest, code: wire.CodeBadHeader},
	{is: micropay.ErrMalformed, status: http.StatusBadRequest, code: wire.CodeMicropaymentMalformed},
	{is: metastore.ErrAmountOverflow, status: http.StatusBadRequest, code: wire.CodeNumberTooLarge, detail: errNumberTooLarge.Error()},
	{is: errNoDigestHere, status: http.StatusBadRequest, code: wire.CodeDigestNotSupported},
	{is: blob.ErrIncompleteBody, status: http.StatusBadRequest, code: wire.CodeIncompleteBody, detail: blob.ErrIncompleteBody.Error()},
	{is: blob.ErrDigestMismatch, status: http.StatusBadRequest, code: wire.CodeDigestMismatch},
	{is: blob.ErrExpiryPast, status: http.StatusBadRequest, code: wire.CodeBadParameter, detail: blob.ErrExpiryPast.Error()},
	{is: paychan.ErrExpiryPast, status: http.StatusBadRequest, code: wire.CodeBadParameter},
	{is: blob.ErrPartIndex, status: http.StatusBadRequest, code: wire.CodePartIndex},
	{is: blob.ErrPartSize, status: http.StatusBadRequest, code: wire.CodePartSize},
	{is: blob.ErrPartsMissing, status: http.StatusBadRequest, code: wire.CodePartsMissing},
	{is: blob.ErrTotals, status: http.StatusBadRequest, code: wire.CodeTotalMismatch},

	{is: metering.ErrPaymentRequired, status: http.StatusPaymentRequired, code: wire.CodePaymentRequired, detail: "the read must be paid for: name a session in " + wire.HeaderSessionID + ", or send a micropayment in " + wire.HeaderMicropayment},
	{is: metering.ErrAboveLimit, status: http.StatusPaymentRequired, code: wire.CodeChargeAboveLimit, detail: "the read costs more chunksets than " + wire.HeaderMaxChunksets + " allows"},
	{is: micropay.ErrRefused, status: http.StatusPaymentRequired, code: wire.CodeMicropaymentRefused},
	{is: metastore.ErrInsufficientFunds, status: http.StatusPaymentRequired, code: wire.CodeInsufficientFunds, detail: "the payment does not suffice"},
	{is: metastore.ErrUnsettledLimit, status: http.StatusPaymentRequired, code: wire.CodeUnsettledLimit, detail: "too much of this channel is accepted and not settled yet; wait until it is"},
	{is: session.ErrPaymentRequired, status: http.StatusPaymentRequired, code: wire.CodePaymentRequired},
	{is: metastore.ErrExhausted, status: http.StatusPaymentRequired, code: wire.CodeNoChunksetsLeft, detail: "the session has not enough chunksets left"},
	{is: errNoCredential, status: http.StatusUnauthorized, code: wire.CodeCredentialRequired},
	{is: errBadCredential, status: http.StatusUnauthorized, code: wire.CodeCredentialUnknown},
	{is: access.ErrUnknownKey, status: http.StatusUnauthorized, code: wire.CodeCredentialUnknown, detail: "the key is not known, has expired or was revoked"},
	{is: access.ErrScope, status: http.StatusForbidden, code: wire.CodeScopeMissing},
	{is: access.ErrAccount, status: http.StatusForbidden, code: wire.CodeAccountForbidden},
	{is: errOtherGroup, status: http.StatusForbidden, code: wire.CodeAccountForbidden},
	{is: access.ErrQuota, status: http.StatusForbidden, code: wire.CodeQuotaExceeded},
	{is: access.ErrRate, status: http.StatusTooManyRequests, code: wire.CodeRateLimited, detail: "too many requests in a second", retryAfter: 1},
	{is: access.ErrConcurrent, status: http.StatusTooManyRequests, code: wire.CodeTooManyAtOnce, detail: "too many requests at once", retryAfter: 1},
	{is: errForeignOrigin, status: http.StatusForbidden, code: wire.CodeForbiddenOrigin},
	{is: errForeignHost, status: http.StatusMisdirectedRequest, code: wire.CodeForeignHost},

	{is: metastore.ErrStalePayment, status: http.StatusConflict, code: wire.CodeMicropaymentStale, detail: "the micropayment's sequence number or amount is not above the accepted one"},
	{is: metastore.ErrCommitted, status: http.StatusConflict, code: wire.CodeUploadCommitted, detail: "the upload is complete already"},
	{is: metastore.ErrExists, status: http.StatusConflict, code: wire.CodeChannelExists, detail: "a channel of this sender, receiver, asset and paymentChannelId exists already"},
	{is: blob.ErrUploadChanging, status: http.StatusConflict, code: wire.CodeUploadChanged, retryAfter: 1},
	{is: metastore.ErrRevisionMismatch, status: http.StatusConflict, code: wire.CodeUploadChanged, detail: blob.ErrUploadChanging.Error(), retryAfter: 1},
	{is: metastore.ErrAborted, status: http.StatusGone, code: wire.CodeUploadAborted, detail: "the upload was aborted"},
	{is: metastore.ErrChannelClosed, status: http.StatusGone, code: wire.CodeChannelClosed, detail: "the channel is closed"},
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
	{is: errTooBusy, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "too many requests are at work", retryAfter: 1},
	{is: errNotReady, status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: errNotReady.Error(), retryAfter: 1},
	{is: errDraining, status: http.StatusServiceUnavailable, code: wire.CodeDraining, detail: errDraining.Error(), retryAfter: 1},
	{is: context.Canceled, status: statusClientGone, code: wire.CodeClientGone, detail: "the client is gone"},
	{is: context.DeadlineExceeded, status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "this took too long", retryAfter: 1},
}

// statusClientGone is what the log calls the end of an exchange whose client
// did not wait for it; nobody reads the reply. (nginx's number.)
const statusClientGone = 499

// internalError is what a client learns of an error that is in no row.
var internalError = errorRow{status: http.StatusInternalServerError, code: wire.CodeInternal, detail: "something went wrong here; the log tells what under this requestId"}

// rowOf gives the row of an error.
func rowOf(err error) errorRow {
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
	for _, row := range errorTable {
		if errors.Is(err, row.is) {
			if errors.As(err, &payment) {
				row.detail = payment.Detail
			}
			if errors.As(err, &quota) {
				row.detail = quota.Error() // and not where it was met
			}
			if row.detail == "" {
				// What was joined to the error on its way is for the log.
				row.detail, _, _ = strings.Cut(err.Error(), "\n")
			}
			explainDoubt(&row, err)
			return row
		}
	}
	return internalError
}

// writeProblem sends the error reply of a row. What the handler set for the
// reply that it meant to give is taken back.
func writeProblem(x *exchange, row errorRow, cause error) error {
	detail := sentence(row.detail)
	p := wire.Problem{
		Type:      "urn:sluice:error:" + string(row.code),
		Title:     http.StatusText(row.status),
		Status:    row.status,
		Detail:    detail,
		Error:     detail,
		Code:      string(row.code),
		RequestID: x.requestID,
	}
	x.s.setPaymentMembers(&p, cause)
	tellDoubt(&p, cause)
	if row.status == http.StatusServiceUnavailable {
		retryable := row.retryAfter > 0
		p.Retryable = &retryable
	}
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding a problem: %w", err)
	}
	body = append(body, '\n') // for those who read it in a terminal
	h := x.Header()
	for _, name := range blobHeaders {
		h.Del(name)
	}
	var unmet *unsatisfied
	if errors.As(cause, &unmet) {
		h.Set("Content-Range", headers.UnsatisfiedRange(unmet.size))
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	setRetryAfter(h, row, cause)
	if row.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", challenge(row.code))
	}
	x.WriteHeader(row.status)
	if x.r.Method == http.MethodHead {
		return nil
	}
	_, err = x.Write(body)
	return err
}

// challenge is the WWW-Authenticate of a 401 (RFC 6750, section 3).
func challenge(code wire.Code) string {
	if code == wire.CodeCredentialRequired {
		return `Bearer realm="sluice"`
	}
	return `Bearer realm="sluice", error="invalid_token"`
}

// isBadCredential tells a credential that is none from a failure to look it up.
func isBadCredential(err error) bool {
	return errors.Is(err, errBadCredential) || errors.Is(err, access.ErrUnknownKey)
}

// sentence makes a sentence of an error's text.
func sentence(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[n:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
