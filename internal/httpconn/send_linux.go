package httpconn

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSend is how many bytes a call of sendfile sends at most. A call sends as many as fit into the
// connection's buffer, which are fewer.
const maxSend = 4 << 20

// send writes head to a connection, and then n bytes of a file from an offset on by sendfile(2). It
// returns how many bytes were written together, which are fewer if the file ends. It returns
// errors.ErrUnsupported if the file's system has no sendfile.
//
// It sends head with MSG_MORE, so that the kernel puts both into one packet.
func send(to syscall.RawConn, head []byte, file syscall.RawConn, offset, n int64) (sent int64, err error) {
	var failed, closed error
	end := int64(len(head)) + n
	err = to.Write(func(out uintptr) bool {
		for sent < end {
			var some int
			var call string
			if rest := int64(len(head)) - sent; rest > 0 {
				call = "sendmsg"
				some, failed = unix.SendmsgN(int(out), head[sent:], nil, nil, unix.MSG_MORE)
			} else {
				call = "sendfile"
				at := offset - rest
				closed = file.Control(func(in uintptr) {
					some, failed = unix.Sendfile(int(out), int(in), &at, int(min(end-sent, maxSend)))
				})
			}
			sent += int64(max(0, some))
			switch {
			case errors.Is(failed, unix.EINTR):
				failed = nil
			case errors.Is(failed, unix.EAGAIN):
				failed = nil
				return false
			case failed != nil:
				failed = explain(call, failed)
				return true
			case closed != nil || some == 0: // the file ends early
				return true
			}
		}
		return true
	})
	return sent, errors.Join(err, failed, closed)
}

func explain(call string, err error) error {
	unsupported := errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
	if call == "sendfile" && unsupported {
		return errors.ErrUnsupported
	}
	return os.NewSyscallError(call, err)
}
