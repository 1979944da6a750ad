package exchange

import (
	"context"
	"log/slog"
	"strings"

	"sluice/internal/logbuffer"
)

// LoggedRequests selects the requests that are logged. Probes and preflights are logged at
// slog.LevelDebug.
type LoggedRequests string

// The kinds of logged requests.
const (
	LogAll    LoggedRequests = "all"
	LogErrors LoggedRequests = "errors" // those with a status from 400 on, and responses that were cut
	LogNone   LoggedRequests = "none"
)

type requestLog struct {
	*slog.Logger
	which LoggedRequests // "": LogAll
	paths bool           // lines have the path, with names, and the error's code
	// refusals bounds the lines of requests that their clients can repeat at no cost.
	refusals *logbuffer.Sampler
	// ended reports whether the service has ended the requests that ran, because it shuts down.
	ended func() bool
}

// includes reports whether requests are logged at the level. failed is set for those with an error,
// a status from 400 on, or a response that was cut.
func (l *requestLog) includes(level slog.Level, failed bool) bool {
	if l.which == LogNone || l.which == LogErrors && !failed {
		return false
	}
	return l.Enabled(context.Background(), level)
}

// serverErrors logs the errors of net/http, which clients cause: handshakes that fail, and requests
// that cannot be parsed.
type serverErrors struct {
	log     *slog.Logger
	sampler *logbuffer.Sampler
}

func newServerErrors(log *slog.Logger) serverErrors {
	return serverErrors{log, logbuffer.NewSampler(log, slog.LevelDebug, "errors not logged")}
}

// Write writes a line.
func (e serverErrors) Write(line []byte) (int, error) {
	if e.log.Enabled(context.Background(), slog.LevelDebug) && e.sampler.Allow(logbuffer.Source{Name: "net/http"}, 0) {
		e.log.Debug(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}
