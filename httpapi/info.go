package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"sluice/access/keys"
	"sluice/blob"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/metastore"
	"sluice/wire"
)

func (s *Server) getInfo(x *call) error {
	info := s.info
	info.ChunkSize, info.ChunksetSize = wire.ChunkSize, wire.ChunksetSize
	info.Limits = wire.Limits{
		MaxBlobSize:        blob.MaxSize,
		MaxPartSize:        blob.MaxPartSize,
		DefaultPartSize:    wire.DefaultPartSize,
		MaxParts:           blob.MaxParts,
		MaxNameLength:      blob.MaxNameLength,
		MaxMetadataBytes:   wire.MaxBlobMeta,
		MaxJSONBody:        wire.MaxJSONBody,
		MaxHeaderBytes:     wire.MaxHeaderBytes,
		MaxPageSize:        wire.MaxPageSize,
		MaxRanges:          headers.MaxRanges,
		UploadIdleSeconds:  int64(metastore.UploadIdleLimit / time.Second),
		PutSeconds:         int64(metastore.MaxExtentAge / time.Second),
		MinBytesPerSecond:  s.MinRate().BytesPerSecond(),
		SessionTTLSeconds:  int64(s.sessions.TTL() / time.Second),
		ChannelTTLSeconds:  int64(s.channels.TTL() / time.Second),
		SessionChunksets:   s.sessions.Granted(),
		ExpiredGoneSeconds: int64(metastore.ExpiredBlobGrace / time.Second),
	}
	if terms, ok := s.channels.Terms(); ok {
		info.Payment.StartingLimit, info.Payment.MinGas = decimal(terms.StartingLimit), gas(terms.MinGas)
		info.Payment.MinGasPrice, info.Payment.MaxGasPrice = gas(terms.MinGasPrice), gas(terms.MaxGasPrice)
		info.Payment.MaxFee = gas(terms.MaxFee)
	}
	info.Features = []string{wire.FeatureCopy, wire.FeatureMove, wire.FeatureVersions, wire.FeatureChanges}
	info.Rates = wire.Rates{Key: rateJSON(s.Limiter().KeyLimits()), Address: rateJSON(s.Limiter().AddressLimits())}
	return writeJSON(x, http.StatusOK, info)
}

// rateJSON returns the limits that apply.
func rateJSON(l keys.Limits) wire.Rate {
	rate := l.Members()
	maps.DeleteFunc(rate, func(_ string, limit int64) bool { return limit == keys.Unlimited })
	return rate
}

// livez reports that the process is running.
func (s *Server) livez(x *call) error {
	return writeText(x, "text/plain; charset=utf-8", []byte("live\n"))
}

// readyz reports whether the service can serve requests.
func (s *Server) readyz(x *call) error {
	if s.Draining() {
		return exchange.ErrDraining
	}
	ctx := x.Request.Context()
	if err := s.Ready(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %s", exchange.ErrNotReady, err.Error()) // the cause is for the log
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return writeText(x, "text/plain; charset=utf-8", []byte("ready\n"))
}

func (s *Server) getOpenAPI(x *call) error {
	return writeText(x, "application/yaml", s.openAPI)
}

// writeText sends a text that must not be cached.
func writeText(x *call, contentType string, text []byte) error {
	x.Fields.Set("Content-Type", contentType)
	x.Fields.Set("Content-Length", strconv.Itoa(len(text)))
	x.Fields.Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusOK)
	_, err := x.Write(text)
	return err
}
