package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"sluice/internal/units"
)

// Output takes a Requests's lines.
type Output interface {
	io.Writer     // of whole lines, which may wait
	Flush() error // writes the lines that wait
}

// Requests is an slog.Handler that shows each request to a developer, in one line of at most 80
// columns: time, method, path, error code, status, the larger body's bytes, and duration. Below a
// request with slog.LevelWarn or above it shows the request's id and its error, and flushes the
// output. Nothing in a record can control the terminal.
//
// It recognizes requests by their message, and reads the attributes that exchange.Config.LogPaths
// adds. Handler handles every other record.
type Requests struct {
	slog.Handler
	Out    Output
	Colors bool // the terminal has colors
}

// Handle implements slog.Handler.
func (h *Requests) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != "request" {
		return h.Handler.Handle(ctx, r)
	}
	shown := shownRequest{at: r.Time}
	r.Attrs(shown.set)
	text := shown.line(h.Colors) + "\n"
	if r.Level < slog.LevelWarn {
		_, err := io.WriteString(h.Out, text)
		return err
	}
	for i, line := range strings.Split(shown.err, "\n") {
		if i == 0 {
			line = "request " + shown.id + ": " + line
		}
		text += "  " + Text(strings.ReplaceAll(line, "\t", "  ")) + "\n"
	}
	if _, err := io.WriteString(h.Out, text); err != nil {
		return err
	}
	return h.Out.Flush()
}

// HasColors reports whether a terminal has colors, by the environment: NO_COLOR must be empty, and
// TERM must name a terminal that is not dumb.
func HasColors(getenv func(string) string) bool {
	term := getenv("TERM")
	return getenv("NO_COLOR") == "" && term != "" && term != "dumb"
}

// shownRequest has a request's parts that Requests shows.
type shownRequest struct {
	at                          time.Time
	id, method, path, code, err string
	status, in, out             int64
	seconds                     float64
}

func (s *shownRequest) set(a slog.Attr) bool {
	switch a.Key {
	case "id":
		s.id = a.Value.String()
	case "method":
		s.method = a.Value.String()
	case "path":
		s.path = a.Value.String()
	case "code":
		s.code = a.Value.String()
	case "error":
		s.err = a.Value.String()
	case "status":
		s.status = a.Value.Int64()
	case "bytes_in":
		s.in = a.Value.Int64()
	case "bytes_out":
		s.out = a.Value.Int64()
	case "took_seconds":
		s.seconds = a.Value.Float64()
	}
	return true
}

// The columns in a request's line, which are separated by spaces. The path and the code share one.
const (
	requestColumns = 80
	methodColumns  = len("OPTIONS")
	pathColumns    = requestColumns - len("15:04:05 ") - methodColumns - len("  200 99.9 MB 43200s")
)

func (s *shownRequest) line(colors bool) string {
	paint := func(color, text string) string {
		if !colors {
			return text
		}
		return "\x1b[" + color + "m" + text + "\x1b[0m"
	}
	color := map[int64]string{4: "33", 5: "31"}[s.status/100]
	if color == "" {
		color = "32"
	}
	columns, code := pathColumns, ""
	if s.code != "" {
		code = " " + Text(s.code)
		columns -= runewidth.StringWidth(code)
	}
	return paint("2", s.at.Format(time.TimeOnly)) + " " +
		runewidth.FillRight(middle(Text(s.method), methodColumns), methodColumns) + " " +
		runewidth.FillRight(middle(Text(s.path), columns), columns) +
		paint(color, fmt.Sprintf("%s %3d", code, s.status)) +
		fmt.Sprintf(" %7s %6s", units.Bytes(max(s.in, s.out)), took(s.seconds))
}

// middle returns a text without its middle if it does not fit.
func middle(text string, columns int) string {
	width := runewidth.StringWidth(text)
	if width <= columns {
		return text
	}
	const gap = "..."
	last := (columns - len(gap)) / 2
	head := runewidth.Truncate(text, columns-len(gap)-last, "")
	return head + gap + runewidth.TruncateLeft(text, width-last, "")
}

// took returns a duration of less than 100,000 seconds in at most 6 columns.
func took(seconds float64) string {
	millis := seconds * 1000
	switch {
	case millis < 9.95:
		return strconv.FormatFloat(millis, 'f', 1, 64) + "ms"
	case millis < 999.5:
		return strconv.FormatFloat(millis, 'f', 0, 64) + "ms"
	case seconds < 99.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + "s"
	default:
		return strconv.FormatFloat(seconds, 'f', 0, 64) + "s"
	}
}
