package e2e

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"testing"
)

// uploads sends bodies on an HTTP/2 connection within the server's flow control (RFC 9113, section
// 5.2).
type uploads struct {
	*frames
	connection int64            // the connection's current window, in bytes
	initial    int64            // a stream's initial window
	more       map[uint32]int64 // difference from initial, by stream: negative after data was sent
	heads      map[uint32]byte  // first byte of the response's header block
	bodies     map[uint32]*bytes.Buffer
	ended      map[uint32]bool // whether the response has ended
	check      func()          // called after each frame received
}

// responseWindow is how much of a response the server may send on each stream.
const responseWindow = 2 << 20

// uploadsTo opens a connection on which the server may send window bytes of each response, and
// reads the server's windows.
func uploadsTo(s *server, window uint32) *uploads {
	s.t.Helper()
	const initial = 1<<16 - 1 // RFC 9113, section 6.9.2
	u := &uploads{
		frames: s.dialFrames(window), connection: initial, initial: initial,
		more: map[uint32]int64{}, heads: map[uint32]byte{}, bodies: map[uint32]*bytes.Buffer{}, ended: map[uint32]bool{}, check: func() {},
	}
	u.send(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<30))
	for u.connection == initial { // the settings arrive first
		u.step()
	}
	return u
}

// received returns how many of a response's bytes have arrived.
func (u *uploads) received(stream uint32) int {
	if u.bodies[stream] == nil {
		return 0
	}
	return u.bodies[stream].Len()
}

// window returns how many bytes the server accepts now on a stream.
func (u *uploads) window(stream uint32) int64 {
	return min(u.connection, u.initial+u.more[stream])
}

// step reads a frame and records its effect.
func (u *uploads) step() {
	u.s.t.Helper()
	got, err := u.next()
	if err != nil {
		u.s.t.Fatalf("the connection ends: %v\n%s", err, tail(u.s.log.String()))
	}
	switch got.kind {
	case frameSettings:
		for p := got.payload; len(p) >= 6; p = p[6:] {
			if id := binary.BigEndian.Uint16(p); id == 4 { // SETTINGS_INITIAL_WINDOW_SIZE
				u.initial = int64(binary.BigEndian.Uint32(p[2:]))
			}
		}
	case frameWindowUpdate:
		n := int64(binary.BigEndian.Uint32(got.payload))
		if got.stream == 0 {
			u.connection += n
		} else {
			u.more[got.stream] += n
		}
	case frameHeaders:
		u.heads[got.stream] = got.payload[0]
	case frameData:
		if u.bodies[got.stream] == nil {
			u.bodies[got.stream] = new(bytes.Buffer)
		}
		u.bodies[got.stream].Write(got.payload)
	case frameReset, frameGoAway:
		u.s.t.Fatalf("the server sends %v\n%s", got, tail(u.s.log.String()))
	}
	if (got.kind == frameData || got.kind == frameHeaders) && got.flags&flagEndStream != 0 {
		u.ended[got.stream] = true
	}
	u.check()
}

// finish waits for a response's end, and returns the first byte of its header block.
func (u *uploads) finish(stream uint32) byte {
	u.s.t.Helper()
	for !u.ended[stream] {
		u.step()
	}
	return u.heads[stream]
}

// some sends as much of data as the server accepts now, and returns the rest.
func (u *uploads) some(stream uint32, data []byte) []byte {
	u.s.t.Helper()
	const maxFrame = 16 << 10
	for len(data) > 0 && u.window(stream) > 0 {
		n := min(int64(len(data)), u.window(stream), maxFrame)
		var flags byte
		if n == int64(len(data)) {
			flags = flagEndStream
		}
		u.send(frameData, flags, stream, data[:n])
		u.connection -= n
		u.more[stream] -= n
		data = data[n:]
	}
	return data
}

// put stores data as fast as the flow control allows. Only the window of its stream may delay it.
func (u *uploads) put(stream uint32, target, key string, data []byte) {
	u.s.t.Helper()
	u.begin(stream, target, key, len(data))
	for data = u.some(stream, data); len(data) > 0; data = u.some(stream, data) {
		if u.connection <= 0 && u.initial+u.more[stream] > 0 {
			u.s.t.Fatalf("PUT %s: the other streams use up the connection's window; %d bytes are not sent yet", target, len(data))
		}
		u.step()
	}
	const statusNoContent = 0x89 // RFC 7541, appendix A
	if got := u.finish(stream); got != statusNoContent {
		u.s.t.Fatalf("PUT %s: the head begins with %#x", target, got)
	}
}

