package logbuffer

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	"sluice/test/testenv"
)

// plainNumbers makes a handler of slog write fractions without exponents, as lines does.
func plainNumbers(_ []string, a slog.Attr) slog.Attr {
	if f := a.Value.Float64; a.Value.Kind() == slog.KindFloat64 && !math.IsNaN(f()) && !math.IsInf(f(), 0) {
		return slog.String(a.Key, strconv.FormatFloat(f(), 'f', -1, 64))
	}
	return a
}

// FuzzRecord compares the lines in both formats with the lines of slog's handlers: text byte by
// byte, and JSON by members.
// Invariants 134, 136.
func FuzzRecord(f *testing.F) {
	f.Add(int64(1700000000), int64(5e8), 3600, "request", "id", "ABC-1.x_", int64(204), 0.0015, 0)
	f.Add(int64(0), int64(1), -34200, "", "route", "", int64(-1), -1e-9, -4)
	f.Add(int64(253402300800), int64(999_999_999), 0, "two words", "a b", `quoted " and = \`, int64(1)<<62, math.Inf(1), 5)
	f.Add(int64(-99999999999), int64(0), 1, "é", "\x00", "\x7f\xff", int64(0), math.MaxFloat64, 8)
	f.Add(int64(1), int64(0), 1, "line\nbreak\u2028", "\ufffd", "</script>\u200b\U0001f600", int64(0), 4.1e-05, 8)
	f.Fuzz(func(t *testing.T, sec, nsec int64, zone int, message, key, text string, number int64, fraction float64, level int) {
		at := time.Unix(sec, nsec).In(time.FixedZone("", zone%86400/60*60))
		if at.Year() < 0 || at.Year() > 9999 {
			return // slog.JSONHandler writes no valid JSON
		}
		r := slog.NewRecord(at, slog.Level(level), message, 0)
		r.AddAttrs(slog.String("id", text), slog.Int64("k "+key, number), slog.Float64("took_seconds", fraction), slog.String("x", key))
		var want bytes.Buffer
		testenv.OK(t, slog.NewTextHandler(&want, &slog.HandlerOptions{Level: slog.Level(level), ReplaceAttr: plainNumbers}).Handle(t.Context(), r))
		testenv.Equal(t, written(t, Text, r), want.String(), "text")
		want.Reset()
		testenv.OK(t, slog.NewJSONHandler(&want, nil).Handle(t.Context(), r))
		var gotMembers, wantMembers map[string]any
		testenv.OK(t, json.Unmarshal(want.Bytes(), &wantMembers))
		got := written(t, JSON, r)
		if err := json.Unmarshal([]byte(got), &gotMembers); err != nil {
			t.Fatalf("JSON: %q, %v", got, err)
		}
		if !reflect.DeepEqual(gotMembers, wantMembers) || bytes.Count([]byte(got), []byte("\n")) != 1 {
			t.Errorf("JSON: %q, want %q", got, want.String())
		}
	})
}

// written returns the line for a record in the request log.
func written(t *testing.T, format Format, r slog.Record) string {
	t.Helper()
	b := New(&output{}, Soon)
	_, requests := b.Loggers(format, nil)
	testenv.OK(t, requests.Handler().Handle(context.Background(), r))
	testenv.OK(t, b.Flush())
	lines := b.out.(*output).writes
	if len(lines) != 1 {
		t.Fatalf("%d writes: %q", len(lines), lines)
	}
	return lines[0]
}

// TestRequestLineAllocatesNothing checks that a request's line is written without an allocation.
func TestRequestLineAllocatesNothing(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		r := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0)
		r.AddAttrs(slog.String("id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), slog.String("method", "GET"), slog.String("route", "/v1/blobs/{account}/{blobName...}"),
			slog.Int("status", 200), slog.Int64("bytes_in", 0), slog.Int64("bytes_out", 4096), slog.Float64("took_seconds", 0.000041), slog.String("peer", "127.0.0.1:1234"),
			slog.String("client", "2001:db8::1"), slog.String("key", "ABCDEFGHIJ"), slog.String("trace", "0123456789abcdef0123456789abcdef"))
		b := New(&output{}, Soon)
		_, requests := b.Loggers(format, nil)
		h := requests.Handler()
		testenv.OK(t, h.Handle(t.Context(), r))
		b.lines = make([]byte, 0, 1<<20)
		if n := testing.AllocsPerRun(100, func() { _ = h.Handle(context.Background(), r) }); n > 0 {
			t.Errorf("%s: %v allocations", format, n)
		}
	}
}
