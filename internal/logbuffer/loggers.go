package logbuffer

import (
	"context"
	"log/slog"
)

// Loggers returns two logs in the format of slog.TextHandler. Lines of log, and lines of requests
// with slog.LevelWarn or above, are written immediately, after those that wait. Other lines of
// requests are written within a second, or when 32 KiB wait.
func (b *Buffer) Loggers(opt *slog.HandlerOptions) (log, requests *slog.Logger) {
	now := slog.NewTextHandler(immediate{b}, opt)
	return slog.New(now), slog.New(&byLevel{Handler: lines{slog.NewTextHandler(b, opt), b}, urgent: now})
}

// immediate writes each line immediately.
type immediate struct{ *Buffer }

func (w immediate) Write(line []byte) (int, error) { return len(line), w.writeWith(line) }

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