func (u *uploads) begin(stream uint32, target, key string, size int) {
	u.s.t.Helper()
	u.request(stream, 0, "PUT", target, "x-api-key", key, "content-length", strconv.Itoa(size))
}

// get reads a blob.
func (u *uploads) get(stream uint32, target string) []byte {
	u.s.t.Helper()
	u.request(stream, flagEndStream, "GET", target)
	if got := u.finish(stream); got != statusOK {
		u.s.t.Fatalf("GET %s: the head begins with %#x", target, got)
	}
	return u.bodies[stream].Bytes()
}

// TestPacedUploadsDoNotBlockOtherStreams uses a connection on which all streams but one send as
// much as the server accepts, and the server paces them to their key's rate. The last stream never
// waits for the connection's window, and the number of bytes from one connection that wait in the
// server is bounded.
func TestPacedUploadsDoNotBlockOtherStreams(t *testing.T) {
	t.Parallel()
	const (
		streams = 64       // per connection
		size    = 4 << 20  // per paced body; none is complete before the test ends
		bound   = 64 << 20 // limit for the bytes that wait in the server
	)
	s := start(t, options{certs: newCertificates(t), flags: append(hostedChoices("public"), "--admin-addr", "off", "--drain-wait", "0s")})
	paced := s.newKey("--scopes", "write", "--all-accounts", "--group", "paced", "--bytes-in-per-second", "2KiB")
	other := s.newKey("--scopes", "write", "--all-accounts", "--group", "other")

	u := uploadsTo(s, responseWindow)
	unsent := map[uint32][]byte{}
	waiting := 0
	stream := uint32(3)
	for range streams - 1 {
		u.begin(stream, blobTarget("bob", strconv.Itoa(int(stream))), paced, size)
		unsent[stream] = u.some(stream, content(1, size))
		waiting += size - len(unsent[stream])
		stream += 2
	}
	if waiting > bound {
		t.Errorf("the server accepts %d bytes that wait, want at most %d", waiting, bound)
	}
	u.check = func() {
		for paced, data := range unsent {
			if u.ended[paced] {
				t.Fatalf("paced stream %d got a response before its body was sent", paced)
			}
			unsent[paced] = u.some(paced, data)
		}
	}
	neighbour := content(2, 1<<20+1)
	for _, name := range []string{"one", "two"} {
		u.put(stream, blobTarget("alice", name), other, neighbour)
		stream += 2
		if got := u.get(stream, blobTarget("alice", name)); digest(got) != digest(neighbour) {
			t.Errorf("received %d bytes of %s, or other bytes than stored", len(got), name)
		}
		stream += 2
	}
}

// TestBlockedDownloadsDoNotBlockOtherStreams checks that neither a paced response nor one that the
// client's flow control stops blocks their connection's other streams.
func TestBlockedDownloadsDoNotBlockOtherStreams(t *testing.T) {
	t.Parallel()
	const size = 2 * responseWindow
	s := start(t, options{certs: newCertificates(t), flags: append(hostedChoices("public"), "--admin-addr", "off", "--drain-wait", "0s")})
	paced := s.newKey("--scopes", "read", "--all-accounts", "--group", "paced", "--bytes-out-per-second", "2KiB")
	other := s.newKey("--scopes", "write", "--all-accounts", "--group", "other")
	data := content(2, responseWindow)
	target := blobTarget("bob", "name")

	u := uploadsTo(s, responseWindow)
	u.put(3, target, other, content(1, size))
	small := blobTarget("bob", "small")
	u.put(5, small, other, data)
	u.request(7, flagEndStream, "GET", target, "x-api-key", paced)
	u.request(9, flagEndStream, "GET", target, "x-api-key", other)
	for u.received(7) == 0 || u.received(9) < responseWindow {
		u.step()
	}
	for stream := uint32(11); stream < 19; stream += 4 {
		u.put(stream, blobTarget("alice", strconv.Itoa(int(stream))), other, data)
		if got := u.get(stream+2, small); digest(got) != digest(data) {
			t.Errorf("received %d bytes, or other bytes than stored", len(got))
		}
	}
	if u.ended[7] || u.ended[9] {
		t.Error("a blocked response was completed")
	}
}
