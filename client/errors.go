package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/wire"
)

// Classes of errors. An error that the server reported belongs to the class of its status, and to
// ErrOutcomeUnknown by its code; use errors.Is.
var (
	ErrInvalid            = errors.New("the request is invalid")              // 400
	ErrUnauthorized       = errors.New("the key is missing or unknown")       // 401
	ErrPaymentRequired    = errors.New("the request is not paid for")         // 402
	ErrForbidden          = errors.New("the key does not permit the request") // 403
	ErrNotFound           = errors.New("it does not exist")                   // 404
	ErrConflict           = errors.New("the state does not permit it")        // 409
	ErrGone               = errors.New("it has expired or was closed")        // 410
	ErrPreconditionFailed = errors.New("a condition does not hold")           // 412
	ErrNotModified        = errors.New("it was not modified")                 // 304
	ErrRangeInvalid       = errors.New("the range is beyond the end")         // 416
	ErrRateLimited        = errors.New("the rate limit is exceeded")          // 429
	ErrUnavailable        = errors.New("the service is unavailable")          // 502, 503, 504
	ErrStorageFull        = errors.New("the storage is full")                 // 507

	// ErrOutcomeUnknown is returned if a request may or may not have taken effect: its response was
	// lost, or the server does not know.
	ErrOutcomeUnknown = errors.New("it is unknown whether the request took effect")

	// ErrCorrupt is returned if bytes do not match the ETag or digest of their blob.
	ErrCorrupt = errors.New("the bytes do not match their checksum")

	// ErrBusy is returned if another transfer of the same file is in progress.
	ErrBusy = errors.New("another transfer of it is in progress")

	// ErrChanged is returned if a blob or a file was replaced while it was transferred.
	ErrChanged = errors.New("it was changed during the transfer")
)

// Error is an error that the server reported. Its fields are those of the response.
type Error struct {
	Status    int       // of the response
	Code      wire.Code // stable; "" if the response came from something else than the service
	Detail    string    // a sentence for people
	RequestID string
	Retryable bool // reports whether the server permits to repeat the request

	// Details of payments: amounts are in units of the asset, or in chunksets if there are too few.
	Reason             string
	Required           string
	Available          string
	ChunksetPrice      string
	StoredMicropayment []byte // of a stale micropayment: the accepted one

	// The id of what a request with an unknown outcome may have created.
	ChannelID string
	SessionID string
	UploadID  string

	retryAfter time.Duration // 0: the response had none
}

// Error returns the sentence, the status and the id of the request.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(e.Detail, "."))
	fmt.Fprintf(&b, " (%d", e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ", reason %s", e.Reason)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, ", request %s", e.RequestID)
	}
	return b.String() + ")"
}

// Is reports whether the error belongs to the class target.
func (e *Error) Is(target error) bool {
	if target == ErrOutcomeUnknown {
		return e.Code == wire.CodeOutcomeUnknown
	}
	class := classes[e.Status]
	return class != nil && class == target
}

var classes = map[int]error{
	http.StatusNotModified:                  ErrNotModified,
	http.StatusBadRequest:                   ErrInvalid,
	http.StatusUnauthorized:                 ErrUnauthorized,
	http.StatusPaymentRequired:              ErrPaymentRequired,
	http.StatusForbidden:                    ErrForbidden,
	http.StatusNotFound:                     ErrNotFound,
	http.StatusConflict:                     ErrConflict,
	http.StatusGone:                         ErrGone,
	http.StatusPreconditionFailed:           ErrPreconditionFailed,
	http.StatusRequestedRangeNotSatisfiable: ErrRangeInvalid,
	http.StatusTooManyRequests:              ErrRateLimited,
	http.StatusBadGateway:                   ErrUnavailable,
	http.StatusServiceUnavailable:           ErrUnavailable,
	http.StatusGatewayTimeout:               ErrUnavailable,
	http.StatusInsufficientStorage:          ErrStorageFull,
}

// maxErrorBody bounds what is read of the body of an error, in bytes.
const maxErrorBody = 64 << 10

// newError returns the error of a response and closes its body.
func newError(r *http.Response) *Error {
	defer func() { _ = r.Body.Close() }() // the response is an error already
	e := &Error{
		Status:     r.StatusCode,
		RequestID:  r.Header.Get(wire.HeaderRequestID),
		retryAfter: parseRetryAfter(r.Header.Get("Retry-After")),
	}
	var p wire.Problem
	body, err := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/problem+json") {
		err = json.Unmarshal(body, &p)
	}
	if err != nil || p.Code == "" { // a HEAD, a proxy, or a body that was cut
		e.Detail = fmt.Sprintf("%s responded %s", r.Request.URL.Host, r.Status)
		if location := r.Header.Get("Location"); location != "" {
			e.Detail += fmt.Sprintf(" with a redirect to %q, which is not followed", location)
		}
		return e
	}
	e.Code, e.Detail, e.RequestID = wire.Code(p.Code), p.Detail, p.RequestID
	e.Retryable = p.Retryable != nil && *p.Retryable
	e.Reason, e.Required, e.Available, e.ChunksetPrice = p.Reason, p.Required, p.Available, p.ChunksetPrice
	e.StoredMicropayment, _ = base64.StdEncoding.DecodeString(p.StoredMicropayment) // nil if malformed: it proves nothing
	e.ChannelID, e.SessionID, e.UploadID = p.ChannelID, p.SessionID, p.UploadID
	return e
}

// parseRetryAfter returns the delay of a Retry-After header in seconds or as a date (RFC 9110,
// section 10.2.3), and 0 if there is none.
func parseRetryAfter(s string) time.Duration {
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// localError is an error that is not due to the network or the server: the request could not be made, or
// its content not be read.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }
