package blobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/client"
	"sluice/client/mirror"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/secretfile"
	"sluice/internal/units"
	"sluice/internal/vfs"
)

// Mirror keeps blobs equal to the blobs of another server.
type Mirror struct {
	From cli.RemoteOrAll `arg:"" name:"from" help:"CONTEXT:ACCOUNT/PREFIX/, CONTEXT:ACCOUNT, or CONTEXT: for all accounts."`
	To   cli.RemoteOrAll `arg:"" name:"to" help:"The same."`

	Once         bool          `env:"-" help:"Compare and copy once, and end: with exit code 5 if something could not be copied."`
	MaxDeletions int           `env:"-" placeholder:"PERCENT" default:"10" help:"Stop, with exit code 4, before a comparison, or the changes of an hour, delete more of the blobs in TO, and more than 10. 100: never."`
	CompareEvery time.Duration `env:"-" placeholder:"DURATION" default:"1d" help:"How long after a comparison the next one begins. 0s: none does while the changes are known."`
	State        string        `env:"-" type:"path" placeholder:"FILE" help:"File that remembers how far the mirror is. Default: one for FROM and TO, beside the contexts."`
	Metrics      string        `env:"-" placeholder:"HOST:PORT" help:"Serve metrics for Prometheus at http://HOST:PORT/metrics."`
	Jobs         int           `short:"j" env:"-" placeholder:"NUMBER" default:"32" help:"How many small blobs are copied at a time. Of large ones it is 4."`

	cli.RateFlag `embed:""`
	cli.ServerFlags
	cli.OutputFlags
}

// Validate checks the flags.
func (c *Mirror) Validate() error {
	if c.MaxDeletions < 0 || c.MaxDeletions > 100 || c.Jobs < 1 || c.Jobs > maxJobs || c.CompareEvery < 0 {
		return fmt.Errorf("--max-deletions must be from 0 to 100, --jobs from 1 to %d, and --compare-every not negative", maxJobs)
	}
	return nil
}

// Run mirrors until it is interrupted.
func (c *Mirror) Run(ctx context.Context, console *cli.Console) (err error) {
	from, to, err := clientsOf(console, &c.ServerFlags, c.BothWays(), operand.Operand{Remote: &c.From.Remote}, operand.Operand{Remote: &c.To.Remote})
	if err != nil {
		return err
	}
	p := &mirrorPrinter{c: c, console: console}
	o := mirror.Options{From: side(from, c.From.Remote), To: side(to, c.To.Remote), Once: c.Once, MaxDeletions: c.MaxDeletions, Compare: c.CompareEvery, Jobs: c.Jobs, Retry: time.Minute, Report: p.event}
	if _, err := mirror.New(o); err != nil {
		return cli.ExitWith(cli.ExitUsage, err)
	}
	s := &mirrorState{From: nameOf(o.From), To: nameOf(o.To)}
	lock, err := s.open(c.State)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	o.State, o.Save, o.StateDir = s.State, s.save, s.file+".uploads"
	if p.mirror, err = mirror.New(o); err == nil {
		err = os.MkdirAll(o.StateDir, 0o700)
	}
	if err != nil {
		return err
	}
	if c.Metrics != "" {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Metrics)
		if err != nil {
			return cli.Usagef("--metrics: %w", err)
		}
		server := &http.Server{Handler: http.HandlerFunc(p.metrics), ReadHeaderTimeout: 10 * time.Second}
		defer func() { err = errors.Join(err, server.Close()) }()
		go func() { _ = server.Serve(listener) }() // until it is closed
	}
	showing, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() { defer close(shown); p.keep(showing) }()
	err = p.mirror.Run(ctx)
	stop()
	<-shown
	switch {
	case errors.Is(err, mirror.ErrBrake):
		err = cli.ExitWith(cli.ExitRefused, fmt.Errorf("%w; if FROM is right, run the command once with --once --max-deletions 100, and then as before", err))
	case errors.Is(err, mirror.ErrFailed):
		err = cli.ExitWith(cli.ExitPartly, err)
	case !c.Once && errors.Is(err, context.Canceled) && p.mirror.Figures().Lag >= 0:
		err = nil // a mirror that follows has no other end
	}
	return errors.Join(err, p.err)
}

// side returns a side of the mirror.
func side(on *client.Client, of operand.Remote) mirror.Side {
	return mirror.Side{Client: on, Account: of.Account, Prefix: cli.AsFolder(of).Name}
}

func nameOf(s mirror.Side) string { return s.Client.URL() + " " + s.Account + "/" + s.Prefix }

