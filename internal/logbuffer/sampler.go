package logbuffer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxSampled is how many lines are written in an interval from one source, and maxLines from
	// all.
	maxSampled = 60
	maxLines   = 3000
	// sampleInterval is the time between two lines about omitted lines.
	sampleInterval = time.Minute
	// maxSources is how many sources are distinguished in an interval.
	maxSources = 1024
)

// Source is a cause of lines: a group or one of the process's parts, by its name, or a network.
type Source struct {
	Name    string // "": Network
	Network netip.Prefix
}

// others stands for all sources beyond maxSources.
var others = Source{Name: "others"}

// String returns the name, or the network. A network of one address is the address.
func (s Source) String() string {
	switch {
	case s.Name != "":
		return s.Name
	case !s.Network.IsValid():
		return "unknown"
	case s.Network.IsSingleIP():
		return s.Network.Addr().String()
	default:
		return s.Network.String()
	}
}

// Sampler bounds how many lines a source can write into a log, 60 a minute, and all sources
// together, 3,000 a minute. Then one line for each source reports how many more there were. So a
// client cannot fill a disk with lines that cost it nothing, from however many addresses. It
// distinguishes 1,024 sources in a minute, and considers all further sources as one. It is safe for
// concurrent use.
type Sampler struct {
	log     *slog.Logger
	level   slog.Level // for the lines about omitted lines
	message string     // theirs

	mu      sync.Mutex
	sources map[Source]*tally // of this interval; empty: none has begun
	written int               // lines in this interval
	end     *time.Timer       // ends the interval
}

// tally counts a source's lines.
type tally struct {
	written int
	omitted map[int]int64 // by their status; nil: none
}

// NewSampler returns a Sampler that writes to log, with this message, how many lines it did not
// allow.
func NewSampler(log *slog.Logger, level slog.Level, message string) *Sampler {
	return &Sampler{log: log, level: level, message: message, sources: map[Source]*tally{}}
}

// Allow reports whether a line from the source must be written. If not, it counts the line with its
// status, which may be 0 and has few values.
func (s *Sampler) Allow(from Source, status int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sources) == 0 {
		s.end = time.AfterFunc(sampleInterval, s.Flush)
	}
	t := s.sources[from]
	if t == nil && len(s.sources) >= maxSources {
		from = others
		t = s.sources[from]
	}
	if t == nil {
		t = &tally{}
		from.Name = strings.Clone(from.Name)
		s.sources[from] = t
	}
	if t.written < maxSampled && s.written < maxLines {
		t.written++
		s.written++
		return true
	}
	if t.omitted == nil {
		t.omitted = map[int]int64{}
	}
	t.omitted[status]++
	return false
}

// Flush ends the interval: it writes a line for each source that was not allowed all its lines. The
// caller must call it before the process ends.
func (s *Sampler) Flush() {
	s.mu.Lock()
	sources := s.sources
	s.sources, s.written = map[Source]*tally{}, 0
	if s.end != nil {
		s.end.Stop()
	}
	s.mu.Unlock()
	for from, t := range sources {
		if t.omitted != nil {
			s.log.LogAttrs(context.Background(), s.level, s.message, t.attrs(from)...)
		}
	}
}

// attrs returns the source, how many of its lines were not written, and these by their status.
func (t *tally) attrs(from Source) []slog.Attr {
	var total int64
	var statuses []string
	for _, status := range slices.Sorted(maps.Keys(t.omitted)) {
		total += t.omitted[status]
		if status != 0 {
			statuses = append(statuses, fmt.Sprintf("%d: %d", status, t.omitted[status]))
		}
	}
	attrs := []slog.Attr{slog.String("source", from.String()), slog.Int64("omitted", total)}
	if statuses != nil {
		attrs = append(attrs, slog.String("statuses", strings.Join(statuses, ", ")))
	}
	return attrs
}
