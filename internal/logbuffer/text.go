package logbuffer

import (
	"log/slog"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// appendText appends the line of a simple record as slog.TextHandler writes it, except that numbers
// have no exponents.
func appendText(b []byte, r *slog.Record) []byte {
	b = append(b, "time="...)
	b = appendMillis(b, r.Time)
	b = append(b, " level="...)
	b = append(b, r.Level.String()...)
	b = append(b, " msg="...)
	b = appendQuotable(b, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b = append(b, ' ')
		b = appendQuotable(b, a.Key)
		b = append(b, '=')
		if a.Value.Kind() == slog.KindString {
			b = appendQuotable(b, a.Value.String())
		} else {
			b = appendNumber(b, a.Value)
		}
		return true
	})
	return append(b, '\n')
}

// appendNumber appends an integer or a decimal fraction.
func appendNumber(b []byte, v slog.Value) []byte {
	if v.Kind() == slog.KindInt64 {
		return strconv.AppendInt(b, v.Int64(), 10)
	}
	return strconv.AppendFloat(b, v.Float64(), 'f', -1, 64)
}

// appendMillis appends a time in RFC 3339 with milliseconds.
func appendMillis(b []byte, t time.Time) []byte {
	// The format with nanoseconds is the fastest one, and omits zeros at its end. With a tenth of a
	// millisecond it has four digits, of which the last one is removed.
	const length = len("2006-01-02T15:04:05.000")
	begin := len(b)
	b = t.Truncate(time.Millisecond).Add(time.Millisecond/10).AppendFormat(b, time.RFC3339Nano)
	return append(b[:begin+length], b[begin+length+1:]...)
}

// appendQuotable appends s, in quotes if slog.TextHandler writes it in quotes.
func appendQuotable(b []byte, s string) []byte {
	if mustQuote(s) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

func mustQuote(s string) bool {
	for _, r := range s {
		switch {
		case r == '\x7f': // slog.TextHandler does not consider it
		case r <= ' ', r == '"', r == '=', r == utf8.RuneError, unicode.IsSpace(r), !unicode.IsPrint(r):
			return true
		}
	}
	return s == ""
}
