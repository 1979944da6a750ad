package engine

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestPostgresSlowConnectionIsKept: a connection that took long to open is used when its server is
// accepted as the primary, the first one or a newer one. Another that still waits is given up.
func TestPostgresSlowConnectionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newSessions()
		open := func() (*session, net.Conn) {
			client, server := net.Pipe()
			testenv.AtEnd(t, server.Close)
			s := &session{all: all}
			conn, err := all.dial(t.Context(), s, func(context.Context) (net.Conn, error) { return client, nil })
			testenv.OK(t, err)
			return s, conn
		}
		for timeline := range uint32(2) {
			slow, kept := open()
			_, other := open()
			time.Sleep(2 * stuckConnect)
			testenv.OK(t, all.accept(slow, server{cluster: "1", timeline: timeline + 1}))
			testenv.OK(t, kept.SetDeadline(time.Time{}))
			testenv.Is(t, other.SetDeadline(time.Time{}), io.ErrClosedPipe, "a connection that still waits")
			testenv.OK(t, other.Close())
		}
	})
}
