package wire

// Problem is the body of an error (RFC 9457) with the media type application/problem+json. Error
// repeats Detail, for the public client.
type Problem struct {
	Type      string `json:"type"` // "urn:sluice:error:" and the code
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Error     string `json:"error"`
	Code      string `json:"code"`
	RequestID string `json:"requestId"`
	Retryable *bool  `json:"retryable,omitempty"`

	// Details for a payer. Required and Available are in units of the asset, or in chunksets
	// if there are too few of them.
	Reason             string `json:"reason,omitempty"`
	Required           string `json:"required,omitempty"`
	Available          string `json:"available,omitempty"`
	ChunksetPrice      string `json:"chunksetPrice,omitempty"`
	StoredMicropayment string `json:"storedMicropayment,omitempty"`

	// Of CodeUnsettledLimit: the selling limit of the channel, what is unsettled, and the part of it that is collected
	// only after a renewal.
	Limit     string `json:"limit,omitempty"`
	Unsettled string `json:"unsettled,omitempty"`
	Expired   string `json:"expired,omitempty"`

	// Of a micropayment that was refused for its gas: what is accepted.
	MinGas      string `json:"minGas,omitempty"`
	MinGasPrice string `json:"minGasPrice,omitempty"`
	MaxGasPrice string `json:"maxGasPrice,omitempty"`

	// The id of what a request with an unknown outcome may have created.
	ChannelID string `json:"channelId,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
	UploadID  string `json:"uploadId,omitempty"`
}

// Code identifies an error. Codes are stable.
type Code string

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
	CodePaymentRequired       Code = "payment_required"
	CodeCredentialRequired    Code = "credential_required"
	CodeCredentialUnknown     Code = "credential_unknown"
	CodeScopeMissing          Code = "scope_missing"
	CodeAccountForbidden      Code = "account_forbidden"
	CodeQuotaExceeded         Code = "quota_exceeded"
	CodeForbiddenOrigin       Code = "forbidden_origin"
	CodeScriptForbidden       Code = "script_forbidden"
	CodeRateLimited           Code = "rate_limited"
	CodeTooManyAtOnce         Code = "too_many_at_once"
	CodeRouteNotFound         Code = "route_not_found"
	CodeBlobNotFound          Code = "blob_not_found"
	CodeUploadNotFound        Code = "upload_not_found"
	CodeSessionNotFound       Code = "session_not_found"
	CodeChannelNotFound       Code = "channel_not_found"
	CodeMethodNotAllowed      Code = "method_not_allowed"
	CodeBodyTooSlow           Code = "body_too_slow"
	CodeUploadCommitted       Code = "upload_committed"
	CodeUploadChanged         Code = "upload_changed"
	CodeChannelExists         Code = "channel_exists"
	CodeMicropaymentStale     Code = "micropayment_stale"
	CodeBlobExpired           Code = "blob_expired"
	CodeUploadAborted         Code = "upload_aborted"
	CodeSessionExpired        Code = "session_expired"
	CodeChannelClosed         Code = "channel_closed"
	CodeChannelExpired        Code = "channel_expired"
	CodeChannelStopped        Code = "channel_stopped"
	CodeDepositOnChain        Code = "deposit_on_chain"
	CodeLengthRequired        Code = "length_required"
	CodePreconditionFailed    Code = "precondition_failed"
	CodeTooLarge              Code = "too_large"
	CodeContentEncoding       Code = "content_encoding"
	CodeRangeNotSatisfiable   Code = "range_not_satisfiable"
	CodeForeignHost           Code = "foreign_host"
	CodeIdempotencyReuse      Code = "idempotency_key_reused"
	CodeClientGone            Code = "client_gone"
	CodeInternal              Code = "internal"
	CodeDraining              Code = "draining"
	CodeOverloaded            Code = "overloaded"
	CodeUnavailable           Code = "unavailable"
	CodeOutcomeUnknown        Code = "outcome_unknown"
	CodePutTooLong            Code = "put_too_long"
	CodeNotReady              Code = "not_ready"
	CodeStorageFull           Code = "storage_full"

	// CodeFaultInjected is the code of a fault that was requested of a local instance.
	CodeFaultInjected Code = "fault_injected"
)
