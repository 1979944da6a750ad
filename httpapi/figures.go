package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sluice/internal/metrics"
	"sluice/wire"
)

// Record records the history of requests until ctx ends.
func (s *Server) Record(ctx context.Context) { s.history.Record(ctx) }

// getFigures sends numbers about the service. They contain no ids.
func (s *Server) getFigures(x *call) error {
	counted, err := s.countFigures(x.Request.Context())
	if err != nil {
		return err
	}
	now := time.Now()
	counted.Time = now.UTC()
	for _, i := range s.history.Intervals(now) {
		counted.History = append(counted.History, intervalJSON(i))
	}
	return writeJSON(x, http.StatusOK, counted)
}

func (s *Server) countFigures(ctx context.Context) (wire.Figures, error) {
	s.figures.mu.Lock()
	defer s.figures.mu.Unlock()
	if !s.figures.taken.IsZero() && time.Since(s.figures.taken) < figuresAge {
		return s.figures.last, nil
	}
	var f wire.Figures
	census, err := s.census(ctx)
	if err != nil {
		return f, err
	}
	f.Sessions = wire.SessionFigures{Live: census.Sessions.Active + census.Sessions.Exhausted, Expired: census.Sessions.Expired}
	f.Channels = wire.ChannelFigures{Open: census.Channels.Open, Closed: census.Channels.Closed, Expired: census.Channels.Expired}
	backlog, err := s.blobs.GarbageBacklog(ctx)
	if err != nil {
		return f, err
	}
	f.Garbage = wire.GarbageFigures{Contents: int64(backlog.Contents), Bytes: backlog.Bytes, OldestSeconds: int64(backlog.Oldest / time.Second)}
	if f.Storage.Blobs, f.Storage.Bytes, err = s.inspection.TotalStored(ctx); err != nil {
		return f, err
	}
	damage, err := s.blobs.DamageTotals(ctx)
	if err != nil {
		return f, err
	}
	if damage.Extents > 0 {
		f.Damaged = &wire.DamageFigures{Contents: damage.Contents, Extents: damage.Extents, Bytes: damage.Bytes, Since: damage.Since}
	}
	if err := s.Ready(ctx); err != nil {
		if ctx.Err() != nil { // this error is the caller's, and other callers get these figures
			return f, ctx.Err()
		}
		f.NotReady = err.Error()
	}
	s.figures.last, s.figures.taken = f, time.Now()
	return f, nil
}

func intervalJSON(i metrics.Interval) wire.Interval {
	return wire.Interval{
		Time: i.End.UTC(), Seconds: i.Took.Seconds(),
		Requests: i.Requests, ClientErrors: i.ClientErrors, ServerErrors: i.ServerErrors,
		BytesIn: i.BytesIn, BytesOut: i.BytesOut,
		P50Seconds: i.P50.Seconds(), P90Seconds: i.P90.Seconds(), P99Seconds: i.P99.Seconds(),
	}
}

// observes reports whether a route's requests only observe the service, or wait for it, so that the
// history does not have them.
func observes(route string) bool {
	return strings.HasPrefix(route, "/console") || strings.HasPrefix(route, "/v1/local/") ||
		route == "/v1/changes" || route == "/v1/channels" || strings.HasPrefix(route, "/v1/channels/") || route == "/v1/figures" || route == "/livez" || route == "/readyz"
}
