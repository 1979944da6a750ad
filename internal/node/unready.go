package node

import (
	"context"
	"log/slog"
	"net/http"

	"sluice/httpapi"
)

// unready answers clients and load balancers that this node is not ready, while it waits for older
// nodes to end before it can open its stores.
type unready struct {
	config *Config
	cert   *certificate // nil without TLS
	log    *slog.Logger
	server *http.Server // nil before the first wait
	failed <-chan error // has the server's error
	reason string       // that was logged last
}

// wait begins to answer, unless it has begun, and logs a reason that is new.
func (u *unready) wait(ctx context.Context, reason error) error {
	if u.server == nil {
		listeners, _, err := listenForClients(ctx, u.config.Addr, u.log)
		if err != nil {
			return err
		}
		u.server = httpapi.NewUnreadyServer(u.log)
		if u.cert != nil {
			u.server.TLSConfig = u.cert.config()
		}
		u.failed = serveHTTP(u.server, listeners)
	}
	select {
	case err := <-u.failed:
		return err
	default:
	}
	if u.reason != reason.Error() {
		u.reason = reason.Error()
		u.log.Warn("not ready: the database is migrated, and this node starts, once older nodes have ended", "reason", reason)
	}
	return nil
}

// stop ends the answers, so that the node can listen on the address.
func (u *unready) stop() error {
	if u.server == nil {
		return nil
	}
	u.log.Info("the older nodes have ended")
	return u.server.Close()
}
