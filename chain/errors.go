package chain

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

var (
	// ErrUnavailable means that no node answered. Whether one of them received the request is not
	// known.
	ErrUnavailable = errors.New("chain: no fullnode answered")
	// ErrWrongChain means that a node belongs to another chain. It comes with ErrUnavailable.
	ErrWrongChain = errors.New("the fullnode belongs to another chain")
	// ErrClock means that a node's time is more than a minute ahead of the clock, so that one of
	// the two is wrong. It comes with ErrUnavailable.
	ErrClock = errors.New("the fullnode is too far ahead of the clock")
)

// Error is a node's refusal of a request.
type Error struct {
	Status int    // of HTTP
	Code   string // the API's code, such as vm_error
	// VMCode is the virtual machine's status after it validated a transaction, or 0.
	VMCode  uint64
	Message string // the node's sentence, at most 300 bytes
}

// errNoTime is why a node fails if its answer needs a time and has none.
var errNoTime = errors.New("the chain's time is missing")

// maxMessage is the maximum length in bytes of Error.Message.
const maxMessage = 300

// Error returns status, code and message. The message is quoted, because the node chose it.
func (e *Error) Error() string {
	return fmt.Sprintf("the fullnode refused the request: %d %s: %s", e.Status, strconv.Quote(e.Code), strconv.Quote(e.Message))
}

// nodeError is one node's failure, after which the next node is asked.
type nodeError struct {
	err        error
	retryAfter time.Duration // the least pause that the node wants, or 0
}

func (e *nodeError) Error() string { return e.err.Error() }
func (e *nodeError) Unwrap() error { return e.err }
