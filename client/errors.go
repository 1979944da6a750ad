package client

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/wire"
)

// Classes of errors. An error that the server reported belongs to the class of its status, and to
// ErrOutcomeUnknown by its code; use errors.Is.
var (
	ErrInvalid            = errors.New("the request is invalid")              // 400, 428
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
	ErrBlocked            = errors.New("the operator has blocked the blob")   // 451

	// ErrOutcomeUnknown is returned if a request may or may not have taken effect: its response was
	// lost, or the server does not know.
	ErrOutcomeUnknown = errors.New("it is unknown whether the request took effect")

	// ErrCorrupt is returned if bytes do not match their blob's ETag or digest.
	ErrCorrupt = errors.New("the bytes do not match their checksum")

	// ErrTooLarge is returned if a content has more bytes than a blob can have, or too many parts.
	// For the latter, PutOptions.PartSize helps, or Size for a stream. It is also ErrInvalid.
	ErrTooLarge = fmt.Errorf("the content is too large: %w", ErrInvalid)

	// ErrBusy is returned if another transfer of the same file is in progress.
	ErrBusy = errors.New("another transfer of it is in progress")

	// ErrBudget is returned if a purchase would exceed a limit of PayerOptions. Nothing was signed,
	// or the service has accepted nothing, because its price has risen meanwhile.
	ErrBudget = errors.New("the budget of the payer does not permit it")

	// ErrChanged is returned if a blob or a file was replaced while it was transferred.
	ErrChanged = errors.New("it was changed during the transfer")
)

// Error is an error that the server reported, with the response's fields. Texts that are longer
// than a service's are shortened.
type Error struct {
	Status    int       // HTTP status
	Code      wire.Code // stable; "" if the response came from something else than the service
	Detail    string    // a sentence for people; a HEAD's is made of the code
	RequestID string
	Retryable bool // reports whether the server permits to repeat the request

	// Details of payments: amounts are in asset units, or in chunksets if there are too few.
	Reason             string
	Required           string
	Available          string
	ChunksetPrice      string
	StoredMicropayment []byte // the accepted one, if another was stale

	// If a payment would exceed the channel's selling limit: the limit, the unsettled amount, and
	// how much of that can be collected only after a renewal. They are "" otherwise.
	Limit     string
	Unsettled string
	Expired   string

	// For a micropayment that was refused because of its gas: the least maximum gas, and the least
	// and the greatest gas price that are accepted. They are "" otherwise, or if any is accepted.
	MinGas      string
	MinGasPrice string
	MaxGasPrice string

	// The channel, session or upload that a request with an unknown outcome may have created.
	ChannelID string
	SessionID string
	UploadID  string

	// Restart is, with wire.CodeChangesGone, the position after which changes can be followed.
	Restart string

	// RetryAfter is how long the server asked to wait before the request is repeated, up to 68
	// years. 0: it did not. The client has not waited if it is more than Options.MaxRetryAfter.
	RetryAfter time.Duration
}

// Error returns the sentence, the status and the request's id.
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
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", to be repeated after %v", e.RetryAfter.Round(time.Second))
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, ", request %s", e.RequestID)
	}
	return b.String() + ")"
}

// Is reports whether the error belongs to the class target. That a blob does not exist, or has
// expired, is also fs.ErrNotExist.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrOutcomeUnknown:
		return e.Code == wire.CodeOutcomeUnknown
	case ErrBudget:
		return e.Code == wire.CodePriceChanged
	case fs.ErrNotExist:
		return hasEnded(e, wire.EndedBlob)
	}
	class := classes[e.Status]
	return class != nil && class == target
}

