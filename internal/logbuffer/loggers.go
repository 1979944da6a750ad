package logbuffer

import (
	"context"
	"log/slog"
)

// Loggers returns two logs in the format. Lines of log, and lines of requests with slog.LevelWarn
// or above, are written immediately, after those that wait. Other lines of requests are written
// when they have waited for the time that New got, or when 32 KiB wait.
func (b *Buffer) Loggers(format Format, opt *slog.HandlerOptions) (log, requests *slog.Logger) {
	now, soon := format.handler(immediate{b}, opt), format.handler(b, opt)
	urgent := lines{now, format, immediate{b}}
	return slog.New(now), slog.New(&byLevel{Handler: lines{soon, format, b}, urgent: urgent})
}

// byLevel passes records with slog.LevelWarn or above to urgent.
type byLevel struct {
	slog.Handler
	urgent slog.Handler
}

// Handle implements slog.Handler.
func (h *byLevel) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		return h.urgent.Handle(ctx, r)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *byLevel) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &byLevel{h.Handler.WithAttrs(attrs), h.urgent.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *byLevel) WithGroup(name string) slog.Handler {
	return &byLevel{h.Handler.WithGroup(name), h.urgent.WithGroup(name)}
}
