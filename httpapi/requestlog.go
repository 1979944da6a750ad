package httpapi

import (
	"context"
	"log/slog"
)

// LoggedRequests says which requests are logged. Probes and preflights are logged at slog.LevelDebug.
type LoggedRequests string

// The kinds of logged requests.
const (
	LogAll    LoggedRequests = "all"
	LogErrors LoggedRequests = "errors" // those with a status from 400 on, and responses that were cut
	LogNone   LoggedRequests = "none"
)

// requestLog is the log of requests.
type requestLog struct {
	*slog.Logger
	which LoggedRequests // "": LogAll
	// ended reports whether the service has ended the requests that ran, because it shuts down.
	ended func() bool
}

// includes reports whether requests are logged at the level. failed is set for those with an error, a
// status from 400 on, or a response that was cut.
func (l *requestLog) includes(level slog.Level, failed bool) bool {
	if l.which == LogNone || l.which == LogErrors && !failed {
		return false
	}
	return l.Enabled(context.Background(), level)
}
