package access

import (
	"errors"
	"time"

	"sluice/access/places"
)

// ErrBlocked means that the operator has blocked a blob. The error is a *BlockedError.
var ErrBlocked = errors.New("the operator has blocked this")

// BlockedError is ErrBlocked with the operator's reason, and when it was blocked.
type BlockedError struct {
	Reason string
	Since  time.Time
}

// Error returns a sentence with the reason and the time, as far as they are known.
func (e *BlockedError) Error() string {
	text := ErrBlocked.Error()
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if !e.Since.IsZero() {
		text += " (since " + e.Since.UTC().Format(time.RFC3339) + ")"
	}
	return text
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
		return &BlockedError{r.Blocked.Reason, r.Blocked.Since}
	}
	return nil
}
