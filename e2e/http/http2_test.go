package http

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestCutReadsOverHTTP2 resets the streams of paid responses. This has the same effect as a cut
// connection, but the connection stays open.
// Invariant 49.
func TestCutReadsOverHTTP2(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: []string{"--reads", "paid", "--chunkset-price", fmt.Sprint(e2e.CutPrice)}})
	data := e2e.Content(1, 5*e2e.ChunksetSize)
	target := e2e.BlobTarget("0x1", "cut")
	s.Must(204, "PUT", target, data)

	var dials atomic.Int64
	resets := s.Options.Certs.Client(2)
	transport := resets.Transport.(*http.Transport)
	// A small window limits the bytes in flight.
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s.CutReads(target, data, func(target string, n int, h ...string) []byte {
		t.Helper()
		request, err := s.Request("GET", target, nil, h)
		testenv.OK(t, err)
		response, err := resets.Do(request)
		testenv.OK(t, err)
		some := make([]byte, n)
		if _, err := io.ReadFull(response.Body, some); err != nil || response.ProtoMajor != 2 {
			t.Fatalf("%s %d: %v", response.Proto, response.StatusCode, err)
		}
		if err := response.Body.Close(); err != nil { // a reset
			t.Fatal(err)
		}
		return some
	})
	if dials.Load() != 1 {
		t.Errorf("the streams were reset on %d connections, want one", dials.Load())
	}
}

// TestNoChunksetForNothingOverHTTP2 reads a response except its last byte and resets the stream.
// The client pays for both chunksets. The second chunkset begins within a block, which the server
// writes in one call.
// Invariant 25.
func TestNoChunksetForNothingOverHTTP2(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: []string{"--reads", "paid"}})
	const blockStart, size = 10_048_576, 11_097_152 // the last block's start and end
	data := e2e.Content(1, size)
	s.Upload("0x1", "cut", data, blockStart)
	id := s.Open(s.Payer(1), 1000).Buy(100).SessionID

	f := s.DialFrames(0)
	f.Request(1, e2e.FlagEndStream, "GET", e2e.BlobTarget("0x1", "cut"), "session-id", id)
	f.Allow(1, size-1)
	var got []byte
	for len(got) < size-1 {
		got = append(got, f.Await(e2e.FrameData, 1).Payload...)
	}
	if e2e.Digest(got) != e2e.Digest(data[:size-1]) {
		t.Error("the bytes are not the blob's")
	}
	const cancel = 8
	f.Send(e2e.FrameReset, 0, 1, binary.BigEndian.AppendUint32(nil, cancel))
	s.Stop() // returns when the request has ended
	s.Restart()
	if left := s.Left(id); left != "98" {
		t.Errorf("%s chunksets left of 100 after %d of %d bytes; want 98", left, len(got), size)
	}
}

// TestStalledResponseOverHTTP2 accepts no byte of a response on one stream. The server must reset
// that stream after the time that the minimum rate allows. The connection's other streams continue.
func TestStalledResponseOverHTTP2(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t)})
	data := e2e.Content(1, 100_000)
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, data)
	f := s.DialFrames(0)
	f.Request(1, e2e.FlagEndStream, "GET", target, "range", "bytes=0-999")
	f.Request(3, e2e.FlagEndStream, "GET", target)
	f.Await(e2e.FrameHeaders, 1)
	f.Await(e2e.FrameHeaders, 3)
	if code := binary.BigEndian.Uint32(f.Await(e2e.FrameReset, 1).Payload); code == 0 {
		t.Error("the stalled stream was reset without an error")
	}
	f.Allow(3, 1<<20)
	if got := f.Body(3); e2e.Digest(got) != e2e.Digest(data) {
		t.Errorf("another stream of the connection received %d bytes, or other bytes than stored", len(got))
	}
}

// TestSlowBodiesOverHTTP2 checks that the server refuses a body that arrives too slowly, and
// accepts one that arrives steadily, even if it takes longer.
func TestSlowBodiesOverHTTP2(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t)})
	steady, sender := io.Pipe()
	fast := make(chan error, 1)
	data := e2e.Content(1, 2<<20)
	go func() {
		r, err := s.PutFrom(e2e.BlobTarget("0x1", "steady"), steady, int64(len(data)))
		if err == nil && r.Status != 204 {
			err = fmt.Errorf("%v, want 204", r)
		}
		fast <- err
	}()

	stalled, never := io.Pipe()
	defer func() { _ = never.Close() }()
	slow := make(chan e2e.Response, 1)
	go func() {
		defer close(slow)
		r, err := s.PutFrom(e2e.BlobTarget("0x1", "stalled"), stalled, 1000)
		if err != nil {
			t.Error(err)
			return
		}
		slow <- r
	}()

	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	sent := 0
	const step = 2 << 10
	for refused := false; !refused; {
		select {
		case r, ok := <-slow:
			if ok {
				e2e.CheckProblem(t, r, 408, "body_too_slow")
			}
			refused = true
		case err := <-fast:
			t.Fatalf("the steady body ended after %d bytes: %v", sent, err)
		case <-tick.C:
		}
		if sent+step > len(data)/2 {
			t.Fatalf("the stalled body is not refused")
		}
		if _, err := sender.Write(data[sent : sent+step]); err != nil {
			t.Fatal(err)
		}
		sent += step
	}
	_, err := sender.Write(data[sent:])
	testenv.OK(t, errors.Join(err, sender.Close(), <-fast))
	s.Holds(e2e.BlobTarget("0x1", "steady"), data)
	s.ListsOnly("0x1", "steady")
}
