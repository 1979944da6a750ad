package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/load"
)

// benchCommand measures a server.
type benchCommand struct {
	Workload workload      `arg:"" help:"What to do: put, get, range, multipart, use or mixed."`
	Target   remoteOperand `arg:"" name:"prefix" optional:"" default:"bench/" help:"ACCOUNT or ACCOUNT/PREFIX/ below which blobs are stored, with names of their own."`

	Connections int           `short:"c" env:"-" default:"32" help:"Number of connections, each with one operation at a time."`
	Duration    time.Duration `short:"d" env:"-" help:"Time to measure. Default: 10s, or no limit with --count."`
	Count       int64         `short:"n" env:"-" placeholder:"N" help:"Number of operations to measure. Default: no limit."`
	Rate        float64       `env:"-" placeholder:"N" help:"Operations a second, at fixed times, whether the server keeps up or not; latencies count from these times. Default: each connection sends an operation when its last one has ended."`
	Timeout     time.Duration `env:"-" default:"60s" help:"Time without a byte sent or received after which an operation fails."`

	Size     load.Sizes `env:"-" group:"Operations:" default:"4KiB" placeholder:"SIZE" help:"Size of the blobs, or sizes with weights, such as 4KiB=90,1MiB=10."`
	Blobs    int64      `env:"-" group:"Operations:" default:"1000" help:"Number of different blobs. More writes than that replace them."`
	Range    partSize   `env:"-" group:"Operations:" placeholder:"SIZE" help:"Size of the ranges of range, at random places. Default: 1MiB."`
	PartSize partSize   `env:"-" group:"Operations:" placeholder:"SIZE" help:"Size of the parts of multipart, at most 5GiB. Default: 1MiB."`
	Sessions int        `env:"-" group:"Operations:" default:"1" help:"Number of different sessions of use, which are created and, when they are used up, replaced."`
	Session  []string   `env:"-" group:"Operations:" placeholder:"ID" help:"Existing session for use, in place of new ones, and for paid reads. The flag may be repeated."`
	Mix      string     `env:"-" group:"Operations:" default:"get=70,put=20,use=10" help:"Weights of the operations of mixed."`

	serverFlags
	outputFlags
}

// workload is a workload's name.
type workload string

// workloadMixed is the workload of several kinds of operations.
const workloadMixed = "mixed"

// workloads are the workloads of one kind of operations.
var workloads = map[workload]load.Kind{"put": load.Put, "get": load.Get, "range": load.Range, "multipart": load.Multipart, "use": load.Use}

// UnmarshalText parses the name.
func (w *workload) UnmarshalText(text []byte) error {
	*w = workload(text)
	if _, ok := workloads[*w]; !ok && *w != workloadMixed {
		return fmt.Errorf("there is no workload %q: want put, get, range, multipart, use or mixed", text)
	}
	return nil
}

// Help describes the command and returns examples.
func (*benchCommand) Help() string {
	return `Measures a server: sends operations over many connections, and prints how many there were a second,
and how long they took. It stores the blobs that it needs before, and removes them afterwards, also
after Ctrl-C. Sessions cannot be removed; they expire.

` + examples("sluice bench get", "sluice bench put team/tmp/ --size 4KiB=90,1MiB=10 -c 64 -d 30s", "sluice bench get --rate 5000 --blobs 100000 --json",
		"sluice bench mixed --mix get=90,put=10 --context prod")
}

// Validate checks the flags.
func (c *benchCommand) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > 100_000:
		return fmt.Errorf("--connections %d: must be from 1 to 100000", c.Connections)
	case c.Duration < 0:
		return fmt.Errorf("--duration %s: must be positive", c.Duration)
	case c.Count < 0:
		return fmt.Errorf("--count %d: must be at least 1", c.Count)
	case c.Rate < 0 || c.Rate > 1e7:
		return fmt.Errorf("--rate %g: must be more than 0 and at most 10000000", c.Rate)
	case c.Timeout < time.Millisecond:
		return fmt.Errorf("--timeout %s: must be at least 1ms", c.Timeout)
	case c.Blobs < 1:
		return fmt.Errorf("--blobs %d: must be at least 1", c.Blobs)
	case c.Sessions < 1 || c.Sessions > 1_000_000:
		return fmt.Errorf("--sessions %d: must be from 1 to 1000000", c.Sessions)
	}
	if _, err := load.ParseMix(c.Mix); err != nil {
		return fmt.Errorf("--mix: %w", err)
	}
	return nil
}

// Run measures the server and prints the result.
func (c *benchCommand) Run(ctx context.Context, console *console) error {
	server, err := c.server()
	if err != nil {
		return err
	}
	w, err := c.workload(console, server)
	if err != nil {
		return err
	}
	b := &benchRun{command: c, console: console, server: server, workload: w, progress: terminal.NewProgress(console.err, c.Quiet || c.JSON)}
	return b.run(ctx)
}

