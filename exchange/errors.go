package exchange

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/exchange/headers"
	"sluice/exchange/transfer"
	"sluice/history"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/wire"
)

// The errors that interfaces have in common. Handlers wrap them with details for the client.
var (
	ErrMethod        = errors.New("the method is not allowed on this route")
	ErrNoBlob        = errors.New("the blob does not exist")
	ErrBlobExpired   = errors.New("the blob has expired")
	ErrNoUpload      = errors.New("the upload does not exist")
	ErrParameter     = errors.New("malformed parameter")
	ErrHeader        = errors.New("malformed header")
	ErrNoLength      = errors.New("the body needs a Content-Length or must be chunked; the length of an empty body is 0")
	ErrBodyTooLarge  = errors.New("the body is too large")
	ErrPrecondition  = errors.New("a precondition failed")
	ErrForeignHost   = errors.New("this local instance does not accept requests for this host name; allow it with --allowed-hosts")
	ErrForeignOrigin = errors.New("this local instance does not accept requests from pages of this origin; allow it with --cors-origins")
	ErrServiceWorker = errors.New("a blob cannot be registered as a service worker of this origin")

	ErrNoCredential  = errors.New("a key is required")
	ErrBadCredential = errors.New("malformed credential")
	ErrOtherGroup    = errors.New("the upload was begun with a key of another group, and this key may not use it")
	ErrTooBusy       = errors.New("too many requests are in progress")

	ErrNotReady = errors.New("the service cannot serve requests now")
	ErrDraining = errors.New("the service is shutting down")

	// errRange is wrapped by each UnsatisfiedRange.
	errRange = errors.New("the range lies outside the blob")
)

// Row is how an error is reported to a client. An error matches the first row for which errors.Is
// holds.
type Row struct {
	Is         error
	Code       wire.Code
	Status     int    // 0: the code's
	Detail     string // "": the error's own text
	RetryAfter int    // seconds; 0: as the code has it, no retry or one after a second
	Closes     bool   // the connection cannot be used again
}

// complete returns the row with the status and the delay that its code implies.
func (r Row) complete() Row {
	implied := r.Code.Row()
	if r.Status == 0 {
		r.Status = implied.Status
	}
	if r.RetryAfter == 0 && implied.Retry == wire.RetryLater {
		r.RetryAfter = 1
	}
	return r
}

// storeRows come before all other rows, whatever their errors wrap: an unknown outcome must not
// look like a refusal, nor an outage like a client's error.
var storeRows = []Row{
	{Is: database.ErrUnknownOutcome, Code: wire.CodeOutcomeUnknown, Detail: "it is unknown whether the request took effect; check, or retry it", RetryAfter: 1},
	{Is: history.ErrFenced, Code: wire.CodeNotReady, Detail: "another database uses the same bytes, so that this node accepts no writes; nothing was changed", RetryAfter: 10},
	{Is: history.ErrFenceWaits, Code: wire.CodeNotReady, Detail: "writes wait until it is known that no other database uses the same bytes; nothing was changed"},
	{Is: database.ErrSetBack, Code: wire.CodeRolledBack, Detail: "the service lacks changes that it had acknowledged, and accepts no changes until its operator has decided how to continue; nothing was changed", RetryAfter: 60},
	{Is: integrity.ErrCorrupt, Code: wire.CodeDamaged, Detail: "stored bytes that the request needs are damaged or missing; the blob's other ranges may be intact"},
	{Is: database.ErrUnavailable, Code: wire.CodeUnavailable, Detail: "the database is unreachable or read-only; nothing was changed"},
	{Is: database.ErrBusy, Code: wire.CodeOverloaded, Detail: "the request waited too long for other requests in the database; nothing was changed"},
	{Is: blob.ErrCut, Code: wire.CodeOverloaded, Detail: blob.ErrCut.Error()},
	{Is: bytestore.ErrOverloaded, Code: wire.CodeOverloaded, Detail: "the storage is overloaded or unreachable"},
	{Is: bytestore.ErrNoSpace, Code: wire.CodeStorageFull, Detail: "the storage is full"},
	{Is: database.ErrNoSpace, Code: wire.CodeStorageFull, Detail: "the storage is full"},
	{Is: database.ErrLost, Code: wire.CodeLostInRollback, Detail: "it does not exist, and may have been lost when the service was set back to an earlier state"},
}