// mirrorState is a state file.
type mirrorState struct {
	From string `json:"from"`
	To   string `json:"to"`
	mirror.State

	file string
}

// open locks the state file, and reads it if there is one. The default is a file for both sides.
func (s *mirrorState) open(file string) (*vfs.Lock, error) {
	dir, err := os.UserConfigDir()
	if file == "" && err != nil {
		return nil, fmt.Errorf("cannot find the folder for the state: %w: name a file with --state", err)
	}
	s.file = cmp.Or(file, filepath.Join(dir, "sluice", "mirrors", fmt.Sprintf("%.8x.json", sha256.Sum256([]byte(s.From+"\n"+s.To)))))
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return nil, err
	}
	lock, err := vfs.LockFile(s.file + ".lock")
	if errors.Is(err, vfs.ErrLocked) {
		return nil, cli.ExitWith(cli.ExitRefused, fmt.Errorf("another mirror uses the state file %s", s.file))
	}
	if err != nil {
		return nil, err
	}
	saved := *s
	text, err := os.ReadFile(s.file)
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err == nil && (saved.From != s.From || saved.To != s.To) {
		err = fmt.Errorf("it is of the mirror from %s to %s", saved.From, saved.To)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(cli.ExitWith(cli.ExitUsage, fmt.Errorf("the state file %s cannot be used: %w: remove it, or name another one with --state", s.file, err)), lock.Close())
	}
	s.State = saved.State
	return lock, nil
}

// save saves a state durably.
func (s *mirrorState) save(now mirror.State) error {
	text, err := json.Marshal(&mirrorState{From: s.From, To: s.To, State: now})
	if err != nil {
		return err
	}
	return secretfile.Replace(s.file, append(text, '\n'))
}

// mirrorPrinter prints the course of a mirror.
type mirrorPrinter struct {
	c       *Mirror
	console *cli.Console
	mirror  *mirror.Mirror

	mu   sync.Mutex
	err  error  // of the output
	last string // the last line with figures
}

// event prints an event.
func (p *mirrorPrinter) event(e mirror.Event) {
	line := formatTime(e.Time) + "  " + e.Kind
	if e.Account != "" {
		line += "  " + units.Bytes(e.Size) + "  " + terminal.Name(e.Account+"/"+e.Name)
	}
	if e.Reason != "" {
		line += ": " + terminal.Text(cli.LineOf(errors.New(e.Reason)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = cmp.Or(p.err, p.c.Result(p.console, e, line))
}

// keep prints the figures every ten seconds and when ctx ends: for people only if they changed.
func (p *mirrorPrinter) keep(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		f := p.mirror.Figures()
		line := fmt.Sprintf("lag %.1f s; copied %d (%s), updated %d, deleted %d; failed %d", f.Lag, f.Actions["copied"], units.Bytes(f.Bytes), f.Actions["updated"], f.Actions["deleted"], f.Failed)
		p.mu.Lock()
		if p.c.JSON {
			p.err = cmp.Or(p.err, terminal.WriteJSON(p.console.Out, struct {
				Event string `json:"event"`
				mirror.Figures
			}{"figures", f}))
		} else if line != p.last {
			p.err = cmp.Or(p.err, p.c.Remark(p.console, line))
		}
		p.last = line
		p.mu.Unlock()
	}
}

// metrics serves the figures to Prometheus.
func (p *mirrorPrinter) metrics(w http.ResponseWriter, _ *http.Request) {
	f := p.mirror.Figures()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	text := fmt.Sprintf("# HELP sluice_mirror_lag_seconds For how long the target may lack changes; -1 before the first comparison has ended.\n# TYPE sluice_mirror_lag_seconds gauge\nsluice_mirror_lag_seconds %g\n"+
		"# HELP sluice_mirror_failed_names Names that could not be mirrored, and will be tried again.\n# TYPE sluice_mirror_failed_names gauge\nsluice_mirror_failed_names %d\n"+
		"# HELP sluice_mirror_copied_bytes_total Bytes of copied blobs.\n# TYPE sluice_mirror_copied_bytes_total counter\nsluice_mirror_copied_bytes_total %d\n"+
		"# HELP sluice_mirror_actions_total Actions by kind.\n# TYPE sluice_mirror_actions_total counter\n", f.Lag, f.Failed, f.Bytes)
	for _, kind := range []string{"copied", "updated", "deleted", "failed", "away", "compared"} {
		text += fmt.Sprintf("sluice_mirror_actions_total{kind=%q} %d\n", kind, f.Actions[kind])
	}
	_, _ = io.WriteString(w, text) // or the scraper has gone
}
