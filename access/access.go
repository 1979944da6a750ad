// Package access decides which operations a caller may do, and within which limits. It holds API
// keys with their grants, and enforces the limits of groups of keys and of client
// addresses.
//
// A request passes through it as follows. An Authenticator resolves the request's credential to a
// Caller. Caller.Allows decides whether the key permits an operation on a blob. A Limiter
// returns the Allowance that the caller shares, on this node, with all requests from the same group
// of keys, or from the same address if there is no key. The request enters the Allowance (request
// rate and concurrency), is paced by it (bytes per second) and reserves the bytes and objects that
// it stores (quotas).
package access

import "errors"

// Errors. They are wrapped; compare them with errors.Is. The store's errors are returned as they
// are, or wrapped.
var (
	// ErrInvalidKey means that a key's description is invalid.
	ErrInvalidKey = errors.New("the key is invalid")
	// ErrInvalidLimit means that a limit is neither above 0 nor a special value.
	ErrInvalidLimit = errors.New("the limits cannot be set")
	// ErrUnknownKey means that a credential is malformed, or that its key is unknown, has another
	// secret, has expired or was revoked. Its text does not reveal which.
	ErrUnknownKey = errors.New("the key is not known, has expired or was revoked")
	// ErrScope means that the key lacks the scope.
	ErrScope = errors.New("the key lacks the scope")
	// ErrAccount means that the key is not valid for the account.
	ErrAccount = errors.New("the key is not for this account")
	// ErrName means that the key is not valid for the blob's name, or for a list with this prefix.
	ErrName = errors.New("the key is not for this name")
	// ErrConcurrent means that the limit of concurrent requests is reached.
	ErrConcurrent = errors.New("too many concurrent requests")
	// ErrRate means that the request rate is exceeded. The error is a *RateError.
	ErrRate = errors.New("too many requests")
	// ErrQuota means that a write would exceed a quota. The error is a *QuotaError.
	ErrQuota = errors.New("the quota is exceeded")
)
