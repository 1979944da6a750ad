package httpconn

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
)

// tested is the release of Go with which TestAssumptions holds.
const tested = "go1.26"

// Adopt returns the listeners with Conns in place of their connections, which must be Transports,
// and makes server provide them to FromContext. release is the release of Go with which the program
// was built, as of runtime.Version.
//
// If this package is not tested with the release, Adopt writes one warning to log and returns the
// listeners as they are: this is the plain path. Requests then cost more time, and how much of a
// response has left the process is not known.
func Adopt(server *http.Server, listeners []net.Listener, release string, log *slog.Logger) []net.Listener {
	if rest, ok := strings.CutPrefix(release, tested); !ok || rest != "" && rest[0] != '.' {
		log.Warn("this build of Go was not tested: connections use the plain path, on which a request takes more CPU time", "release", release, "tested", tested)
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
