package transfer

import "net/http"

// Bounds of one HTTP/2 connection: concurrent requests, and bytes of each body that its handler has
// not read.
//
// The library extends a connection's window as handlers read, so a handler that waits, for its
// caller's rate or for the store, retains the bytes of its body that have arrived. The connection's
// window has room for all streams and for the 4 KiB that the library may retain, so no stream waits
// for another stream's bytes. Memory is used only as bytes arrive, and bounded by a caller's
// concurrent requests. A smaller window for each stream would slow every upload over a long
// distance, because it bounds the bytes in flight.
const (
	maxStreams   = 64
	streamWindow = 1 << 20
)

// HTTP2Config returns the bounds on a server's HTTP/2 connections.
func HTTP2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		// A stream uses memory as long as its client does not let its response be sent, and clients
		// may open and reset four times as many before they are looked at.
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: maxStreams*streamWindow + 4<<10,
	}
}
