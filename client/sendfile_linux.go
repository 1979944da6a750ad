package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// useSendFile makes a transport send files without copying their bytes into the process. It has no
// effect on TLS connections: their bytes are encrypted here.
func useSendFile(t *http.Transport) {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			return &fileConn{tcp}, err
		}
		return c, err
	}
}

// fileConn is a connection that sends the bytes of files by sendfile(2).
type fileConn struct{ *net.TCPConn }

// net/http calls ReadFrom with the rest of a request's body, after one buffer.
func (c *fileConn) ReadFrom(r io.Reader) (int64, error) {
	limited, isLimited := r.(*io.LimitedReader)
	if !isLimited {
		return c.TCPConn.ReadFrom(r)
	}
	source, isSource := limited.R.(*watchedSource)
	if !isSource {
		return c.TCPConn.ReadFrom(r)
	}
	sent, err := c.sendFile(source, limited.N)
	limited.N -= sent
	if errors.Is(err, errors.ErrUnsupported) {
		copied, err := c.TCPConn.ReadFrom(r)
		return sent + copied, err
	}
	return sent, err
}

// maxSendFile is how many bytes a call of sendfile sends at most. A call sends as many as fit into
// the connection's buffer, which are fewer.
const maxSendFile = 1 << 20

// sendFile sends up to n bytes from a request's body. It returns errors.ErrUnsupported if they are
// not in a file, or if its file system does not support sendfile.
func (c *fileConn) sendFile(s *watchedSource, n int64) (sent int64, err error) {
	body, isSent := s.Reader.(*sentBody)
	if !isSent || s.limit != nil { // a call sends as much as fits into the connection's buffer
		return 0, errors.ErrUnsupported
	}
	file, _ := body.file()
	if file == nil {
		return 0, errors.ErrUnsupported
	}
	from, err := file.SyscallConn()
	if err != nil {
		return 0, errors.ErrUnsupported
	}
	to, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	for sent < n {
		_, offset := body.file()
		k, err := sendSome(to, from, offset, int(min(n-sent, maxSendFile)))
		switch {
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP):
			return sent, errors.ErrUnsupported
		case err != nil:
			return sent, err
		case k == 0:
			return sent, &localError{endedEarly(io.EOF)}
		}
		sent += int64(k)
		body.advance(int64(k))
		s.w.source(true) // something was sent
	}
	return sent, nil
}

// sendSome waits until the connection accepts bytes, and sends up to n bytes from the file's offset
// on.
func sendSome(to, from syscall.RawConn, offset int64, n int) (sent int, err error) {
	var sendErr, fileErr error
	err = to.Write(func(out uintptr) bool {
		fileErr = from.Control(func(in uintptr) {
			sendErr = unix.EINTR
			for errors.Is(sendErr, unix.EINTR) {
				sent, sendErr = unix.Sendfile(int(out), int(in), &offset, n)
			}
		})
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	if err = errors.Join(err, fileErr); err == nil && sendErr != nil {
		err = os.NewSyscallError("sendfile", sendErr)
	}
	return max(0, sent), err
}
