package wire

// Code identifies an error. Codes are stable.
type Code string

// CodeRow describes all responses with a code.
type CodeRow struct {
	Code    Code
	Status  int  // the response's; 0: any
	Payment bool // the status is 402 if the code is about a read's means of payment
	Retry   Retry
	Ended   Ended // the kinds of things that the code may report as missing or ended
}

// Ended is a set of kinds of things that a request names.
type Ended uint

// The elements of Ended.
const (
	EndedBlob Ended = 1 << iota
	EndedUpload
	EndedSession
	EndedChannel
)

// Retry is whether a client may send the same request again.
type Retry int

// The kinds of Retry.
const (
	RetryNever  Retry = iota // the service would refuse it again
	RetryLater               // after the seconds that Retry-After names
	RetryIfSaid              // if Problem.Retryable is true
)

// The codes. docs/protocol.md describes when each is sent.
const (
	CodeBadRequest            Code = "bad_request"
	CodeBadAccount            Code = "bad_account"
	CodeBadName               Code = "bad_name"
	CodeBadJSON               Code = "bad_json"
	CodeBadParameter          Code = "bad_parameter"
	CodeBadHeader             Code = "bad_header"
	CodeBadDigest             Code = "bad_digest"
	CodeDigestMismatch        Code = "digest_mismatch"
	CodeDigestNotSupported    Code = "digest_not_supported"
	CodeNumberTooLarge        Code = "number_too_large"
	CodeIncompleteBody        Code = "incomplete_body"
	CodePartSize              Code = "part_size"
	CodePartIndex             Code = "part_index"
	CodePartsMissing          Code = "parts_missing"
	CodeTotalMismatch         Code = "total_mismatch"
	CodeMicropaymentMalformed Code = "micropayment_malformed"
	CodeMicropaymentRefused   Code = "micropayment_refused"
	CodeInsufficientFunds     Code = "insufficient_funds"
	CodeUnsettledLimit        Code = "unsettled_limit"
	CodeNothingExpired        Code = "nothing_expired"
	CodeChargeAboveLimit      Code = "charge_above_limit"
	CodeNoChunksetsLeft       Code = "no_chunksets_left"
	CodePriceChanged          Code = "price_changed"
	CodePaymentRequired       Code = "payment_required"
	CodeCredentialRequired    Code = "credential_required"
	CodeCredentialUnknown     Code = "credential_unknown"
	CodeLinkExpired           Code = "link_expired"
	CodeLinkForbidden         Code = "link_forbidden"
	CodeScopeMissing          Code = "scope_missing"
	CodeAccountForbidden      Code = "account_forbidden"
	CodeNameForbidden         Code = "name_forbidden"
	CodeBeyondKey             Code = "beyond_key"
	CodeQuotaExceeded         Code = "quota_exceeded"
	CodeForbiddenOrigin       Code = "forbidden_origin"
	CodeScriptForbidden       Code = "script_forbidden"
	CodeRateLimited           Code = "rate_limited"
	CodeTooManyAtOnce         Code = "too_many_at_once"
	CodeRouteNotFound         Code = "route_not_found"
	CodeNotFound              Code = "not_found"
	CodeBlobNotFound          Code = "blob_not_found"
	CodeUploadNotFound        Code = "upload_not_found"
	CodeSessionNotFound       Code = "session_not_found"
	CodeChannelNotFound       Code = "channel_not_found"
	CodeMethodNotAllowed      Code = "method_not_allowed"
	CodeBodyTooSlow           Code = "body_too_slow"
	CodeUploadCommitted       Code = "upload_committed"
	CodeUploadChanged         Code = "upload_changed"
	CodeChannelExists         Code = "channel_exists"
	CodeConflict              Code = "conflict"
	CodeLastAdminKey          Code = "last_admin_key"
	CodeMicropaymentStale     Code = "micropayment_stale"
	CodeBlobExpired           Code = "blob_expired"
	CodeChangesGone           Code = "changes_gone"
	CodeUploadAborted         Code = "upload_aborted"
	CodeSessionExpired        Code = "session_expired"
	CodeChannelClosed         Code = "channel_closed"
	CodeChannelExpired        Code = "channel_expired"
	CodeChannelStopped        Code = "channel_stopped"
	CodeDepositOnChain        Code = "deposit_on_chain"
	CodeLengthRequired        Code = "length_required"
	CodePreconditionFailed    Code = "precondition_failed"
	CodePreconditionRequired  Code = "precondition_required"
	CodeTooLarge              Code = "too_large"
	CodeContentEncoding       Code = "content_encoding"
	CodeRangeNotSatisfiable   Code = "range_not_satisfiable"
	CodeForeignHost           Code = "foreign_host"
	CodeIdempotencyReuse      Code = "idempotency_key_reused"
	CodeBlocked               Code = "blocked"
	CodeLocked                Code = "locked"
	CodeOpeningForbidden      Code = "opening_forbidden"
	CodeClientGone            Code = "client_gone"
	CodeDamaged               Code = "damaged"
	CodeInternal              Code = "internal"
	CodeDraining              Code = "draining"
	CodeOverloaded            Code = "overloaded"
	CodeUnavailable           Code = "unavailable"
	CodeOutcomeUnknown        Code = "outcome_unknown"
	CodePutTooLong            Code = "put_too_long"
	CodeNotReady              Code = "not_ready"
	CodeRolledBack            Code = "rolled_back"
	CodeLostInRollback        Code = "lost_in_rollback"
	CodeStorageFull           Code = "storage_full"

	// CodeFaultInjected is the code of a fault that was requested of a local instance.
	CodeFaultInjected Code = "fault_injected"
)

