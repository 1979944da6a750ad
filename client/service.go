package client

import (
	"context"
	"net/http"

	"sluice/wire"
)

// Info returns the description of the service.
func (c *Client) Info(ctx context.Context) (wire.Info, error) {
	var info wire.Info
	_, err := c.call(ctx, newRequest("service information", http.MethodGet, "/v1/info", readOnly), &info)
	return info, err
}

// Ready returns nil if the service can store and read blobs now, and ErrUnavailable with the reason if
// it cannot.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.call(ctx, newRequest("readiness", http.MethodGet, "/readyz", readOnly), nil)
	return err
}
