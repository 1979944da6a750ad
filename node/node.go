// Package node runs a node: it opens the stores, puts the services and the HTTP
// interface on them, listens, does the background work, and drains.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/access"
	"sluice/access/sealed"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/collect"
	"sluice/database"
	"sluice/feed"
	"sluice/history"
	"sluice/httpapi"
	"sluice/internal/auditlog"
	"sluice/internal/connlimit"
	"sluice/internal/datadir"
	"sluice/internal/httpconn"
	"sluice/internal/lease"
	"sluice/internal/metrics"
	"sluice/internal/tracing"
	"sluice/internal/vfs"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/storage"
	"sluice/webhook"
)

// Node is a running instance, or one of several nodes of it.
type Node struct {
	config      Config
	log         *slog.Logger
	requestLog  *slog.Logger
	metrics     *metrics.Set
	tracer      *tracing.Tracer // nil: no traces
	cert        *certificate    // nil without TLS
	stores      *storage.Stores
	blobs       *blob.Service
	feed        *feed.Hub
	webhooks    *webhook.Sender
	secrets     *sealed.Box // seals webhooks' secrets; nil: there is no key
	sessions    *session.Service
	channels    *paychan.Service
	receiver    *receiverAccount   // nil without a chain
	collector   *collect.Collector // nil without a chain
	returns     *metering.Returns
	keys        *access.Authenticator // nil for a local instance
	places      *access.Places        // settings of who may read
	aliases     *blob.Aliases         // of S3's buckets
	s3Secrets   *sealed.Box           // nil: keys have no S3 secrets
	api         *httpapi.Server
	limiter     *access.Limiter // of keys and addresses
	connections *connlimit.Limiter
	audit       *auditlog.Log // nil: there is none
	members     *membership   // nil if no other node can run
	tasks       *taskLog
	board       *taskBoard
	state       nodeState
	census      *census
	unmet       atomic.Pointer[[]storage.ConditionName] // by the last check of ready; nil: none was made
	seeded      Seeded

	listeners   []net.Listener // of the native interface, and by Run of all
	port        int
	s3Listeners []net.Listener // none if S3 is not served
	s3Port      int            // 0 if S3 is not served
	stopAdmin   func() error
}

// Open opens the stores and listens. The configuration must be valid. requests gets a line for each
// request, and log all other lines. When Open returns, clients can connect, and the caller must
// call Run, which serves them.
func Open(ctx context.Context, c Config, log, requests *slog.Logger) (_ *Node, err error) {
	n := &Node{config: c, log: log, requestLog: requests, metrics: metrics.NewSet(), tasks: newTaskLog(c.intervals(), newTaskLines(log))}
	if c.TLSCert != "" {
		if n.cert, err = loadCertificate(c.TLSCert, c.TLSKey); err != nil {
			return nil, err
		}
	}
	if err := n.openReceiver(ctx); err != nil {
		return nil, err
	}
	if n.connections, err = c.newConnections(); err != nil {
		return nil, err
	}
	if datadir.Unused(c.Location.Data) {
		// A start that cannot succeed must not leave a new instance behind.
		if err := c.checkAddresses(ctx); err != nil {
			return nil, err
		}
	}
	if err := n.openStores(ctx); err != nil {
		return nil, err
	}
	if from, to := n.stores.MigratedFrom, n.stores.MigratedTo; to > 0 {
		log.Info("the metadata has been migrated: an older version of sluice does not open it any more", "from_schema", from, "to_schema", to)
	}
	if c.Profile == Local {
		n.stores.Bytes = bytestore.Timed(n.stores.Bytes) // for Server-Timing
	}
	if c.AuditLog != "" { // it may be in the data folder, which a new instance has from here on
		if n.audit, err = auditlog.Open(strings.TrimPrefix(c.AuditLog, auditReads), log); err != nil {
			return nil, errors.Join(fmt.Errorf("--audit-log: %w", err), n.stores.Close())
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, n.audit.Close())
			}
		}()
	}
	if err := n.openTraces(ctx); err != nil {
		return nil, errors.Join(err, n.stores.Close())
	}
	if err := n.openServices(ctx); err != nil {
		return nil, errors.Join(err, n.stores.Close())
	}
	n.registerMetrics()
	if c.Seed != "" {
		if err := n.seedFrom(ctx, c.Seed); err != nil {
			return nil, errors.Join(err, n.stores.Close())
		}
	}
	if n.stopAdmin, err = startAdmin(ctx, c.AdminAddr, adminMux(n.metrics, n.api, log), log); err != nil {
		return nil, errors.Join(err, n.stores.Close())
	}
	if n.listeners, n.port, err = listenForClients(ctx, c.Addr, log); err != nil {
		return nil, errors.Join(err, n.stopAdmin(), n.stores.Close())
	}
	if err := n.listenForS3(ctx); err != nil {
		return nil, errors.Join(append(closeAll(n.listeners), err, n.stopAdmin(), n.stores.Close())...)
	}
	if !c.Location.Shared() {
		n.warnOfNetwork(c.Location.Data)
	}
	if c.OpenToNetwork {
		log.Warn("open to the network: everyone who can connect to this address can read and write everything")
	}
	if c.Profile == Hosted && n.receiver == nil {
		log.Warn("payments are recorded in the embedded ledger and not collected: set --chain-url and --receiver-key-file to collect them")
	}
	if n.receiver != nil && c.CoinPrice == 0 {
		log.Warn("what a coin of the chain is worth is not known, so fees are not compared with what they collect: set --coin-price")
	}
	if c.ExternalURL != "" {
		log.Info("clients use the external URL", "url", c.ExternalURL)
	}
	return n, nil
}

