package access

import (
	"errors"

	"sluice/access/places"
)

// ErrBlocked means that the operator has blocked a blob. The error is a *BlockedError.
var ErrBlocked = errors.New("the operator has blocked this")

// BlockedError is ErrBlocked with the operator's reason.
type BlockedError struct{ Reason string }

// Error returns a sentence with the reason.
func (e *BlockedError) Error() string {
	if e.Reason == "" {
		return ErrBlocked.Error()
	}
	return ErrBlocked.Error() + ": " + e.Reason
}

// Unwrap returns ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// Rule is what holds for a blob, or for all blobs at and below a prefix.
type Rule struct {
	Reads   Reads         // who may read: ReadsPublic, ReadsKey, ReadsPaid or ReadsFree
	Lists   Reads         // who may list: ReadsPublic or ReadsKey
	Blocked *places.Block // nil: it is not blocked; otherwise reads are refused
}

// Unblocked returns a *BlockedError if the rule blocks reads.
func (r Rule) Unblocked() error {
	if r.Blocked != nil {
		return &BlockedError{r.Blocked.Reason}
	}
	return nil
}
