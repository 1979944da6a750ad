package blobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strings"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/payments"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// printedTransfer is an outcome in JSON. Its status is copied, unchanged, moved, skipped, failed,
// deleted, restored, or changed by sluice lock.
type printedTransfer struct {
	Status string `json:"status"` // with --dry-run, the planned one
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
	Size   *int64 `json:"size,omitempty"`
	ETag   string `json:"etag,omitempty"`
	Reason string `json:"reason,omitempty"` // of a skip or a failure
}

// batch shows the course of a folder.Batch: progress, a line for each outcome, a summary and the
// command's error.
type batch struct {
	*folder.Batch

	console  *cli.Console
	output   cli.OutputFlags
	progress *terminal.Progress
	silent   bool                // prints no remarks
	from, to *client.Client      // nil: local
	put      client.PutOptions   // of stored blobs
	reads    *payments.PaidReads // nil: none are paid
	dryRun   bool
	moves    bool                      // moves blobs and copies none
	version  versionFlag               // that is read, if it is a single blob's
	contexts map[*client.Client]string // the servers' names in operands

	ctx     context.Context  //nolint:containedctx // a run's, for requests that explain failures
	refused []refusedOperand // operands that cannot be transferred
	sum     folder.Summary   // when everything has ended

	// The state of show. Its calls do not overlap.
	planned       int                         // transfers and deletions
	several       bool                        // reports whether there are several, even if planned is at most 1
	transfers     map[ends]*terminal.Transfer // that are in progress
	unknown       bool                        // reports whether a failed transfer's outcome is unknown
	partial       bool                        // reports whether a transfer failed after it had transferred bytes
	interrupted   bool
	ifInterrupted string  // the consequence of an interruption, for people
	errs          []error // of transfers and of output: the first of each
}

// ends name a transfer.
type ends struct{ source, target folder.Item }

// refusedOperand is one of several operands, and the error that names it.
type refusedOperand struct {
	name string
	err  error
}

func newBatch(console *cli.Console, output cli.OutputFlags, o folder.Options) *batch {
	b := &batch{
		console: console, output: output, progress: terminal.NewProgress(console.Err, output.Quiet || output.JSON), dryRun: o.DryRun,
		contexts: map[*client.Client]string{}, transfers: map[ends]*terminal.Transfer{},
	}
	o.Report = b.show
	b.Batch = folder.NewBatch(o)
	console.Shows(b.progress)
	return b
}

// Consequences of an interruption.
const (
	resumable      = "transferred parts of large files are kept; run the same command again to go on"
	partlyMoved    = "some may be moved; run the same command again to go on"
	partlyDeleted  = "some may be deleted"
	partlyRestored = "some may be restored; run the same command again to go on"
)

// item returns the blob that an operand names.
func (b *batch) item(on *client.Client, of operand.Remote) folder.Item {
	b.contexts[on] = of.Context
	return folder.Item{Client: on, Account: of.Account, Name: of.Name}
}

// source returns the blob that an operand names, in the version that is read.
func (b *batch) source(of operand.Remote) folder.Item {
	item := b.item(b.from, of)
	item.Version = b.version.Version
	return item
}

// prefix returns the blobs below an operand.
func (b *batch) prefix(on *client.Client, of operand.Remote) folder.Prefix {
	b.contexts[on] = of.Context
	return folder.Prefix{Client: on, Account: of.Account, Name: of.Name}
}

// nameOf returns a file's or a blob's name in operands.
func (b *batch) nameOf(i folder.Item) string {
	if i.Client == nil {
		return i.Name
	}
	return operand.Remote{Context: b.contexts[i.Client], Account: i.Account, Name: i.Name}.String()
}

// refuse notes that one of several operands cannot be transferred. The other operands are.
func (b *batch) refuse(operand string, err error) {
	b.refused = append(b.refused, refusedOperand{operand, err})
	b.several = true
}

// orRefuse refuses one of several operands if its error has an exit code of its own, and otherwise
// returns the error.
func (b *batch) orRefuse(several bool, of operand.Remote, err error) error {
	if e, known := errors.AsType[*cli.ExitError](err); several && known {
		b.refuse(of.String(), cli.ExitWith(e.Code, err))
		return nil
	}
	return err
}

