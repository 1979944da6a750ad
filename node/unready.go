package node

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/httpapi"
	"sluice/storage"
)

// lookLineEvery is the time between two lines about how far a check is.
const lookLineEvery = 10 * time.Second

// unready answers clients and load balancers that this node is not ready, while it checks a
// database that is not recorded as whole.
type unready struct {
	config *Config
	cert   *certificate // nil without TLS
	log    *slog.Logger
	server *http.Server           // nil before the first answer
	failed <-chan error           // has the server's error
	doing  atomic.Pointer[string] // the work that responses name; nil: none
	line   time.Time              // of the last line about a check
}

// look begins to answer, unless it has begun, and logs how far a check is: when it
// begins, and every 10 seconds.
func (u *unready) look(ctx context.Context, now storage.Steps) error {
	u.doing.Store(new(now.String()))
	if u.line.IsZero() {
		u.log.Warn("not ready: the database and its objects are checked before they are used", "reason", now.Why)
		u.line = time.Now()
	}
	if time.Since(u.line) >= lookLineEvery {
		u.log.Info("not ready: "+now.String(), "what", now.What, "done", now.Done, "total", now.Total)
		u.line = time.Now()
	}
	return u.answer(ctx)
}

// answer begins to answer, unless it has begun.
func (u *unready) answer(ctx context.Context) error {
	if u.server == nil {
		listeners, _, err := listenForClients(ctx, u.config.Addr, u.log)
		if err != nil {
			return err
		}
		u.server = httpapi.NewUnreadyServer(u.log, u.doing.Load)
		if u.cert != nil {
			u.server.TLSConfig = u.cert.config()
		}
		u.failed = serveHTTP(u.server, listeners)
	}
	select {
	case err := <-u.failed:
		return err
	default:
		return nil
	}
}

// stop ends the answers, so that the node can listen on the address.
func (u *unready) stop() error {
	if u.server == nil {
		return nil
	}
	return u.server.Close()
}
