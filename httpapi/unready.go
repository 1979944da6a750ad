package httpapi

import (
	"log/slog"
	"net/http"

	"sluice/wire"
)

// NewUnreadyServer returns an HTTP server for the time in which a process cannot open its stores
// yet. It answers /livez with 200, and every other request with 503 not_ready.
func NewUnreadyServer(log *slog.Logger) *http.Server {
	return newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := fields{header: w.Header()}
		header.set("Connection", "close") // another server follows on this address
		status, body := http.StatusOK, []byte("live\n")
		if r.URL.Path == "/livez" {
			header.set("Content-Type", "text/plain; charset=utf-8")
		} else {
			row, id := rowOf(errNotReady), requestID(r.Header.Get(wire.HeaderRequestID))
			status = row.status
			var err error
			if body, err = encodeProblem(newProblem(row, id)); err != nil {
				log.Error("encoding a problem", "error", err)
			}
			header.setProblem(row, errNotReady, len(body))
			header.set(wire.HeaderRequestID, id)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have gone
	}), newServerErrors(log))
}
