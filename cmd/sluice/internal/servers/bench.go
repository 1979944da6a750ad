package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/load"
)

// Bench measures a server.
type Bench struct {
	Workload workload          `arg:"" help:"What to do: put, get, range, multipart, use or mixed."`
	Target   cli.RemoteOperand `arg:"" name:"prefix" optional:"" default:"bench/" help:"ACCOUNT or ACCOUNT/PREFIX/ below which blobs are stored, with names of their own."`

	Connections int           `short:"c" env:"-" default:"32" help:"Number of connections, each with one operation at a time."`
	Duration    time.Duration `short:"d" env:"-" help:"Time to measure. Default: 10s, or no limit with --count."`
	Count       int64         `short:"n" env:"-" placeholder:"N" help:"Number of operations to measure. Default: no limit."`
	Rate        float64       `env:"-" placeholder:"N" help:"Operations a second, at fixed times, whether the server keeps up or not; latencies count from these times. Default: each connection sends an operation when its last one has ended."`
	Timeout     time.Duration `env:"-" default:"60s" help:"Time without a byte sent or received after which an operation fails."`

	Size     load.Sizes   `env:"-" group:"Operations:" default:"4KiB" placeholder:"SIZE" help:"Size of the blobs, or sizes with weights, such as 4KiB=90,1MiB=10."`
	Blobs    int64        `env:"-" group:"Operations:" default:"1000" help:"Number of different blobs. More writes than that replace them."`
	Range    cli.PartSize `env:"-" group:"Operations:" default:"1MiB" help:"Size of the ranges of range, at random places."`
	PartSize cli.PartSize `env:"-" group:"Operations:" default:"1MiB" help:"Size of the parts of multipart, at most 5GiB."`
	Sessions int          `env:"-" group:"Operations:" default:"1" help:"Number of different sessions of use, which are created and, when they are used up, replaced."`
	Session  []string     `env:"-" group:"Operations:" placeholder:"ID" help:"Existing session for use, in place of new ones, and for paid reads. The flag may be repeated."`
	Mix      string       `env:"-" group:"Operations:" default:"get=70,put=20,use=10" help:"Weights of the operations of mixed."`

	cli.ServerFlags
	cli.OutputFlags
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

// Validate checks the flags.
func (c *Bench) Validate() error {
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
func (c *Bench) Run(ctx context.Context, console *cli.Console) error {
	server, err := c.Server(c.Target.Context)
	if err != nil {
		return err
	}
	w, err := c.workload(console, server)
	if err != nil {
		return err
	}
	b := &benchRun{command: c, console: console, server: server, workload: w, progress: terminal.NewProgress(console.Err, c.Quiet || c.JSON)}
	return b.run(ctx)
}

// workload returns the workload that the flags describe.
func (c *Bench) workload(console *cli.Console, server contexts.Server) (*load.Workload, error) {
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	to, err := cli.NewClient(console, server, client.Options{StallTimeout: c.Timeout, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	target, err := load.NewTarget(to.URL(), server.Key, "sluice/"+cli.Version(), c.Timeout)
	if err != nil {
		return nil, cli.ExitWith(cli.ExitUsage, err)
	}
	target.Trust(roots)
	mix := load.Only(workloads[c.Workload])
	if c.Workload == workloadMixed {
		if mix, err = load.ParseMix(c.Mix); err != nil {
			return nil, cli.ExitWith(cli.ExitUsage, err)
		}
	}
	below := cli.AsFolder(c.Target.Remote)
	return load.New(load.Options{
		Client: to, Target: target, Mix: mix, Account: below.Account, Prefix: below.Name, Blobs: c.Blobs, Sizes: c.Size,
		RangeSize: int64(c.Range), PartSize: int64(c.PartSize), Sessions: c.Sessions, SessionIDs: c.Session, Connections: c.Connections,
	}), nil
}

// plan returns the plan that the flags describe.
func (c *Bench) plan() load.Plan {
	p := load.Plan{Duration: c.Duration, Count: c.Count, Rate: c.Rate}
	if p.Duration == 0 && p.Count == 0 {
		p.Duration = 10 * time.Second
	}
	return p
}

// benchRun is one measurement.
type benchRun struct {
	command  *Bench
	console  *cli.Console
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
		return cli.About(fmt.Sprintf("all %d operations failed; the first error is", total.Done), total.First)
	default:
		return cli.ExitWith(cli.ExitPartly, cli.About(fmt.Sprintf("%d of %d operations failed; the first error is", total.Failed(), total.Done), total.First))
	}
}

// measure prepares and measures. It returns the measured time, and the error
// if it could not prepare.
func (b *benchRun) measure(ctx context.Context, r *load.Recorder) (time.Duration, error) {
	storing := b.progress.StartCount("storing blobs", b.workload.ToStore())
	err := b.workload.Prepare(ctx, storing.Set)
	storing.End()
	if err != nil {
		return 0, cli.About("nothing was measured", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the connections
	plan := b.command.plan()
	size := plan.Count
	if size == 0 {
		size = -1
	}
	shown := b.progress.StartCount(string(b.command.Workload), size)
	stop := showCount(shown, r.Done)
	defer stop()
	return plan.Run(ctx, b.workload.Workers(b.command.Connections), b.workload.Kind, r), nil
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
	removing := b.progress.StartCount("removing blobs", b.workload.ToClean())
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
	var leftovers []string
	if left.Blobs > 0 {
		leftovers = append(leftovers, fmt.Sprintf("up to %d blobs are left below %s (sluice rm -r %s removes them)", left.Blobs, terminal.Name(b.place()), terminal.Name(b.place())))
	}
	if left.Uploads > 0 {
		leftovers = append(leftovers, fmt.Sprintf("%d uploads are open (sluice upload ls %s lists them)", left.Uploads, terminal.Name(b.command.Target.Account)))
	}
	return errors.Join(earlier, cli.About("not everything was removed: "+strings.Join(leftovers, ", "), err))
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
		return terminal.WriteJSON(b.console.Out, p)
	}
	err := p.table(b.console.Out)
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

// printedBench is a measurement in JSON.
type printedBench struct {
	URL         string                `json:"url"`
	Workload    string                `json:"workload"`
	Connections int                   `json:"connections"`
	Rate        float64               `json:"rate,omitempty"` // operations a second that were due; 0: a closed loop
	Seconds     float64               `json:"seconds"`
	Operations  []printedOperations   `json:"operations"` // of each kind, and, if there are several, of all
	Left        *printedBenchLeftover `json:"left,omitempty"`
}

// printedBenchLeftover counts the things that could not be removed, in JSON.
type printedBenchLeftover struct {
	Prefix   string `json:"prefix,omitempty"` // of the blobs
	Blobs    int64  `json:"blobs,omitempty"`
	Uploads  int    `json:"uploads,omitempty"`
	Sessions int    `json:"sessions,omitempty"`
}

// printedOperations are operations of one kind in JSON.
type printedOperations struct {
	Kind           string           `json:"kind"`
	Done           int64            `json:"done"` // in success or failure
	Failed         int64            `json:"failed"`
	Unsent         int64            `json:"unsent,omitempty"` // due by --rate, and not sent before the end
	Errors         map[string]int64 `json:"errors,omitempty"` // by code
	Bytes          int64            `json:"bytes"`
	PerSecond      float64          `json:"perSecond"` // successes
	BytesPerSecond float64          `json:"bytesPerSecond"`
	Latency        printedLatency   `json:"latencyMicroseconds"`
}

// printedLatency are latencies in microseconds.
type printedLatency struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// newPrintedAll returns the measurements of each kind in a time and, if there are several, of all.
func newPrintedAll(r *load.Recorder, elapsed time.Duration) []printedOperations {
	all := r.Summaries()
	printed := []printedOperations{}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		printed = append(printed, newPrintedOperations(k.String(), all[k], elapsed))
	}
	if len(all) > 1 {
		printed = append(printed, newPrintedOperations(kindAll, r.Total(), elapsed))
	}
	return printed
}

// kindAll is the name of all kinds together.
const kindAll = "all"

func newPrintedOperations(kind string, s *load.Summary, elapsed time.Duration) printedOperations {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return printedOperations{
		Kind: kind, Done: s.Done, Failed: s.Failed(), Unsent: s.Unsent, Errors: s.Errors, Bytes: s.Bytes,
		PerSecond: float64(s.Done-s.Failed()) / elapsed.Seconds(), BytesPerSecond: float64(s.Bytes) / elapsed.Seconds(),
		Latency: printedLatency{us(s.Min()), us(s.Mean()), us(s.Quantile(0.5)), us(s.Quantile(0.9)), us(s.Quantile(0.99)), us(s.Quantile(0.999)), us(s.Max())},
	}
}

// table writes the measurement for people.
func (p *printedBench) table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprintln(table, "operation\tdone\tfailed\tper second\tbytes/s\tp50\tp90\tp99\tp99.9\tmax\t")
	errs := []error{err}
	for _, o := range p.Operations {
		l := o.Latency
		_, err := fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t\n", o.Kind, o.Done, o.Failed, o.PerSecond, units.Bytes(int64(o.BytesPerSecond)),
			formatMicroseconds(l.P50), formatMicroseconds(l.P90), formatMicroseconds(l.P99), formatMicroseconds(l.P999), formatMicroseconds(l.Max))
		errs = append(errs, err)
	}
	errs = append(errs, table.Flush())
	for _, o := range p.Operations {
		for _, code := range slices.Sorted(maps.Keys(o.Errors)) {
			if o.Kind != kindAll {
				errs = append(errs, cli.PrintLine(out, fmt.Sprintf("%s: %d failed: %s", o.Kind, o.Errors[code], terminal.Text(code))))
			}
		}
	}
	return errors.Join(errs...)
}

// remarks returns remarks about the measurement, for people.
func (p *printedBench) remarks() (lines []string) {
	for _, o := range p.Operations {
		if o.Unsent > 0 && o.Kind != kindAll {
			lines = append(lines, fmt.Sprintf("%s: %d operations were due and not sent before the end: the server or this machine is too slow for the rate, and latencies are at least those shown", o.Kind, o.Unsent))
		}
	}
	if p.Left != nil && p.Left.Sessions > 0 {
		lines = append(lines, fmt.Sprintf("%d sessions are left; they expire", p.Left.Sessions))
	}
	return lines
}

// formatMicroseconds returns a duration for people, with three digits.
func formatMicroseconds(us float64) string {
	switch {
	case us < 999.5:
		return fmt.Sprintf("%.3gus", us)
	case us < 999_500:
		return fmt.Sprintf("%.3gms", us/1e3)
	default:
		return fmt.Sprintf("%.4gs", us/1e6)
	}
}
