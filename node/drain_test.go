package node

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestDrainWait checks that requests are served during the wait while /readyz reports
// 503.
// Invariants 57, 89.
func TestDrainWait(t *testing.T) {
	inDrain(t, false, func(d *drained) {
		d.get("/readyz", http.StatusServiceUnavailable)
		time.Sleep(testWait - time.Second)
		d.get("/livez", http.StatusOK)
		d.wantEnd(nil, testWait)
	})
}

func TestSignalCutsTheDrainWait(t *testing.T) {
	inDrain(t, false, func(d *drained) {
		time.Sleep(time.Second)
		d.signals <- syscall.SIGTERM
		d.wantEnd(nil, time.Second)
	})
}

// TestFurtherSignalCutsRequests checks that a signal during the wait ends the wait
// only, and that the next one aborts the requests.
func TestFurtherSignalCutsRequests(t *testing.T) {
	inDrain(t, true, func(d *drained) {
		d.signals <- syscall.SIGTERM
		synctest.Wait()
		select {
		case err := <-d.ended:
			t.Fatalf("the first signal ended the drain: %v", err)
		default:
		}
		d.signals <- syscall.SIGTERM
		d.wantEnd(errStopped, 0)
	})
}

func TestDrainDeadlineBeginsAfterTheWait(t *testing.T) {
	inDrain(t, true, func(d *drained) {
		err := <-d.ended
		if took := time.Since(d.began); err == nil || took != testWait+testDeadline {
			t.Errorf("the drain ended with %v after %v, want an error after %v", err, took, testWait+testDeadline)
		}
	})
}

// TestDrainWaitsForAbortedRequests checks that the drain returns after the cleanup of
// aborted requests, because the stores are closed then.
func TestDrainWaitsForAbortedRequests(t *testing.T) {
	drained := make(chan struct{})
	sessions := &orderlySessions{called: make(chan struct{}), drained: drained}
	server, listener := startDraining(t, sessions)
	client, conn := net.Pipe()
	listener.dialed <- conn
	testenv.OK(t, testenv.Error(io.WriteString(client, "GET /v1/sessions/x HTTP/1.1\r\nHost: localhost\r\n\r\n")))
	<-sessions.called
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	if err := server.drain(0, time.Hour, signals); !errors.Is(err, errStopped) {
		t.Errorf("the drain ended with %v, want %v", err, errStopped)
	}
	close(drained)
	if !sessions.ordered {
		t.Error("the drain returned before the request that it aborted")
	}
}
