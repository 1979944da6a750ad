package logbuffer

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"
)

// FuzzRecord compares lines with those of slog.TextHandler.
func FuzzRecord(f *testing.F) {
	f.Add(int64(1700000000), int64(5e8), 3600, "request", "id", "ABC-1.x_", int64(204), int64(1500), 0)
	f.Add(int64(0), int64(1), -34200, "", "route", "", int64(-1), int64(-1), -4)
	f.Add(int64(253402300800), int64(999_999_999), 0, "two words", "a b", `quoted " and = \`, int64(1)<<62, int64(1)<<62, 5)
	f.Add(int64(-99999999999), int64(0), 1, "é", "\x00", "\x7f\xff", int64(0), int64(0), 8)
	f.Fuzz(func(t *testing.T, sec, nsec int64, zone int, message, key, text string, number, duration int64, level int) {
		at := time.Unix(sec, nsec).In(time.FixedZone("", zone%86400))
		r := slog.NewRecord(at, slog.Level(level), message, 0)
		r.AddAttrs(slog.String("id", text), slog.Int64(key, number), slog.Duration("took", time.Duration(duration)), slog.String("x", key))
		var want bytes.Buffer
		if err := slog.NewTextHandler(&want, nil).Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		line, simple := appendRecord(nil, r)
		if simple && string(line) != want.String() {
			t.Errorf("%q, want %q", line, want.String())
		}
		b := New(&output{})
		_, requests := b.Loggers(nil)
		if err := requests.Handler().Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := b.out.(*output).writes; len(got) != 1 || got[0] != want.String() {
			t.Errorf("written: %q, want %q", got, want.String())
		}
	})
}

// TestRequestLineIsSimple checks that the line of a usual request takes the fast way, without an
// allocation except for the text of its duration.
func TestRequestLineIsSimple(t *testing.T) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0)
	r.AddAttrs(slog.String("id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), slog.String("method", "GET"), slog.String("route", "/v1/blobs/{account}/{blobName...}"),
		slog.Int("status", 200), slog.Int64("sent", 4096), slog.Duration("took", 12345), slog.String("peer", "127.0.0.1:1234"))
	if line, simple := appendRecord(nil, r); !simple {
		t.Errorf("%q is not simple", line)
	}
	b := New(&output{})
	_, requests := b.Loggers(nil)
	h := requests.Handler()
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.lines = make([]byte, 0, 1<<20)
	if n := testing.AllocsPerRun(100, func() { _ = h.Handle(context.Background(), r) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
