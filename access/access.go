// Package access holds the rules for who may do what, and how much of it: API
// keys with their scopes and accounts, and the limits of those who hold them
// and of anonymous addresses.
//
// Keys finds out whose key a credential is. A Limiter gives everybody the
// Allowance that he shares with all requests of his group of keys, or of his
// address, on this node.
package access

import "errors"

// Errors of this package. They arrive wrapped; compare with errors.Is. Errors
// of the store pass through beside them.
var (
	// ErrInvalidKey: a key cannot be made as it was described.
	ErrInvalidKey = errors.New("the key cannot be made")
	// ErrUnknownKey: the credential is malformed, or its key is unknown, has
	// another secret, has expired or was revoked. Which of these is not told.
	ErrUnknownKey = errors.New("the key is not known, has expired or was revoked")
	// ErrScope: the key lacks the scope.
	ErrScope = errors.New("the key lacks the scope")
	// ErrAccount: the key is not for the account.
	ErrAccount = errors.New("the key is not for this account")
	// ErrConcurrent: as many requests are at work as may be at once.
	ErrConcurrent = errors.New("too many requests at once")
	// ErrRate: more requests came than the rate allows. It arrives as a
	// *RateError.
	ErrRate = errors.New("too many requests")
	// ErrQuota: what is stored would exceed the quota. It arrives as a
	// *QuotaError.
	ErrQuota = errors.New("the quota is exceeded")
)
