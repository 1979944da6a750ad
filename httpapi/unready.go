package httpapi

import (
	"log/slog"
	"net/http"

	"sluice/exchange"
	"sluice/wire"
)

// NewUnreadyServer returns an HTTP server for the time in which a process cannot open its stores
// yet. It answers /livez with 200, and every other request with 503 not_ready. doing returns a
// description of the process's work meanwhile, for clients, or nil.
func NewUnreadyServer(log *slog.Logger, doing func() *string) *http.Server {
	return exchange.NewUnreadyHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := exchange.NewFields(w.Header())
		header.Set("Connection", "close") // another server follows on this address
		status, body := http.StatusOK, []byte("live\n")
		if r.URL.Path == "/livez" {
			header.Set("Content-Type", "text/plain; charset=utf-8")
		} else {
			row, id := errorTable.RowOf(exchange.ErrNotReady), exchange.RequestID(r.Header.Get(wire.HeaderRequestID))
			status = row.Status
			if now := doing(); now != nil {
				row.Detail += ": " + *now
			}
			var err error
			if body, err = encodeProblem(newProblem(row, id)); err != nil {
				log.Error("encoding a problem", "error", err)
			}
			setProblem(&header, row, exchange.ErrNotReady, len(body))
			header.Set(wire.HeaderRequestID, id)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have gone
	}), log)
}
