package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"sluice/internal/gcfloor"
	"sluice/internal/logbuffer"
	"sluice/internal/node"
)

// minHeap is the size of the heap, in bytes, below which no garbage is collected. It takes the
// processor time of small requests from collections, of which each costs about the same.
const minHeap = 64 << 20

type serveCommand struct {
	serveFlags
}

// Help returns examples.
func (serveCommand) Help() string {
	return examples("sluice serve", "sluice serve --addr localhost:0 --data ./data", "sluice serve --config sluice.yaml")
}

// Run serves until SIGINT or SIGTERM, then drains; SIGHUP reloads the TLS
// certificate. See node.Node.Run for errors.
func (c *serveCommand) Run(console *console) error {
	lines := logbuffer.New(console.err)
	defer func() { _ = lines.Flush() }() // an error could only be logged
	log, requests := lines.Loggers(c.LogFormat, &slog.HandlerOptions{Level: c.LogLevel})
	gcfloor.Set(minHeap)
	ignoreSignals()
	// Without TLS there is nothing to reload, but SIGHUP must not end the process.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	n, err := node.Open(context.Background(), c.nodeConfig(), log, requests)
	if err != nil {
		return err
	}
	// Until now a signal ends the process immediately, which is safe during a start.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if _, err := fmt.Fprintf(console.out, "sluice %s listening on %s (data in %s)\n", version(), n.URL(), c.Data); err != nil {
		log.Warn("cannot print the address of the service", "error", err)
	}
	log.Info("serving", "version", version(), "go", runtime.Version(), "url", n.URL(), slog.Group("settings", settingAttrs(c.settings(console))...))
	return n.Run(signals, reload)
}
