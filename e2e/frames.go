package e2e

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Frames is an HTTP/2 connection. A test sends and reads its frames (RFC 9113) itself, so that it
// can behave as no client library would.
type Frames struct {
	S          *Server
	Connection net.Conn
	Seen       []Frame // frames that await has skipped
}

// Frame is a frame of HTTP/2.
type Frame struct {
	Kind, Flags byte
	Stream      uint32
	Payload     []byte
}

// String formats a frame for a failure message.
func (f Frame) String() string {
	return fmt.Sprintf("kind %d flags %#x stream %d of %d bytes", f.Kind, f.Flags, f.Stream, len(f.Payload))
}

// Frame types, and their flags.
const (
	FrameData         = 0x0
	FrameHeaders      = 0x1
	FrameReset        = 0x3
	frameSettings     = 0x4
	FrameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagAck        = 0x1
	FlagEndStream  = 0x1
	FlagEndHeaders = 0x4
)

// StatusOK is the first byte in a header block with status 200 (RFC 7541, appendix A).
const StatusOK = 0x88

// DialFrames opens a connection on which window bytes of each response may be sent before a
// WINDOW_UPDATE.
func (s *Server) DialFrames(window uint32) *Frames {
	s.T.Helper()
	connection := tls.Client(s.Dial(), &tls.Config{RootCAs: s.Options.Certs.trusted, ServerName: "localhost", NextProtos: []string{"http/1.1", "h2"}})
	f := &Frames{S: s, Connection: connection}
	s.Write(connection, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	const initialWindowSize = 4
	f.Send(frameSettings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, initialWindowSize}, window))
	if got := connection.ConnectionState().NegotiatedProtocol; got != "h2" {
		s.T.Fatalf("the protocol is %q, want h2", got)
	}
	return f
}

// Send sends a frame.
func (f *Frames) Send(kind, flags byte, stream uint32, payload []byte) {
	f.S.T.Helper()
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	f.S.Write(f.Connection, string(binary.BigEndian.AppendUint32(head, stream))+string(payload))
}

// Request sends a request's head. Names and values are sent as literals without indexing (RFC 7541,
// section 6.2.2).
func (f *Frames) Request(stream uint32, flags byte, method, target string, h ...string) {
	f.S.T.Helper()
	var block []byte
	for i, fields := 0, append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", f.S.Base + target}, h...); i < len(fields); i += 2 {
		block = append(block, 0)
		for _, text := range fields[i : i+2] {
			if len(text) > 126 {
				f.S.T.Fatalf("%q is too long for one byte of length", text)
			}
			block = append(append(block, byte(len(text))), text...)
		}
	}
	f.Send(FrameHeaders, flags|FlagEndHeaders, stream, block)
}

// Allow lets the server send n more bytes on a stream.
func (f *Frames) Allow(stream, n uint32) {
	f.S.T.Helper()
	f.Send(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, n))
	f.Send(frameWindowUpdate, 0, stream, binary.BigEndian.AppendUint32(nil, n))
}

// Next reads a frame. It returns io.EOF if the server has closed the connection.
func (f *Frames) Next() (Frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(f.Connection, head[:]); err != nil {
		return Frame{}, err
	}
	got := Frame{Kind: head[3], Flags: head[4], Stream: binary.BigEndian.Uint32(head[5:])}
	got.Payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(f.Connection, got.Payload); err != nil {
		return Frame{}, err
	}
	if got.Kind == frameSettings && got.Flags&flagAck == 0 {
		f.Send(frameSettings, flagAck, 0, nil)
	}
	return got, nil
}

// Await returns the first frame with this type on a stream that it has not returned yet. It keeps
// the other frames for later calls.
func (f *Frames) Await(kind byte, stream uint32) Frame {
	f.S.T.Helper()
	for i := 0; ; i++ {
		if i == len(f.Seen) {
			got, err := f.Next()
			if err != nil {
				f.S.T.Fatalf("no Frame of kind %d on stream %d, but %v: %v\n%s", kind, stream, f.Seen, err, Tail(f.S.Log.String()))
			}
			f.Seen = append(f.Seen, got)
		}
		if got := f.Seen[i]; got.Kind == kind && got.Stream == stream {
			f.Seen = append(f.Seen[:i], f.Seen[i+1:]...)
			return got
		}
	}
}

// Body reads a stream's response to its end.
func (f *Frames) Body(stream uint32) []byte {
	f.S.T.Helper()
	var body []byte
	for {
		data := f.Await(FrameData, stream)
		body = append(body, data.Payload...)
		if data.Flags&FlagEndStream != 0 {
			return body
		}
	}
}