// commonRows come after an interface's own rows. They contain only errors of this module, because
// an error of another package, such as io.ErrUnexpectedEOF, does not show who caused it. The
// exceptions, context.Canceled and context.DeadlineExceeded, are last.
var commonRows = []Row{
	{Is: ErrPrecondition, Code: wire.CodePreconditionFailed},
	{Is: blob.ErrExists, Code: wire.CodePreconditionFailed},
	{Is: errRange, Code: wire.CodeRangeNotSatisfiable},

	{Is: ErrNoBlob, Code: wire.CodeBlobNotFound, Detail: ErrNoBlob.Error()},
	{Is: ErrNoUpload, Code: wire.CodeUploadNotFound, Detail: ErrNoUpload.Error()},
	{Is: ErrMethod, Code: wire.CodeMethodNotAllowed},

	{Is: ErrParameter, Code: wire.CodeBadParameter},
	{Is: headers.ErrMalformedCondition, Code: wire.CodeBadHeader},
	{Is: headers.ErrMalformedMetadata, Code: wire.CodeBadHeader},
	{Is: headers.ErrMalformedDigest, Code: wire.CodeBadDigest},
	{Is: transfer.ErrBrokenBody, Code: wire.CodeIncompleteBody, Detail: transfer.ErrBrokenBody.Error(), Closes: true},
	{Is: transfer.ErrSlowBody, Code: wire.CodeBodyTooSlow, Detail: transfer.ErrSlowBody.Error(), Closes: true},
	{Is: ErrHeader, Code: wire.CodeBadHeader},
	{Is: blob.ErrIncompleteBody, Code: wire.CodeIncompleteBody, Detail: blob.ErrIncompleteBody.Error()},
	{Is: blob.ErrDigestMismatch, Code: wire.CodeDigestMismatch},
	{Is: blob.ErrExpiryPast, Code: wire.CodeBadParameter, Detail: blob.ErrExpiryPast.Error()},
	{Is: blob.ErrKeeping, Code: wire.CodeBadRequest},
	{Is: metastore.ErrRules, Code: wire.CodeBadParameter},
	{Is: metastore.ErrLocked, Code: wire.CodeLocked},
	{Is: metastore.ErrLock, Code: wire.CodeBadParameter},
	{Is: metastore.ErrNoLocks, Code: wire.CodeBadRequest},
	{Is: metastore.ErrLocksStay, Code: wire.CodeConflict},
	{Is: blob.ErrPartIndex, Code: wire.CodePartIndex},
	{Is: blob.ErrPartSize, Code: wire.CodePartSize},
	{Is: blob.ErrPartsMissing, Code: wire.CodePartsMissing},
	{Is: blob.ErrTotals, Code: wire.CodeTotalMismatch},

	{Is: ErrNoCredential, Code: wire.CodeCredentialRequired},
	{Is: ErrBadCredential, Code: wire.CodeCredentialUnknown},
	{Is: access.ErrUnknownKey, Code: wire.CodeCredentialUnknown, Detail: "the key is unknown, has expired or was revoked"},
	{Is: access.ErrScope, Code: wire.CodeScopeMissing},
	{Is: access.ErrAccount, Code: wire.CodeAccountForbidden},
	{Is: access.ErrName, Code: wire.CodeNameForbidden},
	{Is: access.ErrBlocked, Code: wire.CodeBlocked},
	{Is: ErrOtherGroup, Code: wire.CodeAccountForbidden},
	{Is: access.ErrQuota, Code: wire.CodeQuotaExceeded},
	{Is: access.ErrRate, Code: wire.CodeRateLimited, Detail: "too many requests per second"},
	{Is: access.ErrConcurrent, Code: wire.CodeTooManyAtOnce, Detail: "too many concurrent requests"},
	{Is: ErrForeignOrigin, Code: wire.CodeForbiddenOrigin},
	{Is: ErrServiceWorker, Code: wire.CodeScriptForbidden},
	{Is: ErrForeignHost, Code: wire.CodeForeignHost},

	{Is: metastore.ErrCommitted, Code: wire.CodeUploadCommitted, Detail: "the upload was already completed"},
	{Is: blob.ErrUploadChanging, Code: wire.CodeUploadChanged},
	{Is: metastore.ErrRevisionMismatch, Code: wire.CodeUploadChanged, Detail: blob.ErrUploadChanging.Error()},
	{Is: metastore.ErrAborted, Code: wire.CodeUploadAborted, Detail: "the upload was aborted"},
	{Is: ErrBlobExpired, Code: wire.CodeBlobExpired, Detail: ErrBlobExpired.Error()},
	{Is: metastore.ErrNoSource, Code: wire.CodeBlobNotFound, Detail: ErrNoBlob.Error()}, // see BlobError

	{Is: ErrNoLength, Code: wire.CodeLengthRequired},
	{Is: blob.ErrTooLarge, Code: wire.CodeTooLarge},
	{Is: ErrBodyTooLarge, Code: wire.CodeTooLarge},
	{Is: database.ErrIdempotencyReuse, Code: wire.CodeIdempotencyReuse, Detail: "the Idempotency-Key was used for another request"},

	{Is: blob.ErrSourceChanging, Code: wire.CodeOverloaded, Detail: blob.ErrSourceChanging.Error()},
	{Is: blob.ErrPutTooLong, Code: wire.CodePutTooLong, Detail: blob.ErrPutTooLong.Error()},
	{Is: metastore.ErrStaleExtent, Code: wire.CodePutTooLong, Detail: blob.ErrPutTooLong.Error()},
	{Is: ErrTooBusy, Code: wire.CodeOverloaded, Detail: ErrTooBusy.Error()},
	{Is: ErrNotReady, Code: wire.CodeNotReady, Detail: ErrNotReady.Error()},
	{Is: ErrDraining, Code: wire.CodeDraining, Detail: ErrDraining.Error()},
	{Is: context.Canceled, Code: wire.CodeClientGone, Detail: "the client closed the connection"},
	{Is: context.DeadlineExceeded, Code: wire.CodeOverloaded, Detail: "the request took too long"},
}

