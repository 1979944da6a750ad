package httpapi

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/blob"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/router"
	"sluice/metastore"
	"sluice/wire"
)

func (s *Server) getInfo(x *exchange, _ *http.Request, _ router.Params) error {
	return writeJSON(x, http.StatusOK, wire.Info{
		Version:      s.Version,
		Profile:      s.Profile(),
		URL:          s.URL,
		ChunkSize:    wire.ChunkSize,
		ChunksetSize: wire.ChunksetSize,
		Reads:        string(s.Reads),
		Payment:      s.Payment,
		Limits: wire.Limits{
			MaxBlobSize:        blob.MaxSize,
			MaxPartSize:        blob.MaxPartSize,
			DefaultPartSize:    wire.DefaultPartSize,
			MaxParts:           blob.MaxParts,
			MaxNameLength:      blob.MaxNameLength,
			MaxJSONBody:        wire.MaxJSONBody,
			MaxHeaderBytes:     wire.MaxHeaderBytes,
			MaxPageSize:        wire.MaxPageSize,
			MaxRanges:          headers.MaxRanges,
			UploadIdleSeconds:  int64(metastore.UploadIdleLimit / time.Second),
			PutSeconds:         int64(metastore.MaxExtentAge / time.Second),
			MinBytesPerSecond:  s.pace.bytesPerSecond(),
			SessionTTLSeconds:  int64(s.Sessions.TTL() / time.Second),
			ChannelTTLSeconds:  int64(s.Channels.TTL() / time.Second),
			SessionChunksets:   s.Sessions.Granted(),
			ExpiredGoneSeconds: int64(metastore.ExpiredBlobGrace / time.Second),
		},
		Rates: wire.Rates{Key: rateJSON(s.Limiter.KeyLimits()), Address: rateJSON(s.Limiter.AddressLimits())},
	})
}

// rateJSON returns the limits that apply.
func rateJSON(l metastore.Limits) wire.Rate {
	rate := l.Members()
	maps.DeleteFunc(rate, func(_ string, limit int64) bool { return limit == metastore.Unlimited })
	return rate
}

// livez says that the process runs.
func (s *Server) livez(x *exchange, _ *http.Request, _ router.Params) error {
	return writeText(x, "text/plain; charset=utf-8", []byte("live\n"))
}

// readyz says that requests can be served now.
func (s *Server) readyz(x *exchange, r *http.Request, _ router.Params) error {
	if err := s.ready(r.Context()); err != nil {
		return err
	}
	return writeText(x, "text/plain; charset=utf-8", []byte("ready\n"))
}

func (s *Server) openAPI(x *exchange, _ *http.Request, _ router.Params) error {
	return writeText(x, "application/yaml", s.openAPIText)
}

func writeText(w http.ResponseWriter, contentType string, text []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(text)
	return err
}

// writeJSON sends a JSON reply, which no cache may keep: it is the state of
// this moment.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	body = append(body, '\n') // for those who read it in a terminal
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err = w.Write(body)
	return err
}
