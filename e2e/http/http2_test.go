package http

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

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