// workload returns the workload that the flags describe.
func (c *benchCommand) workload(console *console, server contexts.Server) (*load.Workload, error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	to, err := newClient(console, server, client.Options{StallTimeout: c.Timeout, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	target, err := load.NewTarget(to.URL(), server.Key, "sluice/"+version(), c.Timeout)
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	target.Trust(roots)
	mix := load.Only(workloads[c.Workload])
	if c.Workload == workloadMixed {
		if mix, err = load.ParseMix(c.Mix); err != nil {
			return nil, exitWith(exitUsage, err)
		}
	}
	below := asFolder(c.Target.Remote)
	return load.New(load.Options{
		Client: to, Target: target, Mix: mix, Account: below.Account, Prefix: below.Name, Blobs: c.Blobs, Sizes: c.Size,
		RangeSize: defaultSize(c.Range), PartSize: defaultSize(c.PartSize), Sessions: c.Sessions, SessionIDs: c.Session, Connections: c.Connections,
	}), nil
}

// defaultSize returns a size, or 1 MiB if it is not set.
func defaultSize(s partSize) int64 {
	if s == 0 {
		return 1 << 20
	}
	return int64(s)
}

// plan returns the plan that the flags describe.
func (c *benchCommand) plan() load.Plan {
	p := load.Plan{Duration: c.Duration, Count: c.Count, Rate: c.Rate}
	if p.Duration == 0 && p.Count == 0 {
		p.Duration = 10 * time.Second
	}
	return p
}

// benchRun is one measurement.
type benchRun struct {
	command  *benchCommand
	console  *console
	server   contexts.Server
	workload *load.Workload
	progress *terminal.Progress
}

// run prepares, measures, prints and cleans up.
func (b *benchRun) run(ctx context.Context) error {
	var recorded load.Recorder
	elapsed, err := b.measure(ctx, &recorded)
	if ctx.Err() != nil {
		b.remark("interrupted; what was stored is removed: press Ctrl-C again to leave it below " + b.place())
	}
	left, cleanErr := b.clean(ctx)
	b.progress.Close()
	if err == nil {
		err = b.print(b.printed(&recorded, elapsed, left))
	}
	total := recorded.Total()
	switch {
	case cleanErr != nil:
		return b.cleanupError(left, cleanErr, errors.Join(err, total.First))
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case total.Failed() == 0:
		return nil
	case total.Failed() == total.Done:
		return about(fmt.Sprintf("all %d operations failed; the first error is", total.Done), total.First)
	default:
		return exitWith(exitPartly, about(fmt.Sprintf("%d of %d operations failed; the first error is", total.Failed(), total.Done), total.First))
	}
}

// measure prepares and measures. It returns the measured time, and the error
// if it could not prepare.
func (b *benchRun) measure(ctx context.Context, r *load.Recorder) (time.Duration, error) {
	storing := b.count("storing blobs", b.workload.ToStore())
	err := b.workload.Prepare(ctx, storing.Set)
	storing.End()
	if err != nil {
		return 0, about("nothing was measured", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the connections
	plan := b.command.plan()
	size := plan.Count
	if size == 0 {
		size = -1
	}
	shown := b.count(string(b.command.Workload), size)
	stop := showCount(shown, r.Done)
	defer stop()
	return plan.Run(ctx, b.workload.Workers(b.command.Connections), b.workload.Kind, r), nil
}

// count shows how many things are done.
func (b *benchRun) count(name string, number int64) *terminal.Transfer {
	return b.progress.StartCount(name, number)
}

// showCount shows a growing number until the function that it returns is called.
func showCount(t *terminal.Transfer, done func() int64) (stop func()) {
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				t.Set(done())
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-gone
		t.End()
	}
}

// cleanupTime limits the removal of stored blobs, after a signal.
const cleanupTime = time.Minute

// clean removes the blobs that were stored, even if ctx is cancelled.
func (b *benchRun) clean(ctx context.Context) (load.Left, error) {
	removing := b.count("removing blobs", b.workload.ToClean())
	defer removing.End()
	interrupted := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	if interrupted {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cleanupTime, fmt.Errorf("not done within %s", cleanupTime))
		defer cancel()
	}
	return b.workload.Clean(ctx, removing.Set)
}

// cleanupError reports the blobs and uploads that are left on the server, why, and how to remove
// them.
func (b *benchRun) cleanupError(left load.Left, err, earlier error) error {
	var what []string
	if left.Blobs > 0 {
		what = append(what, fmt.Sprintf("up to %d blobs are left below %s (sluice rm -r %s removes them)", left.Blobs, terminal.Name(b.place()), terminal.Name(b.place())))
	}
	if left.Uploads > 0 {
		what = append(what, fmt.Sprintf("%d uploads are open (sluice upload ls %s lists them)", left.Uploads, terminal.Name(b.command.Target.Account)))
	}
	return errors.Join(earlier, about("not everything was removed: "+strings.Join(what, ", "), err))
}

// place returns the prefix of all blobs, for people.
func (b *benchRun) place() string {
	return operand.Remote{Account: b.command.Target.Account, Name: b.workload.Prefix()}.String()
}

// remark prints a line to stderr, unless it is not wanted.
func (b *benchRun) remark(line string) {
	if !b.command.Quiet && !b.command.JSON {
		_ = b.progress.Print(line) // an error has nowhere to go
	}
}

// print prints a measurement.
func (b *benchRun) print(p printedBench) error {
	if b.command.JSON {
		return terminal.WriteJSON(b.console.out, p)
	}
	err := p.table(b.console.out)
	for _, line := range p.remarks() {
		b.remark(line)
	}
	return err
}

// printed returns the measurement in JSON.
func (b *benchRun) printed(r *load.Recorder, elapsed time.Duration, left load.Left) printedBench {
	c := b.command
	p := printedBench{URL: b.server.URL, Workload: string(c.Workload), Connections: c.Connections, Rate: c.Rate, Seconds: elapsed.Seconds(), Operations: newPrintedAll(r, elapsed)}
	if left != (load.Left{}) {
		p.Left = &printedBenchLeftover{Blobs: left.Blobs, Uploads: left.Uploads, Sessions: left.Sessions}
		if left.Blobs > 0 {
			p.Left.Prefix = b.place()
		}
	}
	return p
}