// Rows of connections that are refused before any handler runs.
var (
	TooManyConnections = Row{Code: wire.CodeOverloaded, Detail: "too many connections are open"}.complete()
	TooManyFromAddress = Row{Code: wire.CodeTooManyAtOnce, Detail: "too many connections from this address are open"}.complete()
)

const internalDetail = "an internal error occurred; the log of the server has the cause under this requestId"

// InternalError is the row of errors that are in no other row.
var InternalError = Row{Code: wire.CodeInternal, Detail: internalDetail}.complete()

// statusClientGone is the status in the log if the client did not wait for the response, as in
// nginx.
var statusClientGone = wire.CodeClientGone.Row().Status

// Errors maps an interface's errors to rows.
type Errors struct {
	rows    []Row
	special func(error) (row Row, ok bool)
	explain func(row *Row, err error)
}

// NewErrors returns an interface's rows. Its own rows come after the stores' rows, and before the
// rows that interfaces share. special returns the row for an error that needs none of these, and
// explain adds an error's details to a row; both may be nil.
func NewErrors(own []Row, special func(error) (Row, bool), explain func(*Row, error)) *Errors {
	e := &Errors{rows: slices.Concat(storeRows, own, commonRows), special: special, explain: explain}
	for i := range e.rows {
		e.rows[i] = e.rows[i].complete()
	}
	return e
}

// Rows returns all rows in their order.
func (e *Errors) Rows() []Row { return slices.Clone(e.rows) }

// RowOf returns an error's row.
func (e *Errors) RowOf(err error) Row {
	if e.special != nil {
		if row, ok := e.special(err); ok {
			return row
		}
	}
	row := e.find(err)
	var quota *access.QuotaError
	if errors.As(err, &quota) {
		row.Detail = quota.Error() // without the errors around it
	}
	if e.explain != nil {
		e.explain(&row, err)
	}
	if row.Detail == "" {
		// Errors that were joined to it are for the log.
		row.Detail, _, _ = strings.Cut(err.Error(), "\n")
	}
	return row
}

// find returns the first row that matches the error.
func (e *Errors) find(err error) Row {
	var name *blob.NameError
	if errors.As(err, &name) {
		code := wire.CodeBadName
		if name.What == "account" {
			code = wire.CodeBadAccount
		}
		return Row{Code: code, Detail: name.Error()}.complete()
	}
	for _, row := range e.rows {
		if errors.Is(err, row.Is) {
			return row
		}
	}
	return InternalError
}

func allCodes() []string {
	var list []string
	for _, row := range wire.Codes {
		list = append(list, string(row.Code))
	}
	slices.Sort(list)
	return list
}

// UnsatisfiedRange is the error for a range that lies outside a blob of this size.
type UnsatisfiedRange struct{ Size int64 }

// Error includes the size, from which a client can choose another range.
func (e *UnsatisfiedRange) Error() string {
	return fmt.Sprintf("%s, whose size is %d bytes", errRange, e.Size)
}

// Unwrap returns errRange.
func (e *UnsatisfiedRange) Unwrap() error { return errRange }

// BlobError reports that a blob does not exist or has expired.
func BlobError(err error) error {
	switch {
	case errors.Is(err, database.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrNoBlob, err)
	case errors.Is(err, database.ErrExpired):
		return fmt.Errorf("%w: %w", ErrBlobExpired, err)
	default:
		return err
	}
}

// UploadError reports that an upload does not exist.
func UploadError(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNoUpload, err)
	}
	return err
}

// SetRetryAfter sets when the request may be retried, in seconds.
func (f *Fields) SetRetryAfter(row Row, cause error) {
	var rate *access.RateError
	switch {
	case errors.As(cause, &rate):
		f.Set("Retry-After", strconv.FormatInt(max(1, seconds(rate.RetryAfter)), 10))
	case row.RetryAfter > 0:
		f.Set("Retry-After", strconv.Itoa(row.RetryAfter))
	}
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Sentence turns an error's text into a sentence.
func Sentence(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[n:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
