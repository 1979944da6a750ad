package logbuffer

import (
	"io"
	"log/slog"
)

// Format is the form of a log's lines.
type Format string

// The formats.
const (
	Text Format = "text" // key=value, as by slog.TextHandler
	JSON Format = "json" // an object, as by slog.JSONHandler
)

func (f Format) handler(out io.Writer, opt *slog.HandlerOptions) slog.Handler {
	if f == JSON {
		return slog.NewJSONHandler(out, opt)
	}
	return slog.NewTextHandler(out, opt)
}
