package e2e

import (
	"bytes"
	"encoding/binary"
)

// Uploads sends bodies on an HTTP/2 connection within the server's flow control (RFC 9113, section
// 5.2).
type Uploads struct {
	*Frames
	Connection int64            // the connection's current window, in bytes
	Initial    int64            // a stream's initial window
	More       map[uint32]int64 // difference from initial, by stream: negative after data was sent
	heads      map[uint32]byte  // first byte of the response's header block
	Bodies     map[uint32]*bytes.Buffer
	Ended      map[uint32]bool // whether the response has ended
	Check      func()          // called after each frame received
}

// UploadsTo opens a connection on which the server may send window bytes of each response, and
// reads the server's windows.
func UploadsTo(s *Server, window uint32) *Uploads {
	s.T.Helper()
	const initial = 1<<16 - 1 // RFC 9113, section 6.9.2
	u := &Uploads{
		Frames: s.DialFrames(window), Connection: initial, Initial: initial,
		More: map[uint32]int64{}, heads: map[uint32]byte{}, Bodies: map[uint32]*bytes.Buffer{}, Ended: map[uint32]bool{}, Check: func() {},
	}
	u.Send(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<30))
	for u.Connection == initial { // the settings arrive first
		u.Step()
	}
	return u
}

// window returns how many bytes the server accepts now on a stream.
func (u *Uploads) window(stream uint32) int64 {
	return min(u.Connection, u.Initial+u.More[stream])
}

// Step reads a frame and records its effect.
func (u *Uploads) Step() {
	u.S.T.Helper()
	got, err := u.Next()
	if err != nil {
		u.S.T.Fatalf("the connection ends: %v\n%s", err, Tail(u.S.Log.String()))
	}
	switch got.Kind {
	case frameSettings:
		for p := got.Payload; len(p) >= 6; p = p[6:] {
			if id := binary.BigEndian.Uint16(p); id == 4 { // SETTINGS_INITIAL_WINDOW_SIZE
				u.Initial = int64(binary.BigEndian.Uint32(p[2:]))
			}
		}
	case frameWindowUpdate:
		n := int64(binary.BigEndian.Uint32(got.Payload))
		if got.Stream == 0 {
			u.Connection += n
		} else {
			u.More[got.Stream] += n
		}
	case FrameHeaders:
		u.heads[got.Stream] = got.Payload[0]
	case FrameData:
		if u.Bodies[got.Stream] == nil {
			u.Bodies[got.Stream] = new(bytes.Buffer)
		}
		u.Bodies[got.Stream].Write(got.Payload)
	case FrameReset, FrameGoAway:
		u.S.T.Fatalf("the server sends %v\n%s", got, Tail(u.S.Log.String()))
	}
	if (got.Kind == FrameData || got.Kind == FrameHeaders) && got.Flags&FlagEndStream != 0 {
		u.Ended[got.Stream] = true
	}
	u.Check()
}

// Finish waits for a response's end, and returns the first byte of its header block.
func (u *Uploads) Finish(stream uint32) byte {
	u.S.T.Helper()
	for !u.Ended[stream] {
		u.Step()
	}
	return u.heads[stream]
}

// Some sends as much of data as the server accepts now, and returns the rest.
func (u *Uploads) Some(stream uint32, data []byte) []byte {
	u.S.T.Helper()
	const maxFrame = 16 << 10
	for len(data) > 0 && u.window(stream) > 0 {
		n := min(int64(len(data)), u.window(stream), maxFrame)
		var flags byte
		if n == int64(len(data)) {
			flags = FlagEndStream
		}
		u.Send(FrameData, flags, stream, data[:n])
		u.Connection -= n
		u.More[stream] -= n
		data = data[n:]
	}
	return data
}