// warnOfNetwork logs a warning if a data folder, or the folder of its bytes, may be on another
// machine.
func (n *Node) warnOfNetwork(data string) {
	for _, dir := range []string{data, filepath.Join(data, datadir.Bytes)} {
		if system, err := vfs.NetworkFS(dir); err != nil || system != "" {
			n.log.Warn("the data folder may be on another machine: locks and synced writes are not certain there, so that two servers could use it and acknowledged writes be lost: use a local disk, or PostgreSQL and an object store",
				"folder", dir, "file_system", system, "error", err)
			return
		}
	}
}

// openStores opens the stores. While it checks the database, it answers that the node is not ready.
func (n *Node) openStores(ctx context.Context) (err error) {
	waiting := &unready{config: &n.config, cert: n.cert, log: n.log}
	opt := n.config.Storage
	files, err := openFileLimit()
	if err != nil {
		return err
	}
	opt.OpenFiles = keptFilesFor(files)
	opt.Node, opt.Done = n.config.nodeName(), n.done
	opt.Looking = func(now storage.Steps) error { return waiting.look(ctx, now) }
	opt.Damaged = n.databaseDamaged
	if n.stores, err = storage.Open(ctx, n.config.Location, opt); err != nil {
		return errors.Join(err, waiting.stop())
	}
	if err := waiting.stop(); err != nil {
		return errors.Join(err, n.stores.Close())
	}
	n.looked(n.stores.Look)
	return nil
}

// looked logs a check's finding, if there was a check.
func (n *Node) looked(l storage.Look) {
	took := slog.Float64("took_seconds", l.Took.Round(time.Millisecond).Seconds())
	switch how := l.SetBack(); {
	case l.Why == "":
	case how != "":
		n.log.Error("blobs can be read, and everything else is refused: run sluice recover", "reason", how, took)
	default:
		n.log.Info("the database is whole and has all of its objects, which is recorded", "objects", l.Found.Objects, took)
	}
}

// databaseDamaged logs that the quick check has found damage, or could not be made.
func (n *Node) databaseDamaged(err error) {
	n.log.Error("the quick check of the database has found damage, or could not be made: see the runbook", "error", err)
}

// done counts the chunksets and payments that this node has acknowledged.
func (n *Node) done() history.Done {
	if n.api == nil { // it is starting
		return history.Done{}
	}
	channels := n.channels.Stats()
	return history.Done{Chunksets: n.sessions.Stats().Chunksets, Payments: channels.Purchases + channels.Reads}
}

// seedFrom stores the files of Config.Seed, and logs each file that was skipped.
func (n *Node) seedFrom(ctx context.Context, dir string) (err error) {
	if err := n.awaitHistory(ctx); err != nil {
		return fmt.Errorf("--seed %s: %w", dir, err)
	}
	if n.seeded, err = seed(ctx, n.blobs, dir); err != nil {
		return fmt.Errorf("--seed %s: %w", dir, err)
	}
	for _, one := range n.seeded.Skipped {
		n.log.Warn("a file of the seed was skipped", "file", one.Name, "reason", one.Err)
	}
	return nil
}

