package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/task"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

const (
	// lookEvery is how often each host is looked at: through a connection that is kept if the DSN
	// names several, otherwise through a new one, while a COMMIT waits for longer than commitSlow.
	lookEvery = 2 * time.Second
	// commitSlow is how long a COMMIT may take before its server must show that it responds.
	commitSlow = 2 * time.Second
	// lookTimeout is how long a host may take to show its server.
	lookTimeout = 5 * time.Second
	// keptTimeout is how much of that the kept connection may use. The rest is for a new one.
	keptTimeout = 2 * time.Second
	// reconnectEvery is how often connecting to a host is tried meanwhile.
	reconnectEvery = 500 * time.Millisecond
	// firstLook is how long an opening waits for the hosts.
	firstLook = 2 * time.Second
)

// host is one that the DSN names.
type host struct {
	targets []*pgconn.FallbackConfig // that pgx tries for it, such as with TLS and without
	config  *pgconn.Config           // leads to this host only
	conn    *pgconn.PgConn           // kept; nil: there is none
	looked  chan struct{}            // closed when it has responded, or failed to, for the first time

	// The lock of sessions protects these.
	started int64 // the server that responded last; 0: none has
	term    int64 // in which that was the newest primary; 0: it was not
	failed  bool  // it did not respond the last time
}

// errSilent is why a server's sessions end that hangs.
var errSilent = fmt.Errorf("sqlstore: the PostgreSQL server has not responded for %s: if it hangs, promote a standby", lookTimeout)

// hosts are all that the DSN names. They find out which is the newest primary, and whether a server
// hangs for which COMMITs wait.
type hosts struct {
	all      *sessions
	list     []*host
	onSilent func(error) // called when a server was found to hang; it must not wait
	quit     context.CancelFunc
	running  sync.WaitGroup
}

// newHosts returns the hosts in a configuration that pgx has parsed.
func newHosts(all *sessions, config *pgconn.Config) *hosts {
	w := &hosts{all: all, onSilent: func(error) {}, quit: func() {}}
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	for _, t := range append([]*pgconn.FallbackConfig{first}, config.Fallbacks...) {
		if n := len(w.list); n > 0 && w.list[n-1].targets[0].Host == t.Host && w.list[n-1].targets[0].Port == t.Port {
			w.list[n-1].targets = append(w.list[n-1].targets, t)
			continue
		}
		w.list = append(w.list, &host{targets: []*pgconn.FallbackConfig{t}, looked: make(chan struct{})})
	}
	for _, h := range w.list {
		h.config = config.Copy()
		leadTo(h.config, h.targets)
		h.config.RuntimeParams["application_name"] += " watch"
		h.config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
		}
	}
	return w
}

// leadTo makes a configuration lead to targets, in this order.
func leadTo(config *pgconn.Config, targets []*pgconn.FallbackConfig) {
	config.Host, config.Port, config.TLSConfig = targets[0].Host, targets[0].Port, targets[0].TLSConfig
	config.Fallbacks = targets[1:]
}

// order makes a new connection try the newest primary first, then hosts that have shown nothing
// yet, then other hosts, and last those that did not respond.
func (w *hosts) order(config *pgconn.Config) {
	if len(w.list) == 1 {
		return
	}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	rank := func(h *host) int {
		switch {
		case h.failed:
			return 3
		case h.started == 0:
			return 1
		case h.term != 0 && h.term == w.all.term:
			return 0
		default:
			return 2
		}
	}
	var targets []*pgconn.FallbackConfig
	for _, h := range slices.SortedStableFunc(slices.Values(w.list), func(a, b *host) int { return cmp.Compare(rank(a), rank(b)) }) {
		targets = append(targets, h.targets...)
	}
	leadTo(config, targets)
}

// start begins to look at the hosts, and waits for the first results of several, so that an older
// primary is not used before a newer one was seen.
func (w *hosts) start(ctx context.Context) {
	watching, quit := context.WithCancel(context.Background())
	w.quit = quit
	for _, h := range w.list {
		w.running.Go(func() { w.watch(watching, h) })
	}
	if len(w.list) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	for _, h := range w.list {
		select {
		case <-h.looked:
		case <-ctx.Done():
		}
	}
}

// stop ends the goroutines that start began.
func (w *hosts) stop() {
	w.quit()
	w.running.Wait()
}

// watch looks at a host until ctx ends.
func (w *hosts) watch(ctx context.Context, h *host) {
	defer h.drop()
	task.Repeat(ctx, 0, lookEvery, func() {
		if len(w.list) > 1 {
			w.look(ctx, h)
		} else if w.all.waiting(commitSlow) > 0 {
			w.look(ctx, h)
			h.drop()
		}
	})
}

// look finds out which server a host has now.
func (w *hosts) look(ctx context.Context, h *host) {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	one, err := h.ask(looking)
	if ctx.Err() != nil {
		return
	}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	var refusal *pgconn.PgError
	switch {
	case err == nil:
		h.started, h.term, h.failed = one.started, 0, false
		if one.timeline != 0 && !one.readOnly && w.all.see(one) == nil {
			h.term = w.all.term
		}
	case errors.As(err, &refusal): // it responds, for example that it has too many connections
		h.failed = false
	default:
		h.failed = true
		w.findSilent(h)
	}
}

// findSilent ends the sessions with a server that did not respond through this host, if COMMITs
// wait for it. A standby that is away is no reason: the server that waits for it responds. The
// caller holds the lock.
func (w *hosts) findSilent(h *host) {
	for started := range w.all.commits(commitSlow) {
		if !slices.ContainsFunc(w.list, func(other *host) bool { return other != h && other.started == started && !other.failed }) {
			w.all.endSilent(started, errSilent)
			w.onSilent(errSilent)
		}
	}
}

// ask asks a host's server for its state, until it responds or ctx ends.
func (h *host) ask(ctx context.Context) (server, error) {
	for {
		one, err := h.askOnce(ctx)
		select {
		case <-h.looked:
		default:
			close(h.looked)
		}
		var refusal *pgconn.PgError
		if err == nil || errors.As(err, &refusal) {
			return one, err
		}
		if task.Wait(ctx, reconnectEvery) != nil {
			return server{}, err
		}
	}
}

func (h *host) askOnce(ctx context.Context) (server, error) {
	if h.conn != nil {
		asking, cancel := context.WithTimeout(ctx, keptTimeout)
		defer cancel()
		if one, err := askServer(asking, h.conn); err == nil {
			return one, nil
		}
		h.drop()
	}
	config := h.config.Copy()
	var connected atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, addr)
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return server{}, err
	}
	connected.Store(true)
	h.conn = conn
	one, err := askServer(ctx, conn)
	if err != nil {
		h.drop()
	}
	return one, err
}

// drop closes the kept connection.
func (h *host) drop() {
	if h.conn == nil {
		return
	}
	// A server that hangs must not delay it.
	ctx, cancel := context.WithTimeout(context.Background(), reconnectEvery)
	defer cancel()
	_ = h.conn.Close(ctx) // only a query was on it
	_ = h.conn.Conn().Close()
	h.conn = nil
}
