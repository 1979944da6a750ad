package tracing

import (
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
)

// errorPause is the time between two lines about failed exports.
const errorPause = time.Minute

// errorLog logs why exports fail, but not each time: an unreachable endpoint would otherwise be a
// line for each batch of spans. It is safe for concurrent use.
type errorLog struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time // when a line was logged
	hidden int       // errors since then
}

var _ otel.ErrorHandler = (*errorLog)(nil)

func newErrorLog(log *slog.Logger) *errorLog { return &errorLog{log: log} }

// Handle implements otel.ErrorHandler.
func (l *errorLog) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.last) < errorPause {
		l.hidden++
		return
	}
	l.log.Warn("traces cannot be exported", "error", err, "errors_before", l.hidden)
	l.last, l.hidden = time.Now(), 0
}