// Codes has a row for each code. Statuses, retries, the Go client's classes of errors, the exit
// codes of commands and the labels of metrics derive from it.
var Codes = []CodeRow{
	{Code: CodeBadRequest, Status: 400},
	{Code: CodeBadAccount, Status: 400},
	{Code: CodeBadName, Status: 400},
	{Code: CodeBadJSON, Status: 400},
	{Code: CodeBadParameter, Status: 400},
	{Code: CodeBadHeader, Status: 400},
	{Code: CodeBadDigest, Status: 400},
	{Code: CodeDigestMismatch, Status: 400},
	{Code: CodeDigestNotSupported, Status: 400},
	{Code: CodeNumberTooLarge, Status: 400},
	{Code: CodeIncompleteBody, Status: 400},
	{Code: CodePartSize, Status: 400},
	{Code: CodePartIndex, Status: 400},
	{Code: CodePartsMissing, Status: 400},
	{Code: CodeTotalMismatch, Status: 400},
	{Code: CodeMicropaymentMalformed, Status: 400},
	{Code: CodeMicropaymentRefused, Status: 402},
	{Code: CodeInsufficientFunds, Status: 402},
	{Code: CodeUnsettledLimit, Status: 402},
	{Code: CodeNothingExpired, Status: 409},
	{Code: CodeChargeAboveLimit, Status: 402},
	{Code: CodeNoChunksetsLeft, Status: 402},
	{Code: CodePriceChanged, Status: 402},
	{Code: CodePaymentRequired, Status: 402},
	{Code: CodeCredentialRequired, Status: 401},
	{Code: CodeCredentialUnknown, Status: 401},
	{Code: CodeLinkExpired, Status: 401},
	{Code: CodeLinkForbidden, Status: 403},
	{Code: CodeScopeMissing, Status: 403},
	{Code: CodeAccountForbidden, Status: 403},
	{Code: CodeNameForbidden, Status: 403},
	{Code: CodeBeyondKey, Status: 403},
	{Code: CodeQuotaExceeded, Status: 403},
	{Code: CodeForbiddenOrigin, Status: 403},
	{Code: CodeScriptForbidden, Status: 403},
	{Code: CodeRateLimited, Status: 429, Retry: RetryLater},
	{Code: CodeTooManyAtOnce, Status: 429, Retry: RetryLater},
	{Code: CodeRouteNotFound, Status: 404},
	{Code: CodeNotFound, Status: 404},
	{Code: CodeBlobNotFound, Status: 404, Ended: EndedBlob},
	{Code: CodeUploadNotFound, Status: 404, Ended: EndedUpload},
	{Code: CodeSessionNotFound, Status: 404, Payment: true, Ended: EndedSession},
	{Code: CodeChannelNotFound, Status: 404, Payment: true, Ended: EndedChannel},
	{Code: CodeMethodNotAllowed, Status: 405},
	{Code: CodeBodyTooSlow, Status: 408},
	{Code: CodeUploadCommitted, Status: 409, Ended: EndedUpload},
	{Code: CodeUploadChanged, Status: 409, Retry: RetryLater},
	{Code: CodeChannelExists, Status: 409},
	{Code: CodeConflict, Status: 409},
	{Code: CodeLastAdminKey, Status: 409},
	{Code: CodeMicropaymentStale, Status: 409},
	{Code: CodeBlobExpired, Status: 410, Ended: EndedBlob},
	{Code: CodeChangesGone, Status: 410},
	{Code: CodeUploadAborted, Status: 410, Ended: EndedUpload},
	{Code: CodeSessionExpired, Status: 410, Payment: true, Ended: EndedSession},
	{Code: CodeChannelClosed, Status: 410, Payment: true, Ended: EndedChannel},
	{Code: CodeChannelExpired, Status: 410, Payment: true, Ended: EndedChannel},
	{Code: CodeChannelStopped, Status: 402},
	{Code: CodeDepositOnChain, Status: 409},
	{Code: CodeLengthRequired, Status: 411},
	{Code: CodePreconditionFailed, Status: 412},
	{Code: CodePreconditionRequired, Status: 428},
	{Code: CodeTooLarge, Status: 413},
	{Code: CodeContentEncoding, Status: 415},
	{Code: CodeRangeNotSatisfiable, Status: 416},
	{Code: CodeForeignHost, Status: 421},
	{Code: CodeIdempotencyReuse, Status: 422},
	{Code: CodeBlocked, Status: 451},
	{Code: CodeLocked, Status: 403},
	{Code: CodeOpeningForbidden, Status: 403},
	{Code: CodeClientGone, Status: 499},
	{Code: CodeDamaged, Status: 500},
	{Code: CodeInternal, Status: 500},
	{Code: CodeDraining, Status: 503, Retry: RetryLater},
	{Code: CodeOverloaded, Status: 503, Retry: RetryLater},
	{Code: CodeUnavailable, Status: 503, Retry: RetryLater},
	{Code: CodeOutcomeUnknown, Status: 503, Retry: RetryIfSaid},
	{Code: CodePutTooLong, Status: 503},
	{Code: CodeNotReady, Status: 503, Retry: RetryLater},
	{Code: CodeLostInRollback, Status: 410, Payment: true, Ended: EndedUpload | EndedSession | EndedChannel},
	{Code: CodeRolledBack, Status: 503, Retry: RetryLater},
	{Code: CodeStorageFull, Status: 507},
	{Code: CodeFaultInjected, Retry: RetryIfSaid},
}

// Row returns the row of a code, or a row with this code and no status if it is unknown.
func (c Code) Row() CodeRow {
	for _, row := range Codes {
		if row.Code == c {
			return row
		}
	}
	return CodeRow{Code: c}
}
