package e2e

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// frames is an HTTP/2 connection. A test sends and reads its frames (RFC 9113) itself, so that it
// can behave as no client library would.
type frames struct {
	s          *server
	connection net.Conn
	seen       []frame // frames that await has skipped
}

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// String formats a frame for a failure message.
func (f frame) String() string {
	return fmt.Sprintf("kind %d flags %#x stream %d of %d bytes", f.kind, f.flags, f.stream, len(f.payload))
}

// Frame types, and their flags.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

// statusOK is the first byte in a header block with status 200 (RFC 7541, appendix A).
const statusOK = 0x88

// dialFrames opens a connection on which window bytes of each response may be sent before a
// WINDOW_UPDATE.
func (s *server) dialFrames(window uint32) *frames {
	s.t.Helper()
	connection := tls.Client(s.dial(), &tls.Config{RootCAs: s.options.certs.trusted, ServerName: "localhost", NextProtos: []string{"http/1.1", "h2"}})
	f := &frames{s: s, connection: connection}
	s.write(connection, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	const initialWindowSize = 4
	f.send(frameSettings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, initialWindowSize}, window))
	if got := connection.ConnectionState().NegotiatedProtocol; got != "h2" {
		s.t.Fatalf("the protocol is %q, want h2", got)
	}
	return f
}

// send sends a frame.
func (f *frames) send(kind, flags byte, stream uint32, payload []byte) {
	f.s.t.Helper()
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	f.s.write(f.connection, string(binary.BigEndian.AppendUint32(head, stream))+string(payload))
}

// request sends a request's head. Names and values are sent as literals without indexing (RFC 7541,
// section 6.2.2).
func (f *frames) request(stream uint32, flags byte, method, target string, h ...string) {
	f.s.t.Helper()
	var block []byte
	for i, fields := 0, append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", f.s.base + target}, h...); i < len(fields); i += 2 {
		block = append(block, 0)
		for _, text := range fields[i : i+2] {
			if len(text) > 126 {
				f.s.t.Fatalf("%q is too long for one byte of length", text)
			}
			block = append(append(block, byte(len(text))), text...)
		}
	}
	f.send(frameHeaders, flags|flagEndHeaders, stream, block)
}

// allow lets the server send n more bytes on a stream.
func (f *frames) allow(stream, n uint32) {
	f.s.t.Helper()
	f.send(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, n))
	f.send(frameWindowUpdate, 0, stream, binary.BigEndian.AppendUint32(nil, n))
}

// next reads a frame. It returns io.EOF if the server has closed the connection.
func (f *frames) next() (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(f.connection, head[:]); err != nil {
		return frame{}, err
	}
	got := frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	got.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(f.connection, got.payload); err != nil {
		return frame{}, err
	}
	if got.kind == frameSettings && got.flags&flagAck == 0 {
		f.send(frameSettings, flagAck, 0, nil)
	}
	return got, nil
}

// await returns the first frame with this type on a stream that it has not returned yet. It keeps
// the other frames for later calls.
func (f *frames) await(kind byte, stream uint32) frame {
	f.s.t.Helper()
	for i := 0; ; i++ {
		if i == len(f.seen) {
			got, err := f.next()
			if err != nil {
				f.s.t.Fatalf("no frame of kind %d on stream %d, but %v: %v\n%s", kind, stream, f.seen, err, tail(f.s.log.String()))
			}
			f.seen = append(f.seen, got)
		}
		if got := f.seen[i]; got.kind == kind && got.stream == stream {
			f.seen = append(f.seen[:i], f.seen[i+1:]...)
			return got
		}
	}
}

// body reads a stream's response to its end.
func (f *frames) body(stream uint32) []byte {
	f.s.t.Helper()
	var body []byte
	for {
		data := f.await(frameData, stream)
		body = append(body, data.payload...)
		if data.flags&flagEndStream != 0 {
			return body
		}
	}
}