// run runs the transfers and deletions that were added.
func (b *batch) run(ctx context.Context) error {
	b.ctx = ctx
	for _, r := range b.refused {
		b.fail(printedTransfer{Source: r.name, Reason: cli.LineOf(r.err)}, r.err)
	}
	var err error
	b.sum, err = b.Run(ctx)
	b.sum.Failed += len(b.refused)
	return b.explainRun(err)
}

// explainRun returns a run's error without the failures that show has shown.
func (b *batch) explainRun(err error) error {
	if e, kept := errors.AsType[*folder.NotDeletedError](err); kept {
		if errors.Is(e, folder.ErrEmpty) {
			return cli.ExitWith(cli.ExitRefused, fmt.Errorf("the source is empty, so the %d of the target were not deleted: use --force to delete them", e.Number))
		}
		b.print("nothing was deleted, because some of the source could not be listed or copied: use --force to delete nevertheless")
	}
	if e, incomplete := errors.AsType[*folder.ListError](err); incomplete {
		return cli.ExitWith(cli.ExitPartly, e)
	}
	return nil
}

// runListed runs deletions while they are listed.
func (b *batch) runListed(ctx context.Context, blobs iter.Seq2[folder.Item, error]) {
	b.sum, _ = b.DeleteListed(ctx, blobs) // show has seen its errors
}

// nothingAt is the function nothingAt, which prints its remark.
func (b *batch) nothingAt(prefix operand.Remote) error {
	remark, err := nothingAt(prefix)
	if err == nil {
		b.remark(remark)
	}
	return err
}

// nothingIn remarks that a local folder has nothing to store.
func (b *batch) nothingIn(dir string) { b.remark("there are no files in " + terminal.Name(dir)) }

// remark prints a line that is no result.
func (b *batch) remark(line string) {
	if !b.output.Quiet && !b.silent {
		b.print(line)
	}
}

// listError returns an error with the operand's name if a prefix could not be listed.
func (b *batch) listError(err error) error {
	if e, isList := errors.AsType[*folder.Error](err); isList {
		return named(b.nameOf(e.Source), e.Err)
	}
	return err
}

// stream runs a single transfer of standard input or output, which a folder.Batch does not know.
func (b *batch) stream(ctx context.Context, source, target folder.Item, ifInterrupted string, run func(t *terminal.Transfer) (client.Blob, error)) {
	event := folder.Event{Kind: folder.Started, Source: source, Target: target, Size: -1}
	b.show(event)
	b.ifInterrupted = ifInterrupted
	t := b.transfers[ends{source, target}]
	stored, err := run(t)
	switch event.Done = t.Done(); {
	case err != nil && ctx.Err() != nil:
		event.Kind, event.Err, b.sum.Left = folder.Interrupted, err, 1
	case err != nil:
		event.Kind, event.Err, b.sum.Failed = folder.Failed, err, 1
	default:
		event.Kind, event.Size, event.ETag = folder.Copied, stored.Size, stored.ETag
		b.sum.Copied, b.sum.Bytes = 1, stored.Size
	}
	b.show(event)
}

// stdio is standard input or output.
var stdio = folder.Item{Name: operand.Stdio}

// writesContent notes that a content is written to standard output. If that is the terminal,
// progress and remarks would be mixed with it, so there are none.
func (b *batch) writesContent() {
	if cli.IsTerminal(b.console.Out) {
		b.progress.Close()
		b.progress, b.silent = terminal.NewProgress(b.console.Err, true), true
		b.console.Shows(b.progress)
	}
}

// show shows an event.
func (b *batch) show(e folder.Event) {
	switch e.Kind {
	case folder.Copying:
		b.ifInterrupted = resumable
		if b.moves {
			b.ifInterrupted = partlyMoved
		}
		b.planned += e.Number
		b.progress.Expect(e.Number, e.Size)
	case folder.Deleting:
		b.ifInterrupted = partlyDeleted
		b.planned += max(e.Number, 0)
		b.several = b.several || e.Number < 0
	case folder.Restoring:
		b.ifInterrupted = partlyRestored
	case folder.Started:
		b.transfers[ends{e.Source, e.Target}] = b.progress.Start(b.nameOf(e.Source), e.Size)
	case folder.Progress:
		b.transfers[ends{e.Source, e.Target}].Set(e.Done)
	default:
		b.showOutcome(e)
	}
}

