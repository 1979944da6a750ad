package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"sluice/client"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// job is one transfer of a batch.
type job struct {
	source, target string // for people and programs
	size           int64  // in bytes, or negative if it is unknown
	verb           verb   // verbCopy if it is not set
	ifInterrupted  string // what a transfer that ended early has left behind, for people
	named          bool   // reports whether its error names the source

	// run does it. The transfer is nil for a deletion.
	run func(ctx context.Context, t *terminal.Transfer) (done, error)
}

// failure returns a job for an operand that is one of several, and cannot be transferred. The error
// names it.
func failure(source string, err error) job {
	return job{source: source, size: -1, named: true, run: func(context.Context, *terminal.Transfer) (done, error) { return done{}, err }}
}

// verb is what a job does.
type verb int

const (
	verbCopy   verb = iota // copies source to target
	verbDelete             // deletes source
)

// done is the outcome of a job that succeeded.
type done struct {
	size      int64
	etag      string
	unchanged bool // reports whether the target had the content already
}

// printedTransfer is the outcome of a job in JSON.
type printedTransfer struct {
	Status string `json:"status"` // "copied", "unchanged", "skipped", "failed" or "deleted"; with --dry-run, what would be done
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
	Size   *int64 `json:"size,omitempty"`
	ETag   string `json:"etag,omitempty"`
	Reason string `json:"reason,omitempty"` // of what was skipped or failed
}

// batch runs jobs concurrently, reports each of them, and counts them.
type batch struct {
	console  *console
	output   outputFlags
	progress *terminal.Progress
	silent   bool       // prints no remarks
	reads    *paidReads // nil: none are paid
	dryRun   bool       // jobs that copy change nothing, and jobs that delete are not run

	mu                                 sync.Mutex
	copied, unchanged, skipped, failed int
	deleted                            int
	bytes                              int64
	jobs                               int
	listed                             bool    // reports whether jobs are run while they are listed
	errs                               []error // of jobs and of output; the first ones
	interrupted                        bool
	partial                            bool // reports whether a transfer failed after it had transferred bytes
	unknown                            bool // reports whether it is unknown what a job that failed has done
	ifInterrupted                      string
}

func newBatch(console *console, output outputFlags) *batch {
	b := &batch{console: console, output: output, progress: terminal.NewProgress(console.err, output.Quiet || output.JSON)}
	console.shows(b.progress)
	return b
}

// writesContent says that a job writes a content to standard output. If that is the terminal, progress and
// remarks would be mixed with it, so there are none.
func (b *batch) writesContent() {
	if isTerminal(b.console.out) {
		b.progress.Close()
		b.progress, b.silent = terminal.NewProgress(b.console.err, true), true
		b.console.shows(b.progress)
	}
}

// resumable says what a transfer of files that ended early has left behind.
const resumable = "what was transferred of large files is kept; run the same command again to go on"

// concurrentJobs is the number of jobs that run concurrently. Each transfers several parts or ranges of
// a large file concurrently.
const concurrentJobs = 4

// run runs the jobs. A job that fails does not end the others: if its error would be that of every other,
// no further one begins. Those in progress end by themselves, so that their outcome is known.
func (b *batch) run(ctx context.Context, jobs []job) {
	if len(jobs) == 0 {
		return
	}
	b.jobs += len(jobs)
	b.ifInterrupted = jobs[0].ifInterrupted
	copies, total := 0, int64(0)
	for _, j := range jobs {
		if j.verb == verbCopy {
			copies++
			total += max(j.size, 0)
		}
	}
	if copies > 0 {
		b.progress.Expect(copies, total)
	}
	b.dispatch(ctx, slices.Values(jobs))
}

// runListed runs jobs as run does, while they are listed, so that few of them are in memory. An error of the
// list counts as that of a job, after which no other begins. What was not listed is not counted.
func (b *batch) runListed(ctx context.Context, jobs iter.Seq2[job, error]) {
	b.mu.Lock()
	b.listed = true
	b.mu.Unlock()
	b.dispatch(ctx, func(yield func(job) bool) {
		for j, err := range jobs {
			b.mu.Lock()
			b.jobs++
			if err != nil && ctx.Err() != nil {
				b.interrupted = true
			}
			if err == nil {
				b.ifInterrupted = j.ifInterrupted
			}
			b.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				b.fail(job{named: true}, err)
			}
			if err != nil || !yield(j) {
				return
			}
		}
	})
}

