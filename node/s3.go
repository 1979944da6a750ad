package node

import (
	"context"
	"errors"
	"net/url"
	"syscall"

	"sluice/s3api"
)

// newS3 creates S3's interface on the services.
func (n *Node) newS3() *s3api.Server {
	return s3api.New(s3api.Config{
		Exchanges: n.api.Service,
		Blobs:     n.blobs,
		Keys:      n.keys,
		Reads:     n.config.Reads,
		Places:    n.places,
		Admin:     n.newAdmin(),
		Domains:   n.config.S3Domains,
		Host:      n.externalHost(),
		Aliases:   n.aliases,

		UnsignedPayload: n.config.S3Unsigned,
		Encrypted:       n.config.S3Encrypted,
	})
}

// externalHost returns the external URL's host name, which was validated, or "".
func (n *Node) externalHost() string {
	external, err := url.Parse(n.config.ExternalURL)
	if err != nil {
		return ""
	}
	return external.Hostname()
}

// listenForS3 listens on the address for S3, if there is one. A local instance does without if the
// default port is not free.
func (n *Node) listenForS3(ctx context.Context) (err error) {
	addr := n.config.S3Addr
	switch {
	case addr == S3Off, addr == "" && n.config.Profile == Hosted:
		return nil
	case addr == "":
		n.s3Listeners, n.s3Port, err = listen(ctx, "--s3-addr", defaultS3Addr, n.log)
		if errors.Is(err, syscall.EADDRINUSE) {
			n.log.Debug("not serving S3: the port is in use", "address", defaultS3Addr)
			return nil
		}
		return err
	}
	n.s3Listeners, n.s3Port, err = listen(ctx, "--s3-addr", addr, n.log)
	return err
}

// S3URL returns the base URL for S3's clients on this machine, or "" if S3 is not served.
func (n *Node) S3URL() string {
	if n.s3Port == 0 {
		return ""
	}
	addr := n.config.S3Addr
	if addr == "" {
		addr = defaultS3Addr
	}
	return n.urlOf(addr, n.s3Port)
}
