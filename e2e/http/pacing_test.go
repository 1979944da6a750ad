package http

import (
	"strconv"
	"testing"

	"sluice/e2e"
)

// responseWindow is how much of a response the server may send on each stream.
const responseWindow = 2 << 20

// received returns how many of a response's bytes have arrived.
func received(u *e2e.Uploads, stream uint32) int {
	if u.Bodies[stream] == nil {
		return 0
	}
	return u.Bodies[stream].Len()
}

// put stores data as fast as the flow control allows. Only the window of its stream may delay it.
func put(u *e2e.Uploads, stream uint32, target, key string, data []byte) {
	u.S.T.Helper()
	begin(u, stream, target, key, len(data))
	for data = u.Some(stream, data); len(data) > 0; data = u.Some(stream, data) {
		if u.Connection <= 0 && u.Initial+u.More[stream] > 0 {
			u.S.T.Fatalf("PUT %s: the other streams use up the connection's window; %d bytes are not sent yet", target, len(data))
		}
		u.Step()
	}
	const statusNoContent = 0x89 // RFC 7541, appendix A
	if got := u.Finish(stream); got != statusNoContent {
		u.S.T.Fatalf("PUT %s: the head begins with %#x", target, got)
	}
}

func begin(u *e2e.Uploads, stream uint32, target, key string, size int) {
	u.S.T.Helper()
	u.Request(stream, 0, "PUT", target, "x-api-key", key, "content-length", strconv.Itoa(size))
}

// get reads a blob.
func get(u *e2e.Uploads, stream uint32, target string) []byte {
	u.S.T.Helper()
	u.Request(stream, e2e.FlagEndStream, "GET", target)
	if got := u.Finish(stream); got != e2e.StatusOK {
		u.S.T.Fatalf("GET %s: the head begins with %#x", target, got)
	}
	return u.Bodies[stream].Bytes()
}

// TestPacedUploadsDoNotBlockOtherStreams uses a connection on which all streams but one send as
// much as the server accepts, and the server paces them to their key's rate. The last stream never
// waits for the connection's window, and the number of bytes from one connection that wait in the
// server is bounded.
// Invariant 68.
func TestPacedUploadsDoNotBlockOtherStreams(t *testing.T) {
	t.Parallel()
	const (
		streams = 64       // per connection
		size    = 4 << 20  // per paced body; none is complete before the test ends
		bound   = 64 << 20 // limit for the bytes that wait in the server
	)
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: append(e2e.HostedChoices("public"), "--admin-addr", "off", "--drain-wait", "0s")})
	paced := s.NewKey("--scopes", "write", "--all-accounts", "--group", "paced", "--bytes-in-per-second", "2KiB")
	other := s.NewKey("--scopes", "write", "--all-accounts", "--group", "other")

	u := e2e.UploadsTo(s, responseWindow)
	unsent := map[uint32][]byte{}
	waiting := 0
	stream := uint32(3)
	for range streams - 1 {
		begin(u, stream, e2e.BlobTarget("bob", strconv.Itoa(int(stream))), paced, size)
		unsent[stream] = u.Some(stream, e2e.Content(1, size))
		waiting += size - len(unsent[stream])
		stream += 2
	}
	if waiting > bound {
		t.Errorf("the server accepts %d bytes that wait, want at most %d", waiting, bound)
	}
	u.Check = func() {
		for paced, data := range unsent {
			if u.Ended[paced] {
				t.Fatalf("paced stream %d got a response before its body was sent", paced)
			}
			unsent[paced] = u.Some(paced, data)
		}
	}
	neighbour := e2e.Content(2, 1<<20+1)
	for _, name := range []string{"one", "two"} {
		put(u, stream, e2e.BlobTarget("alice", name), other, neighbour)
		stream += 2
		if got := get(u, stream, e2e.BlobTarget("alice", name)); e2e.Digest(got) != e2e.Digest(neighbour) {
			t.Errorf("received %d bytes of %s, or other bytes than stored", len(got), name)
		}
		stream += 2
	}
}

// TestBlockedDownloadsDoNotBlockOtherStreams checks that neither a paced response nor one that the
// client's flow control stops blocks their connection's other streams.
// Invariant 68.
func TestBlockedDownloadsDoNotBlockOtherStreams(t *testing.T) {
	t.Parallel()
	const size = 2 * responseWindow
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: append(e2e.HostedChoices("public"), "--admin-addr", "off", "--drain-wait", "0s")})
	paced := s.NewKey("--scopes", "read", "--all-accounts", "--group", "paced", "--bytes-out-per-second", "2KiB")
	other := s.NewKey("--scopes", "write", "--all-accounts", "--group", "other")
	data := e2e.Content(2, responseWindow)
	target := e2e.BlobTarget("bob", "name")

	u := e2e.UploadsTo(s, responseWindow)
	put(u, 3, target, other, e2e.Content(1, size))
	small := e2e.BlobTarget("bob", "small")
	put(u, 5, small, other, data)
	u.Request(7, e2e.FlagEndStream, "GET", target, "x-api-key", paced)
	u.Request(9, e2e.FlagEndStream, "GET", target, "x-api-key", other)
	for received(u, 7) == 0 || received(u, 9) < responseWindow {
		u.Step()
	}
	for stream := uint32(11); stream < 19; stream += 4 {
		put(u, stream, e2e.BlobTarget("alice", strconv.Itoa(int(stream))), other, data)
		if got := get(u, stream+2, small); e2e.Digest(got) != e2e.Digest(data) {
			t.Errorf("received %d bytes, or other bytes than stored", len(got))
		}
	}
	if u.Ended[7] || u.Ended[9] {
		t.Error("a blocked response was completed")
	}
}