// awaitHistory waits until the node may write, before runBackground watches the history.
func (n *Node) awaitHistory(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { n.stores.History.Watch(watching, func(error, error) {}) })
	defer watch.Wait()
	defer stop()
	return n.stores.History.Await(ctx)
}

// Seeded reports what Open has stored from the folder of Config.Seed.
func (n *Node) Seeded() Seeded { return n.seeded }

// URL returns the node's base URL for clients on this machine.
func (n *Node) URL() string { return n.urlOf(n.config.Addr, n.port) + n.config.BasePath }

// urlOf returns the URL of a listener on an address, with the port that was chosen.
func (n *Node) urlOf(addr string, port int) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		host = "localhost"
	}
	scheme := "http://"
	if n.cert != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(port))
}

// Run serves until it receives from signals, then it drains: a second signal ends
// the drain wait, a further one aborts the running requests. A value from reload
// reloads the TLS certificate and reopens the audit log. Run returns nil if all
// requests completed within the drain deadline.
//
// Run also drains when a store accepts no writes until it is opened again. It
// returns the reason, so that the process exits and a supervisor starts it again.
func (n *Node) Run(signals, reload <-chan os.Signal) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { n.runBackground(ctx, reload) })
	server := n.server()
	failed := server.start(n.listeners)

	var err, stopped error
	wait, deadline := n.config.DrainWait, n.config.DrainDeadline
	select {
	case err = <-failed:
	case s := <-signals:
		n.log.Info("draining", "signal", s.String(), "wait_seconds", wait.Seconds(), "deadline_seconds", deadline.Seconds())
		err = n.drain(server, signals)
	case <-n.stores.MetaStopped:
		stopped = n.stores.Ready(ctx)
	case <-n.stores.BytesStopped:
		stopped = n.stores.Ready(ctx)
	}
	if stopped != nil {
		n.log.Error("no more writes are possible in this process: draining, to be started again", "cause", stopped, "wait_seconds", wait.Seconds(), "deadline_seconds", deadline.Seconds())
		err = n.drain(server, signals)
	}
	stop()
	n.api.FlushLog()
	if err := n.audit.Close(); err != nil {
		n.log.Error("cannot write the audit log", "error", err)
	}
	n.closeTraces()
	if err = errors.Join(err, n.stopAdmin(), n.returns.Close()); err != nil {
		// Requests are still running. Closing their stores would only add errors,
		// and everything acknowledged is already durable.
		return errors.Join(stopped, err)
	}
	background.Wait()
	// On a full disk this frees the space that the next start needs.
	return errors.Join(stopped, n.stores.Close())
}

// drain drains the server and logs how that ended.
func (n *Node) drain(server *drainingServer, signals <-chan os.Signal) error {
	began := time.Now()
	n.api.Drain()
	n.members.stateChanged()
	err := errors.Join(n.stores.Leave(), server.drain(n.config.DrainWait, n.config.DrainDeadline, signals))
	took := slog.Float64("took_seconds", time.Since(began).Round(time.Millisecond).Seconds())
	if err != nil {
		n.log.Warn("drained, and requests were cut off", took, slog.Any("error", err))
	} else {
		n.log.Info("drained: all requests have completed", took)
	}
	return err
}

