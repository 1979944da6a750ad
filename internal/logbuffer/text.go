package logbuffer

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// appendText appends a simple record's line as slog.TextHandler writes it, except that numbers have
// no exponents.
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

// second is a second as it is written, which many lines share.
type second struct {
	unix int64
	zone *time.Location
	date string // with the time of day
	ends string // the zone's offset
}

var lastSecond atomic.Pointer[second]

// appendMillis appends a time in RFC 3339 with milliseconds.
func appendMillis(b []byte, t time.Time) []byte {
	s := lastSecond.Load()
	if s == nil || s.unix != t.Unix() || s.zone != t.Location() {
		s = &second{t.Unix(), t.Location(), t.Format("2006-01-02T15:04:05"), t.Format("Z07:00")}
		lastSecond.Store(s)
	}
	millis := t.Nanosecond() / int(time.Millisecond)
	b = append(b, s.date...)
	b = append(b, '.', byte('0'+millis/100), byte('0'+millis/10%10), byte('0'+millis%10))
	return append(b, s.ends...)
}

// appendQuotable appends s, in quotes if slog.TextHandler writes it in quotes.
func appendQuotable(b []byte, s string) []byte {
	if mustQuote(s) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

func mustQuote(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			return mustQuoteRunes(s[i:])
		case c <= ' ', c == '"', c == '=': // slog.TextHandler does not consider DEL
			return true
		}
	}
	return s == ""
}

func mustQuoteRunes(s string) bool {
	for _, r := range s {
		switch {
		case r == '\x7f':
		case r <= ' ', r == '"', r == '=', r == utf8.RuneError, unicode.IsSpace(r), !unicode.IsPrint(r):
			return true
		}
	}
	return false
}
