package logbuffer

import (
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// appendJSON appends a simple record's line: a JSON object with the members that slog.JSONHandler
// writes. Bytes that are not UTF-8 become U+FFFD.
func appendJSON(b []byte, r *slog.Record) []byte {
	b = append(b, `{"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, r.Level.String()...)
	b = append(b, `","msg":`...)
	b = appendString(b, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b = append(b, ',')
		b = appendString(b, a.Key)
		b = append(b, ':')
		if a.Value.Kind() == slog.KindString {
			b = appendString(b, a.Value.String())
		} else {
			b = appendNumber(b, a.Value)
		}
		return true
	})
	return append(b, '}', '\n')
}

func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its only error is invalid UTF-8, which it replaces
	return b
}
