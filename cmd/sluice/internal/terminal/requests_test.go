package terminal_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/logbuffer"
	"sluice/test/testenv"
)

// request is a record about a request, as package exchange makes it.
type request struct {
	level              slog.Level
	method, path, code string
	status, in, out    int
	seconds            float64
	err                string
}

// show returns a request's line on a terminal.
func (r request) show(t testing.TB, colors bool) string {
	t.Helper()
	var shown strings.Builder
	lines := logbuffer.New(&shown, time.Hour)
	record := slog.NewRecord(time.Date(2026, 5, 4, 15, 4, 5, 6e8, time.UTC), r.level, "request", 0)
	record.AddAttrs(slog.String("id", "ABCDEF"), slog.String("method", r.method), slog.String("route", "/r"), slog.Int("status", r.status),
		slog.Int("bytes_in", r.in), slog.Int("bytes_out", r.out), slog.Float64("took_seconds", r.seconds), slog.String("peer", "127.0.0.1:1"),
		slog.String("path", r.path), slog.String("code", r.code), slog.String("error", r.err))
	h := &terminal.Requests{Handler: slog.DiscardHandler, Out: lines, Colors: colors}
	testenv.OK(t, h.Handle(t.Context(), record))
	if waits := shown.String() == ""; waits != (r.level < slog.LevelWarn) {
		t.Errorf("level %v: waits is %t", r.level, waits)
	}
	testenv.OK(t, lines.Flush())
	return shown.String()
}

// Invariant 50.
func TestRequestLines(t *testing.T) {
	deep := "/v1/blobs/team/" + strings.Repeat("folder/", 20) + "photo.jpg"
	for _, test := range []struct {
		request
		want string
	}{
		{request{method: "PUT", path: "/v1/blobs/team/a", status: 204, in: 1_200_000, seconds: 0.0123},
			"15:04:05 PUT     /v1/blobs/team/a                             204 1.1 MiB   12ms\n"},
		{request{method: "GET", path: "/v1/blobs/team/a b", status: 200, out: 5, seconds: 0.0004},
			"15:04:05 GET     /v1/blobs/team/a b                           200     5 B  0.4ms\n"},
		{request{method: "GET", path: "/v1/blobs/team/none", code: "blob_not_found", status: 404, out: 231, seconds: 1.26},
			"15:04:05 GET     /v1/blobs/team/none           blob_not_found 404   231 B   1.3s\n"},
		{request{method: "UPDATEREDIRECTREF", path: deep, status: 405, code: "idempotency_key_reused", in: 1e9, seconds: 43200},
			"15:04:05 UP...EF /v1/blobs...photo.jpg idempotency_key_reused 405 954 MiB 43200s\n"},
		{request{method: "GET", path: deep, status: 206, in: 1, out: 999_400_000, seconds: 120},
			"15:04:05 GET     /v1/blobs/team/folder...der/folder/photo.jpg 206 953 MiB   120s\n"},
		{request{method: "GET", path: "/v1/blobs/team/" + strings.Repeat("日本語", 20) + "x", status: 200, seconds: 0.9997},
			"15:04:05 GET     /v1/blobs/team/日本語... 日本語日本語日本語x 200     0 B   1.0s\n"},
		{request{method: "GET", path: "/v1/blobs/t/\x1b[2J\u009b\r\n\u202e\xff", status: 200},
			`15:04:05 GET     /v1/blobs/t/\x1b[2J\u009b\r\n\u202e\xff      200     0 B  0.0ms` + "\n"},
		{request{level: slog.LevelError, method: "GET", path: "/v1/info", status: 500, code: "internal", err: "panic: \x1b]0;x\a\n\tat main.go:1"},
			"15:04:05 GET     /v1/info                            internal 500     0 B  0.0ms\n" +
				`  request ABCDEF: panic: \x1b]0;x\a` + "\n" + `    at main.go:1` + "\n"},
	} {
		testenv.Equal(t, test.show(t, false), test.want, "%s %q", test.method, test.path)
	}
}

func TestRequestLinesInColor(t *testing.T) {
	for status, color := range map[int]string{200: "32", 304: "32", 404: "33", 499: "33", 503: "31"} {
		got := request{method: "GET", path: "/", status: status}.show(t, true)
		want := "\x1b[2m15:04:05\x1b[0m GET     /" + strings.Repeat(" ", 43) + "\x1b[" + color + "m " + strconv.Itoa(status) + "\x1b[0m     0 B  0.0ms\n"
		testenv.Equal(t, got, want, "status %d", status)
	}
	for _, test := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, true}, {map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false}, {map[string]string{"TERM": "dumb"}, false}, {nil, false},
	} {
		testenv.Equal(t, terminal.HasColors(func(name string) string { return test.env[name] }), test.want, "colors with %v", test.env)
	}
}

// TestOtherRecordsKeepTheirForm checks that records which are not about a request are passed on.
func TestOtherRecordsKeepTheirForm(t *testing.T) {
	var shown strings.Builder
	lines := logbuffer.New(&shown, time.Hour)
	log, _ := lines.Loggers(logbuffer.Text, nil)
	slog.New(&terminal.Requests{Handler: log.Handler(), Out: lines}).Info("requests not logged", "omitted", 3)
	if !strings.HasSuffix(shown.String(), ` level=INFO msg="requests not logged" omitted=3`+"\n") {
		t.Errorf("shown is %q", shown.String())
	}
}

// FuzzRequestLine checks that a request is one line of at most 80 columns, and that each of its
// characters can be shown.
// Invariant 136.
func FuzzRequestLine(f *testing.F) {
	for name := range hostile {
		f.Add("GET", "/v1/blobs/a/"+name, "", 200, int64(1), 0.1)
		f.Add(name, strings.Repeat(name, 30), "blob_not_found", 404, int64(1e15), 1e4)
	}
	f.Add("GET", strings.Repeat("🇩🇪👩‍👩‍👧e\u0301각", 20), "", 200, int64(1), 0.1)
	f.Fuzz(func(t *testing.T, method, path, code string, status int, size int64, seconds float64) {
		if len(code) > 22 || runewidth.StringWidth(terminal.Text(code)) > 22 || status < 0 || status > 999 || size < 0 || seconds < 0 || seconds > 99_999 {
			return // no request has these
		}
		line, whole := strings.CutSuffix(request{method: method, path: path, code: code, status: status, out: int(size), seconds: seconds}.show(t, false), "\n")
		if !whole || runewidth.StringWidth(line) > 80 {
			t.Errorf("%q has %d columns", line, runewidth.StringWidth(line))
		}
		for _, r := range line {
			if !strconv.IsPrint(r) {
				t.Errorf("%q has the character %U", line, r)
			}
		}
	})
}