// hasEnded reports whether err means that such a thing does not exist or has ended.
func hasEnded(err error, kind wire.Ended) bool {
	e, reported := errors.AsType[*Error](err)
	return reported && e.Code.Row().Ended&kind != 0
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
	http.StatusPreconditionRequired:         ErrInvalid,
	http.StatusRequestedRangeNotSatisfiable: ErrRangeInvalid,
	http.StatusTooManyRequests:              ErrRateLimited,
	http.StatusBadGateway:                   ErrUnavailable,
	http.StatusServiceUnavailable:           ErrUnavailable,
	http.StatusGatewayTimeout:               ErrUnavailable,
	http.StatusInsufficientStorage:          ErrStorageFull,
	http.StatusUnavailableForLegalReasons:   ErrBlocked,
}

// maxErrorBody bounds how many bytes of an error's body are read.
const maxErrorBody = 64 << 10

// newError returns the error in a host's response and closes its body.
func newError(r *http.Response, host string) *Error {
	defer func() { _ = r.Body.Close() }() // the response is an error already
	e := &Error{
		Status:     r.StatusCode,
		RequestID:  shorten(r.Header.Get(wire.HeaderRequestID), maxID),
		RetryAfter: parseRetryAfter(r.Header.Get("Retry-After")),
	}
	var p wire.Problem
	body, err := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/problem+json") {
		err = cmp.Or(checkJSON(body), json.Unmarshal(body, &p))
	}
	if err != nil || p.Code == "" || checkWord("code", p.Code, maxWord) != nil {
		code := r.Header.Get(wire.HeaderErrorCode)
		if head := r.Request != nil && r.Request.Method == http.MethodHead; head && code != "" && checkWord("code", code, maxWord) == nil {
			e.Code, e.Detail, e.Retryable = wire.Code(code), sentenceOf(code), e.RetryAfter > 0
			return e
		}
		// Something else than a service has responded, such as a proxy.
		e.Detail = fmt.Sprintf("%s responded %d %s", host, r.StatusCode, http.StatusText(r.StatusCode))
		if location := r.Header.Get("Location"); location != "" {
			e.Detail += fmt.Sprintf(" with a redirect to %q, which is not followed", shorten(location, maxWord))
		}
		return e
	}
	e.Code, e.Detail, e.RequestID = wire.Code(p.Code), shorten(p.Detail, maxSentence), shorten(p.RequestID, maxID)
	e.Retryable = p.Retryable != nil && *p.Retryable
	e.Reason, e.Required, e.Available, e.ChunksetPrice = shorten(p.Reason, maxWord), shorten(p.Required, maxWord), shorten(p.Available, maxWord), shorten(p.ChunksetPrice, maxWord)
	e.Limit, e.Unsettled, e.Expired = shorten(p.Limit, maxWord), shorten(p.Unsettled, maxWord), shorten(p.Expired, maxWord)
	e.MinGas, e.MinGasPrice, e.MaxGasPrice = shorten(p.MinGas, maxWord), shorten(p.MinGasPrice, maxWord), shorten(p.MaxGasPrice, maxWord)
	e.StoredMicropayment, _ = base64.StdEncoding.DecodeString(p.StoredMicropayment) // malformed, it proves nothing
	e.Restart = shorten(p.Restart, maxID)
	e.ChannelID, e.SessionID, e.UploadID = shorten(p.ChannelID, maxID), shorten(p.SessionID, maxID), shorten(p.UploadID, maxID)
	return e
}

// sentenceOf returns an error code's words: "Blob not found." for "blob_not_found".
func sentenceOf(code string) string {
	words := strings.ReplaceAll(code, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:] + "."
}

// shorten returns at most the given number of bytes of a text, and a sign that there were more.
func shorten(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}

// maxRetryAfter bounds Error.RetryAfter.
const maxRetryAfter = maxRetrySeconds * time.Second

// parseRetryAfter returns the delay in a Retry-After header, which is in seconds or a date (RFC
// 9110, section 10.2.3), and 0 if there is none.
func parseRetryAfter(s string) time.Duration {
	if seconds, err := strconv.ParseUint(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, maxRetrySeconds)) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return min(max(0, time.Until(at)), maxRetryAfter)
	}
	return 0
}

// localError is an error that is not due to the network or the server: the request could not be
// made, or its content not be read.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }
