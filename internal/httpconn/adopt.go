package httpconn

import (
	"log/slog"
	"net"
	"net/http"
)

// Adopt returns the listeners with Conns in place of their connections, which must be Transports,
// and makes server provide them to FromContext. serve is how net/http serves a listener:
// (*http.Server).Serve.
//
// If this build's net/http does not behave as assumed, Adopt writes one warning to log and returns
// the listeners as they are: this is the plain path. Requests then cost more time, and how much of
// a response has left the process is not known.
func Adopt(server *http.Server, listeners []net.Listener, serve Serve, log *slog.Logger) []net.Listener {
	if err := check(serve); err != nil {
		log.Warn("net/http of this build does not behave as expected: connections use the plain path, on which a request takes more CPU time", "cause", err)
		return listeners
	}
	attach(server)
	adopted := make([]net.Listener, len(listeners))
	for i, l := range listeners {
		adopted[i] = listener{l}
	}
	return adopted
}

// listener accepts Conns.
type listener struct{ net.Listener }

// Accept returns the next connection.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(accepted.(Transport)), nil
}
