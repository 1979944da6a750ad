//go:build !linux

package httpconn

import (
	"errors"
	"syscall"
)

func send(_ syscall.RawConn, _ []byte, _ syscall.RawConn, _, _ int64) (int64, error) {
	return 0, errors.ErrUnsupported
}
