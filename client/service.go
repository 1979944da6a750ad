package client

import (
	"context"
	"net/http"
	"net/url"

	"sluice/wire"
)

// Info returns the service's description.
func (c *Client) Info(ctx context.Context) (wire.Info, error) {
	var info wire.Info
	r := newRequest("service information", http.MethodGet, "/v1/info", readOnly)
	r.check = func() error { return checkInfo(&info) }
	if _, err := c.call(ctx, r, &info); err != nil {
		return wire.Info{}, err
	}
	return info, nil
}

// Ready returns nil if the service can store and read blobs now, and ErrUnavailable with the reason
// if it cannot.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.call(ctx, newRequest("readiness", http.MethodGet, "/readyz", readOnly), nil)
	return err
}

// checkInfo returns an error if a service describes itself with a negative number or a text that is
// too long.
func checkInfo(i *wire.Info) error {
	l := &i.Limits
	for _, n := range []struct {
		member string
		value  int64
	}{
		{"chunkSize", i.ChunkSize}, {"chunksetSize", i.ChunksetSize},
		{"maxBlobSize", l.MaxBlobSize}, {"maxPartSize", l.MaxPartSize}, {"defaultPartSize", l.DefaultPartSize}, {"maxParts", int64(l.MaxParts)},
		{"maxNameLength", int64(l.MaxNameLength)}, {"maxMetadataBytes", int64(l.MaxMetadataBytes)}, {"maxJsonBody", int64(l.MaxJSONBody)},
		{"maxHeaderBytes", int64(l.MaxHeaderBytes)}, {"maxPageSize", int64(l.MaxPageSize)}, {"maxRanges", int64(l.MaxRanges)},
		{"uploadIdleSeconds", l.UploadIdleSeconds}, {"putSeconds", l.PutSeconds}, {"minBytesPerSecond", l.MinBytesPerSecond},
		{"sessionTtlSeconds", l.SessionTTLSeconds}, {"channelTtlSeconds", l.ChannelTTLSeconds}, {"sessionChunksets", l.SessionChunksets},
		{"expiredGoneSeconds", l.ExpiredGoneSeconds},
	} {
		if n.value < 0 {
			return invalid(n.member, "is %d", n.value)
		}
	}
	for _, feature := range i.Features {
		if err := checkLength("features", feature, maxWord); err != nil {
			return err
		}
	}
	for _, rate := range []wire.Rate{i.Rates.Key, i.Rates.Address} {
		for name, value := range rate {
			if err := checkWord("rates", name, maxWord); err != nil {
				return err
			}
			if value < 0 {
				return invalid(name, "is %d", value)
			}
		}
	}
	for member, text := range map[string]string{
		"version": i.Version, "profile": i.Profile, "reads": i.Reads, "receiver": i.Payment.Receiver, "asset": i.Payment.Asset,
		"module": i.Payment.Module, "chunksetPrice": i.Payment.ChunksetPrice, "unsettledLimit": i.Payment.UnsettledLimit, "settlement": i.Payment.Settlement,
		"startingLimit": i.Payment.StartingLimit, "minGas": i.Payment.MinGas, "minGasPrice": i.Payment.MinGasPrice, "maxGasPrice": i.Payment.MaxGasPrice, "maxFee": i.Payment.MaxFee,
	} {
		if err := checkLength(member, text, maxWord); err != nil {
			return err
		}
	}
	if _, err := url.Parse(i.URL); err != nil || len(i.URL) > maxSentence {
		return invalid("url", "is not one: %s", shown(i.URL))
	}
	return nil
}