// dispatch runs jobs, a few of them concurrently.
func (b *batch) dispatch(ctx context.Context, jobs iter.Seq[job]) {
	more, stop := context.WithCancel(ctx) // ends when no other job must begin
	defer stop()
	next := make(chan job)
	var workers sync.WaitGroup
	for range concurrentJobs {
		workers.Go(func() {
			for j := range next {
				if more.Err() != nil {
					continue
				}
				if err := b.runOne(ctx, j); unpaid(err) || concernsAll(err) {
					stop()
				}
			}
		})
	}
	for j := range jobs {
		select {
		case next <- j:
			continue
		case <-more.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

// runOne runs a job, and returns its error.
func (b *batch) runOne(ctx context.Context, j job) error {
	d, err := b.transfer(ctx, j)
	switch {
	case err != nil && ctx.Err() != nil: // ended by a signal
		b.mu.Lock()
		b.interrupted = true
		b.mu.Unlock()
	case err != nil:
		b.fail(j, err)
	case d.unchanged:
		b.count(&b.unchanged)
		b.report(printedTransfer{Status: "unchanged", Source: j.source, Target: j.target, Size: &d.size, ETag: d.etag}, "")
	case j.verb == verbDelete:
		b.count(&b.deleted)
		b.report(printedTransfer{Status: "deleted", Source: j.source}, b.words("deleted ", "would delete ")+terminal.Name(j.source))
	default:
		b.mu.Lock()
		b.copied++
		b.bytes += d.size
		b.mu.Unlock()
		b.report(printedTransfer{Status: "copied", Source: j.source, Target: j.target, Size: &d.size, ETag: d.etag},
			b.words("", "would copy ")+fmt.Sprintf("%s -> %s", terminal.Name(j.source), terminal.Name(j.target)))
	}
	return err
}

// transfer runs a job and shows its progress. A deletion has none.
func (b *batch) transfer(ctx context.Context, j job) (done, error) {
	switch {
	case j.verb != verbDelete:
		t := b.progress.Start(j.source, j.size)
		defer t.End()
		d, err := j.run(ctx, t)
		if err != nil && t.Done() > 0 {
			b.mu.Lock()
			b.partial = true
			b.mu.Unlock()
		}
		return d, err
	case b.dryRun:
		return done{}, nil
	default:
		return j.run(ctx, nil)
	}
}

// words returns what was done, or what would be done in a dry run.
func (b *batch) words(done, would string) string {
	if b.dryRun {
		return would
	}
	return done
}

// concernsAll reports whether an error of one transfer would be that of every other.
func concernsAll(err error) bool {
	return unreachable(err) || errors.Is(err, syscall.ENOSPC) || anyOf(err, client.ErrUnauthorized, client.ErrForbidden, client.ErrRateLimited, client.ErrStorageFull)
}

// unreachable reports whether there was no server, or one that cannot serve now.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, client.ErrUnavailable)
}

// outage reports whether a request was ended by the network or by the server, so that the same command
// can succeed later.
func outage(err error) bool {
	return unreachable(err) || anyOf(err, client.ErrOutcomeUnknown, io.ErrUnexpectedEOF)
}

func (b *batch) count(n *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
}

// fail reports a job that failed.
func (b *batch) fail(j job, err error) {
	text := lineOf(err)
	if !j.named {
		err = about(terminal.Name(j.source), err)
	}
	b.mu.Lock()
	b.failed++
	b.unknown = b.unknown || errors.Is(err, client.ErrOutcomeUnknown)
	if len(b.errs) == 0 {
		b.errs = append(b.errs, err)
	}
	several := b.listed || b.jobs > 1
	b.mu.Unlock()
	if b.output.JSON {
		b.report(printedTransfer{Status: "failed", Source: j.source, Target: j.target, Reason: text}, "")
	} else if several {
		b.print("failed: " + lineOf(err))
	}
}

// same reports what needs no job, because the target has the content of the source.
func (b *batch) same(source, target string, size int64, etag string) {
	b.jobs++
	b.count(&b.unchanged)
	b.report(printedTransfer{Status: "unchanged", Source: source, Target: target, Size: &size, ETag: etag}, "")
}

// skip reports what was left out.
func (b *batch) skip(name, reason string) {
	b.count(&b.skipped)
	if b.output.JSON {
		b.report(printedTransfer{Status: "skipped", Source: name, Reason: reason}, "")
		return
	}
	b.print(fmt.Sprintf("skipped: %s: %s", terminal.Name(name), reason))
}

// report prints an outcome: a line of JSON to stdout, or a remark, unless it is "", to stderr.
func (b *batch) report(p printedTransfer, remark string) {
	switch {
	case b.output.JSON:
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := terminal.WriteJSON(b.console.out, p); err != nil {
			b.errs = append(b.errs, err)
		}
	case remark != "":
		b.remark(remark)
	}
}

// remark prints a line to stderr, unless it is not wanted.
func (b *batch) remark(line string) {
	if !b.output.Quiet && !b.output.JSON && !b.silent {
		b.print(line)
	}
}

// print prints a line to stderr. What cannot be printed there has no other place.
func (b *batch) print(line string) { _ = b.progress.Print(line) }

// finish prints a summary, and returns the error of the command. After an outage it says how to go on.
func (b *batch) finish(ctx context.Context) error {
	if b.jobs+b.skipped > 1 && !b.output.Quiet && !b.output.JSON {
		if summary := b.summary(); summary != "" {
			_, _ = fmt.Fprintln(b.console.err, summary) // the progress is closed; there is no other place
		}
	}
	first := errors.Join(b.errs...)
	if outage(first) && b.ifInterrupted == resumable && (b.partial || b.copied > 0) {
		first = fmt.Errorf("%w; %s", first, resumable)
	}
	succeeded := b.copied + b.unchanged + b.deleted
	switch notDone := b.jobs - succeeded; {
	case ctx.Err() != nil && (b.interrupted || notDone > 0):
		return errors.New("interrupted: " + b.ifInterrupted)
	case first != nil && b.jobs <= 1:
		return first
	case first != nil && succeeded == 0 && b.unknown:
		return exitWith(exitFailed, fmt.Errorf("it is unknown what was done: %w", first))
	case first != nil && succeeded == 0:
		return fmt.Errorf("nothing was done: %w", first)
	case notDone > 0 && b.unknown:
		return exitWith(exitPartly, fmt.Errorf("%d of %d were not done, or it is unknown whether they were; the first error is: %w", notDone, b.jobs, first))
	case notDone > 0:
		return exitWith(exitPartly, fmt.Errorf("%d of %d were not done; the first error is: %w", notDone, b.jobs, first))
	case first != nil: // of output
		return first
	case b.skipped > 0:
		return exitWith(exitPartly, fmt.Errorf("%d skipped", b.skipped))
	}
	return nil
}

func (b *batch) summary() string {
	var texts []string
	if b.copied > 0 {
		texts = append(texts, fmt.Sprintf("%d copied (%s)", b.copied, units.Bytes(b.bytes)))
	}
	for _, c := range []struct {
		n    int
		what string
	}{{b.unchanged, "unchanged"}, {b.deleted, "deleted"}, {b.skipped, "skipped"}, {b.failed, "failed"}} {
		if c.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return b.words("", "dry run: ") + strings.Join(texts, ", ")
}

// end ends a command whose preparation returned err: it ends the progress, prints a summary and what was
// spent, and returns the error of the command.
func (b *batch) end(ctx context.Context, err error) error {
	b.console.shows(nil)
	b.progress.Close()
	if err == nil {
		err = b.finish(ctx)
	}
	return errors.Join(err, b.reads.report(ctx, b.console, b.output))
}
