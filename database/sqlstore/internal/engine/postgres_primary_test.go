package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestPostgresSlowConnectionIsKept: a connection that took long to open is used when its server is
// accepted as the primary, the first one or a newer one. Another that still waits is given up, at
// once if it leads elsewhere.
func TestPostgresSlowConnectionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newSessions()
		open := func(address string) (*session, net.Conn) {
			client, server := net.Pipe()
			testenv.AtEnd(t, server.Close)
			s := &session{all: all}
			conn, err := all.dial(t.Context(), s, address, func(context.Context) (net.Conn, error) { return client, nil })
			testenv.OK(t, err)
			return s, conn
		}
		for timeline := range uint32(2) {
			slow, kept := open("a")
			_, other := open("a")
			time.Sleep(2 * stuckConnect)
			_, young := open("a")
			_, elsewhere := open("b")
			testenv.OK(t, all.accept(slow, server{cluster: "1", timeline: timeline + 1, address: "a"}))
			testenv.OK(t, errors.Join(kept.SetDeadline(time.Time{}), young.SetDeadline(time.Time{})))
			testenv.Is(t, other.SetDeadline(time.Time{}), io.ErrClosedPipe, "a connection that still waits")
			testenv.Is(t, elsewhere.SetDeadline(time.Time{}), io.ErrClosedPipe, "a connection to another server")
			testenv.OK(t, errors.Join(other.Close(), young.Close(), elsewhere.Close()))
		}
	})
}
