// Package serving has the commands that run a server and show its configuration.
package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/ephemeral"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/gcfloor"
	"sluice/internal/logbuffer"
	"sluice/node"
)

// minHeap is the Go heap's size, in bytes, below which Go does not collect garbage. A
// collection costs about the same at each size, so small requests then spend less time on it.
const minHeap = 64 << 20

// shownAfter is how long the line about a request waits on a developer's terminal: not so long that
// a person notices.
const shownAfter = 50 * time.Millisecond

// Serve runs the service.
type Serve struct {
	settings.ServeFlags
}

// Run serves until SIGINT or SIGTERM, then drains. SIGHUP reloads the TLS certificate and reopens
// the audit log; it ends a local instance that has neither like SIGTERM. See node.Node.Run for
// errors.
func (c *Serve) Run(console *cli.Console, parsed *kong.Context, read *settings.File) (err error) {
	values := c.Configuration
	config := values.NodeConfig()
	config.LogPaths = values.ForDeveloper(cli.IsTerminal(console.Err))
	wait := logbuffer.Soon
	if config.LogPaths {
		wait = shownAfter
	}
	lines := logbuffer.New(console.Err, wait)
	defer func() { _ = lines.Flush() }() // an error could only be logged
	log, requests := lines.Loggers(values.LogFormat, &slog.HandlerOptions{Level: values.LogLevel})
	if config.LogPaths {
		requests = slog.New(&terminal.Requests{Handler: log.Handler(), Out: lines, Colors: terminal.HasColors(os.Getenv)})
	}
	gcfloor.Set(minHeap)
	ignoreSignals()
	ending, reload := cli.Endings(), make(chan os.Signal, 1)
	if config.TLSCert != "" || config.AuditLog != "" || config.Profile == node.Hosted {
		ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM}
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
	}

	level := slog.LevelInfo
	if c.greets(console, config) && cli.IsTerminal(console.Err) {
		level = slog.LevelDebug // the first screen has the essentials, and must not follow other lines
	}
	if values.Ephemeral {
		folders, err := createFolders(log, level)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, folders.Remove()) }()
		config.Location.Data, config.Storage.Database = folders.Data, folders.Database
		values.Node.Location.Data = folders.Data // the effective value, which is logged
	}
	n, err := node.Open(context.Background(), config, log, requests)
	if err != nil {
		return err
	}
	// Until now a signal ends the process immediately, which is safe during a start.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ending...)
	defer signal.Stop(signals)
	if config.Seed != "" {
		seeded := n.Seeded()
		log.Log(context.Background(), level, "seeded", "blobs", seeded.Blobs, "bytes", seeded.Bytes, "accounts", seeded.Accounts, "kept", seeded.Kept, "skipped", len(seeded.Skipped))
	}
	log.Log(context.Background(), level, "serving", "version", cli.Version(), "go", runtime.Version(), "url", n.URL(), "s3_url", n.S3URL())
	log.Debug("settings", settings.Attrs(c.Effective(parsed, read))...)
	if err := c.printStart(console, n, config); err != nil {
		log.Warn("cannot print the address of the service", "error", err)
	}
	return n.Run(signals, reload)
}

// createFolders creates an ephemeral instance's folders, and logs, at the level, which folders of
// earlier ones it removes.
func createFolders(log *slog.Logger, level slog.Level) (*ephemeral.Folders, error) {
	folders, removed, err := ephemeral.Create()
	for _, path := range removed {
		log.Log(context.Background(), level, "removed the folder that an ephemeral instance had left behind when it was killed", "folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--ephemeral: %w", err)
	}
	return folders, nil
}

// greets reports whether the first screen is printed.
func (c *Serve) greets(console *cli.Console, config node.Config) bool {
	return config.Profile == node.Local && cli.IsTerminal(console.Out)
}

// printStart prints one line, for programs, or the first screen on a terminal.
func (c *Serve) printStart(console *cli.Console, n *node.Node, config node.Config) error {
	if c.greets(console, config) {
		data := config.Location.Data
		if c.Configuration.Ephemeral {
			data = filepath.Dir(data) // it is removed as a whole
		}
		first := firstScreen{version: cli.Version(), url: n.URL(), s3: n.S3URL(), data: data, console: config.Console, ephemeral: c.Configuration.Ephemeral, seed: config.Seed, seeded: n.Seeded()}
		return first.print(console.Out)
	}
	where := "data in " + config.Location.Data
	if url := n.S3URL(); url != "" {
		where += "; S3 on " + url
	}
	_, err := fmt.Fprintf(console.Out, "sluice %s listening on %s (%s)\n", cli.Version(), n.URL(), where)
	return err
}