// runBackground does the background work until ctx ends.
func (n *Node) runBackground(ctx context.Context, reload <-chan os.Signal) {
	report := func(what string, err error) { n.log.Error("background task failed", "task", what, "error", err) }
	defer n.tasks.lines.flush()
	leaderWork := n.whilePermitted(n.lead)
	makeReturns := n.whilePermitted(func(ctx context.Context) {
		n.returns.Replay(ctx)
		n.returns.Run(ctx)
	})
	var tasks sync.WaitGroup
	if n.config.Location.Shared() {
		tasks.Go(func() { lease.Lead(ctx, n.stores.Meta, lease.Background, report, leaderWork) })
	} else {
		tasks.Go(func() { leaderWork(ctx) })
	}
	tasks.Go(func() { makeReturns(ctx) })
	tasks.Go(func() { n.api.Record(ctx) })
	tasks.Go(func() { n.blobs.WatchDamage(ctx, func(err error) { report("watch damage", err) }) })
	tasks.Go(func() { n.aliases.Run(ctx, func(err error) { report("watch aliases", err) }) })
	tasks.Go(func() { n.places.Run(ctx, func(err error) { report("watch places", err) }) })
	if n.keys != nil {
		tasks.Go(func() { n.keys.Run(ctx, func(err error) { report("watch keys", err) }) })
	}
	tasks.Go(func() { n.stores.History.Watch(ctx, n.historyChanged) })
	tasks.Go(func() { watchDatabaseClock(ctx, n.stores.Meta, time.Now, n.log) })
	if n.members != nil {
		n.members.stateChanged() // it serves from now on
		tasks.Go(func() { n.members.watch(ctx) })
	}
	if n.receiver != nil {
		tasks.Go(func() { n.receiver.watch(ctx, n.log) })
		tasks.Go(func() { n.receiver.clock.watch(ctx, n.log) })
		tasks.Go(func() { n.receiver.watchGas(ctx, n.channels, &n.config, n.log) })
	}
	certificates := make(chan os.Signal, 1)
	if n.cert != nil {
		tasks.Go(func() { n.cert.watch(ctx, certificates, n.log) })
	}
	tasks.Go(func() { n.reopenFiles(ctx, reload, certificates) })
	tasks.Wait()
}

// reopenFiles reopens the audit log for each signal, and passes it on, until ctx ends.
func (n *Node) reopenFiles(ctx context.Context, reload <-chan os.Signal, certificates chan<- os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-reload:
			n.audit.Reopen()
			select {
			case certificates <- s:
			default: // a signal is pending, or nobody waits for it
			}
		}
	}
}

// lead does the leader's work until ctx ends. It begins once it is known which tasks are paused.
func (n *Node) lead(ctx context.Context) {
	if !n.board.open(ctx) {
		return
	}
	n.tasks.lead(time.Now())
	defer n.tasks.lead(time.Time{})
	n.members.stateChanged()
	var tasks sync.WaitGroup
	tasks.Go(func() { n.board.run(ctx) })
	tasks.Go(func() { n.blobs.Run(ctx, n.tasks.control) })
	tasks.Go(func() { n.webhooks.Run(ctx, n.tasks.control) })
	if n.collector != nil {
		tasks.Go(func() { n.collector.Run(ctx, n.tasks.note) })
	} else {
		tasks.Go(func() { n.channels.Run(ctx, n.tasks.note) })
	}
	tasks.Go(func() { n.channels.Review(ctx, n.tasks.note) })
	tasks.Go(func() { n.census.run(ctx, n.tasks.control) })
	tasks.Wait()
}

// whilePermitted returns work that runs while commits are permitted, because it fails without that.
func (n *Node) whilePermitted(work func(context.Context)) func(context.Context) {
	return func(ctx context.Context) { n.stores.History.While(ctx, work) }
}

// historyChanged logs whether this process may change the instance. If it may again, it starts the
// deletions that waited for it.
func (n *Node) historyChanged(before, now error) {
	switch {
	case errors.Is(now, database.ErrSetBack):
		n.log.Error("everything but reads is refused", "error", now)
	case errors.Is(now, history.ErrFenced):
		n.log.Error("deletions have stopped and writes are refused", "error", now)
	case now == nil && errors.Is(before, database.ErrSetBack):
		n.log.Info("another generation has begun: writes continue", "generation", n.stores.History.Generation())
		n.blobs.FreeSoon()
	case now == nil:
		n.log.Info("no other database uses these bytes: deletions and writes continue")
		n.blobs.FreeSoon()
	case !errors.Is(now, history.ErrFenceWaits):
		n.log.Error("deletions have stopped", "error", now)
	}
}

// server returns the HTTP server, and applies the limits of connections to the
// listeners.
func (n *Node) server() *drainingServer {
	handler := doors{n.api, n.newS3(), n.s3Port}
	server := &drainingServer{api: n.api, http: n.api.ServerOf(handler), connections: n.connections}
	server.http.RegisterOnShutdown(n.feed.Close) // so that requests that wait for changes end
	n.connections.Attach(server.http)
	n.listeners = append(n.listeners, n.s3Listeners...)
	for i, l := range n.listeners {
		n.listeners[i] = n.connections.Listener(l, n.cert != nil)
	}
	n.listeners = httpconn.Adopt(server.http, n.listeners, runtime.Version(), n.log)
	if n.cert != nil {
		server.http.TLSConfig = n.cert.config()
	}
	return server
}
