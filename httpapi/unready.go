package httpapi

import (
	"log/slog"
	"net/http"

	"sluice/wire"
)

// NewUnreadyServer returns an HTTP server for the time in which a process cannot open its stores yet. It
// answers /livez with 200, and every other request with 503 not_ready.
func NewUnreadyServer(log *slog.Logger) *http.Server {
	return newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // another server follows on this address
		if r.URL.Path == "/livez" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("live\n")) // the client may have gone
			return
		}
		row, id := rowOf(errNotReady), requestID(r.Header.Get(wire.HeaderRequestID))
		setProblemHeaders(w.Header(), row, errNotReady)
		w.Header().Set(wire.HeaderRequestID, id)
		_ = writeProblem(w, newProblem(row, id), r.Method == http.MethodHead) // the client may have gone
	}), newServerErrors(log))
}
