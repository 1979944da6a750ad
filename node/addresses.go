package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
)

// checkAddresses returns an error if the node could not listen on its addresses now. It listens on
// all of them for a moment.
func (c *Config) checkAddresses(ctx context.Context) (err error) {
	var open []net.Listener
	defer func() { err = errors.Join(append(closeAll(open), err)...) }()
	quiet := slog.New(slog.DiscardHandler) // each line will be logged again
	try := func(listeners []net.Listener, _ int, err error) error {
		open = append(open, listeners...)
		return err
	}
	if c.AdminAddr != "" {
		if err := try(listen(ctx, "--admin-addr", c.AdminAddr, quiet)); err != nil {
			return err
		}
	}
	if err := try(listenForClients(ctx, c.Addr, quiet)); err != nil {
		return err
	}
	if c.S3Addr == "" || c.S3Addr == S3Off { // the default port may be in use
		return nil
	}
	return try(listen(ctx, "--s3-addr", c.S3Addr, quiet))
}