// showOutcome shows how a transfer or a deletion has ended, or that something was skipped.
func (b *batch) showOutcome(e folder.Event) {
	key := ends{e.Source, e.Target}
	t, started := b.transfers[key]
	if started {
		defer t.End()
		delete(b.transfers, key)
	}
	source, target := b.nameOf(e.Source), b.nameOf(e.Target)
	switch e.Kind {
	case folder.Interrupted:
		b.interrupted = true
	case folder.Failed:
		b.partial = b.partial || e.Done > 0
		cause := b.cause(e)
		b.fail(printedTransfer{Source: source, Target: target, Reason: cli.LineOf(cause)}, named(source, cause))
	case folder.Skipped:
		b.skip(source, e.Err.Error())
	case folder.Unchanged:
		if started {
			t.Skip(e.Size)
		} else {
			b.planned++
		}
		b.report(printedTransfer{Status: "unchanged", Source: source, Target: target, Size: &e.Size, ETag: e.ETag}, "")
	case folder.Deleted:
		b.report(printedTransfer{Status: "deleted", Source: source}, b.words("deleted ", "would delete ")+terminal.Name(source))
	case folder.Restored:
		b.report(printedTransfer{Status: "restored", Source: source, Size: &e.Size, ETag: e.ETag}, b.words("restored ", "would restore ")+terminal.Name(source))
	case folder.Locked:
		b.report(printedTransfer{Status: "changed", Source: source}, b.words("changed the lock of ", "would change the lock of ")+terminal.Name(source))
	case folder.Moved:
		if started {
			t.Skip(max(e.Size-t.Done(), 0)) // the server has transferred nothing
		}
		b.report(printedTransfer{Status: "moved", Source: source, Target: target, Size: &e.Size, ETag: e.ETag},
			b.words("", "would move ")+fmt.Sprintf("%s -> %s", terminal.Name(source), terminal.Name(target)))
	case folder.Copied:
		if started {
			t.Skip(max(e.Size-t.Done(), 0)) // the same, if it is a copy in the target
		}
		b.report(printedTransfer{Status: "copied", Source: source, Target: target, Size: &e.Size, ETag: e.ETag},
			b.words("", "would copy ")+fmt.Sprintf("%s -> %s", terminal.Name(source), terminal.Name(target)))
	}
}

// cause returns why a transfer or a deletion has failed, with advice.
func (b *batch) cause(e folder.Event) error {
	err := b.reason(e)
	if e.Source.Client == nil || b.ctx == nil {
		return err
	}
	below := client.ListOptions{Prefix: e.Source.Name + "/", PageSize: 1}
	if errors.Is(e.Err, folder.ErrNoVersion) && isThere(e.Source.Client.Versions(b.ctx, e.Source.Account, below)) {
		return fmt.Errorf("%w; there are versions below %s/: use -r", err, terminal.Name(b.nameOf(e.Source)))
	}
	if isMissing(e.Err) {
		return withBelow(b.ctx, e.Source.Client, operand.Remote{Account: e.Source.Account, Name: e.Source.Name}, err, "use -r")
	}
	return err
}

func (b *batch) reason(e folder.Event) error {
	noSource, mayBeMoved := errors.AsType[*folder.NoSourceError](e.Err)
	switch {
	case mayBeMoved:
		return cli.ExitWith(cli.ExitNotFound, fmt.Errorf("the blob does not exist; %s does, stored at %s, so an earlier command may have moved it",
			terminal.Name(b.nameOf(e.Target)), formatTime(noSource.Target.LastModified)))
	case errors.Is(e.Err, folder.ErrNoVersion):
		return cli.ExitWith(cli.ExitNotFound, e.Err)
	case e.Source.Version != "" && errors.Is(e.Err, client.ErrNotFound):
		return errNoVersion
	case (b.moves || e.Target == folder.Item{}) && isMissing(e.Err):
		return cli.ExitWith(cli.ExitNotFound, errors.New("the blob does not exist"))
	case errors.Is(e.Err, client.ErrTooLarge):
		return fmt.Errorf("%w; --part-size sets the size of the parts", e.Err)
	case e.Source.Client != nil && b.reads != nil:
		return b.reads.Explain(e.Err)
	default:
		return e.Err
	}
}

// named returns an error that names its source. If the source is "", the error has a name already.
func named(source string, err error) error {
	if source == "" {
		return err
	}
	return cli.About(terminal.Name(source), err)
}

// words returns the word for an action, or for a planned action in a dry run.
func (b *batch) words(done, would string) string {
	if b.dryRun {
		return would
	}
	return done
}

