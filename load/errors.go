package load

import (
	"cmp"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"

	"sluice/client"
)

// Codes for errors without a response.
const (
	codeTimeout    = "timeout"
	codeRefused    = "connection_refused"
	codeClosed     = "connection_closed"
	codeMalformed  = "malformed_response"
	codeUnexpected = "unexpected_response"
	codeNetwork    = "network"
)

var (
	errMalformed  = errors.New("the response is malformed")
	errUnexpected = errors.New("the response has another status or length than expected")
)

// codeOf returns an error's code: the response's code, its status if it has no code, or the
// connection's failure.
func codeOf(err error) string {
	if response, ok := errors.AsType[*client.Error](err); ok {
		return cmp.Or(string(response.Code), strconv.Itoa(response.Status))
	}
	network, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errMalformed):
		return codeMalformed
	case errors.Is(err, errUnexpected):
		return codeUnexpected
	case ok && network.Timeout():
		return codeTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return codeRefused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return codeClosed
	default:
		return codeNetwork
	}
}