// unreachable reports whether there was no server, or one that cannot serve now.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, client.ErrUnavailable)
}

// outage reports whether a request was ended by the network or by the server, so that the same
// command can succeed later.
func outage(err error) bool {
	return unreachable(err) || cli.AnyOf(err, client.ErrOutcomeUnknown, io.ErrUnexpectedEOF)
}

// fail reports a failure. The error names the operand that failed.
func (b *batch) fail(p printedTransfer, err error) {
	b.unknown = b.unknown || errors.Is(err, client.ErrOutcomeUnknown)
	if len(b.errs) == 0 {
		b.errs = append(b.errs, err)
	}
	if b.output.JSON {
		p.Status = "failed"
		b.report(p, "")
	} else if b.several || b.planned > 1 {
		b.print("failed: " + cli.LineOf(err))
	}
}

// skip reports that a name was left out.
func (b *batch) skip(name, reason string) {
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
		if err := terminal.WriteJSON(b.console.Out, p); err != nil {
			b.errs = append(b.errs, err)
		}
	case remark != "":
		b.remark(remark)
	}
}

// print prints a line to stderr. If that fails, there is no other place for it.
func (b *batch) print(line string) { _ = b.progress.Print(line) }

// finish prints a summary, and returns the command's error. After an outage it states how to go on.
func (b *batch) finish(ctx context.Context) error {
	total := b.sum.Total()
	if total+b.sum.Skipped > 1 && !b.output.Quiet && !b.output.JSON {
		if summary := b.summary(); summary != "" {
			_, _ = fmt.Fprintln(b.console.Err, summary) // the progress is closed; there is no other place
		}
	}
	first := errors.Join(b.errs...)
	if outage(first) && (b.ifInterrupted == resumable || b.ifInterrupted == partlyMoved) && (b.partial || b.sum.Copied+b.sum.Moved > 0) {
		first = fmt.Errorf("%w; %s", first, b.ifInterrupted)
	}
	notDone := b.sum.Failed + b.sum.Left
	succeeded := total - notDone
	switch {
	case ctx.Err() != nil && (b.interrupted || notDone > 0):
		return errors.New("interrupted: " + cmp.Or(b.ifInterrupted, "nothing was changed"))
	case first != nil && total <= 1:
		return first
	case first != nil && succeeded == 0 && b.unknown:
		return cli.ExitWith(cli.ExitFailed, fmt.Errorf("the outcome is unknown: %w", first))
	case first != nil && succeeded == 0:
		return fmt.Errorf("nothing was done: %w", first)
	case notDone > 0 && b.unknown:
		return cli.ExitWith(cli.ExitPartly, fmt.Errorf("%d of %d were not done, or it is unknown whether they were; the first error is: %w", notDone, total, first))
	case notDone > 0:
		return cli.ExitWith(cli.ExitPartly, fmt.Errorf("%d of %d were not done; the first error is: %w", notDone, total, first))
	case first != nil: // of output
		return first
	case b.sum.Skipped > 0:
		return cli.ExitWith(cli.ExitPartly, fmt.Errorf("%d skipped", b.sum.Skipped))
	}
	return nil
}

func (b *batch) summary() string {
	var texts []string
	if b.sum.Copied > 0 {
		texts = append(texts, fmt.Sprintf("%d %s (%s)", b.sum.Copied, b.words("copied", "to copy"), units.Bytes(b.sum.Bytes)))
	}
	for _, c := range []struct {
		n     int
		state string
	}{{b.sum.Unchanged, "unchanged"}, {b.sum.Moved, b.words("moved", "to move")}, {b.sum.Deleted, b.words("deleted", "to delete")}, {b.sum.Restored, b.words("restored", "to restore")}, {b.sum.Locked, b.words("locks changed", "locks to change")}, {b.sum.Skipped, "skipped"}, {b.sum.Failed, "failed"}} {
		if c.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", c.n, c.state))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return b.words("", "dry run: ") + strings.Join(texts, ", ")
}

// end ends a command whose preparation returned err: it ends the progress, prints a summary and the
// spending, and returns the command's error.
func (b *batch) end(ctx context.Context, err error) error {
	b.console.Shows(nil)
	b.progress.Close()
	if err == nil {
		err = b.finish(ctx)
	}
	return errors.Join(err, b.reads.Report(ctx, b.console, b.output), b.Close())
}
