package folder

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"sync"

	"sluice/client"
)

// DefaultRequests is how many requests a Batch has at a time, at most, without an
// Options.Concurrency.
const DefaultRequests = 32

// Options are the options for a Batch. The zero value is ready to use.
type Options struct {
	// Put are the options for blobs that are stored. Without a ContentType, a blob gets the one
	// that client.ContentType guesses. Copy keeps the source's properties where Put has none. Size,
	// StateFile and Progress have no effect.
	Put client.PutOptions

	// Get are the options for blobs that are read, for example a Payment. Root and Progress have no
	// effect.
	Get client.DownloadOptions

	// Filter chooses the files or blobs to transfer from a folder or prefix. An excluded one is not
	// in the source, and Sync does not delete it. nil: everything. Move and deletions take no
	// notice of it.
	Filter *Filter

	// Preserve keeps files' times of modification and permissions in the metadata of blobs that are
	// stored, and restores them in files that are written: see client.FileMetadata. A second run
	// restores them in files that it leaves alone, too.
	Preserve bool

	// ContentOnly leaves a blob alone that has the same content, whatever its properties. Sync sets
	// it.
	ContentOnly bool

	// TrackRenames makes Sync rename or copy blobs and files within the target, if it has their
	// content under another name, instead of transferring them: see Batch.Sync.
	TrackRenames bool

	// Concurrency is the number of files that are transferred at a time, each with the parts or
	// ranges of its own that Put and Get allow. 0 means as many files as have DefaultRequests
	// requests together: 32 small ones, or 8 large ones with four parts each. Files that are
	// received count as large ones, because the local disk is slower with more of them, and so do
	// moves, because those that are interrupted are in doubt.
	Concurrency int

	// Bypass lets deletions of versions end their retentions in the mode governance.
	Bypass bool

	// DryRun changes nothing: events and the Summary are the same as without it.
	DryRun bool

	// StateDir is a local folder, created when it is needed, in which Copy remembers large blobs
	// that it has not completed, so that a later run continues them. If it is "", they begin anew.
	StateDir string

	// Report receives each Event. Calls do not overlap. A slow one delays transfers. It may be nil.
	Report func(Event)
}

// Batch collects transfers and deletions, and runs them together: transfers first, a few at a time.
// No two blobs that Download or DownloadBlob adds become the same file. Its methods must be called
// neither concurrently nor by Options.Report.
type Batch struct {
	o       Options
	targets map[string]*target // folders that are written, by their paths

	// In the order in which they run. Copies run before transfers that may replace their sources,
	// and nothing loses its name in the target before everything else is there.
	copies, transfers, moves, deletions []job

	mirrored *mirrored // nil: the deletions are wanted in any case
	keeps    bool      // moves leave their source, because deletions may be wrong

	mu         sync.Mutex // guards the fields below, and serializes Options.Report
	sum        Summary    // without Left
	planned    int        // jobs that should have an outcome by the end
	errs       []error    // of failures, the first ones
	incomplete error      // a *ListError of Sync
}

// mirrored has the reasons why deletions of Sync may be wrong.
type mirrored struct {
	removes bool // there are deletions
	empty   bool // the source has nothing to copy
	nothing bool // and nothing that was skipped
	force   bool // they are wanted nevertheless
}

// job is one transfer or deletion.
type job struct {
	source, target Item
	size           int64 // in bytes, or negative if it is not known
	moves          bool
	does           Kind       // Deleted, Restored or Locked; 0: it transfers
	etag           string     // if it is known
	rename         *rename    // nil: the content is not in the target
	unless         *rename    // a deletion is left out if this one has moved its source; may be nil
	publisher      *publisher // for a received file; nil: the job receives none
	run            func(ctx context.Context, progress func(done, total int64)) (outcome, error)
}

// rename is how a job gets its content within the target.
type rename struct {
	from  Item
	moves bool // otherwise it copies
	moved bool // from has the new name

	// run moves or copies. If that is not possible, it returns false, and the job transfers.
	run func(ctx context.Context, moves bool) (result outcome, possible bool, err error)
}

// outcome is a successful job's result.
type outcome struct {
	size      int64
	etag      string
	unchanged bool
	received  *client.ReceivedFile // nil: it has happened; otherwise it has once this is published
}

// NewBatch returns an empty batch. The caller must Close it.
func NewBatch(o Options) *Batch {
	o.Get.Restore = o.Preserve
	return &Batch{o: o, targets: map[string]*target{}}
}

// Close closes the folders that the batch has opened.
func (b *Batch) Close() error {
	var errs []error
	for _, t := range b.targets {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// open opens a folder that is written.
func (b *Batch) open(dir string, create bool) (*target, error) {
	dir = filepath.Clean(dir)
	if t, exists := b.targets[dir]; exists {
		return t, nil
	}
	t, err := openTarget(dir, create, b.o.DryRun)
	if err != nil {
		return nil, err
	}
	b.targets[dir] = t
	return t, nil
}

// Run runs the added transfers, and then deletes. It may be called once. Its error joins an *Error
// for each failure, at most the first 100 of them, the context's end, a *NotDeletedError and a
// *ListError.
func (b *Batch) Run(ctx context.Context) (Summary, error) {
	n, total := 0, int64(0)
	for _, jobs := range [][]job{b.copies, b.transfers, b.moves} {
		n += len(jobs)
		for i := range jobs {
			total += max(jobs[i].size, 0)
		}
	}
	b.plan(n)
	if n > 0 {
		b.report(Event{Kind: Copying, Number: n, Size: total})
	}
	if b.dispatch(ctx, b.slots(), slices.Values(b.copies)) && b.dispatch(ctx, b.slots(), slices.Values(b.transfers)) {
		b.keeps = b.doubt(len(b.moves)) != nil
		b.dispatch(ctx, b.moveSlots(), slices.Values(b.moves))
	}
	err := b.delete(ctx)
	return b.end(ctx, err)
}

// moveSlots is slots for moves. In a local folder it is one: a move removes folders that have
// become empty, and another move may be about to use them.
func (b *Batch) moveSlots() int {
	if len(b.moves) > 0 && b.moves[0].target.Client == nil {
		return 1
	}
	return b.slots()
}

// slots returns how many slots the jobs that run at a time may have together.
func (b *Batch) slots() int {
	if b.o.Concurrency > 0 {
		return b.o.Concurrency
	}
	return DefaultRequests
}

// slotsOf returns the slots of a job: one, or as many as it may have requests if those are bounded.
func (b *Batch) slotsOf(j *job) int {
	if b.o.Concurrency > 0 || j.does != 0 {
		return 1
	}
	requests := max(cmp.Or(b.o.Put.Concurrency, client.DefaultConcurrency), cmp.Or(b.o.Get.Concurrency, client.DefaultConcurrency))
	if j.size < 0 || j.publisher != nil || j.moves {
		return requests
	}
	part := min(cmp.Or(b.o.Put.PartSize, client.DefaultPartSize), cmp.Or(b.o.Get.RangeSize, client.DefaultRangeSize))
	return int(min(int64(requests), max(1, (j.size+part-1)/part)))
}

// delete runs the deletions, if the source is known to lack their names.
func (b *Batch) delete(ctx context.Context) error {
	deletions := slices.DeleteFunc(b.deletions, func(j job) bool { return j.unless != nil && j.unless.moved })
	n := len(deletions)
	if n == 0 {
		return nil
	}
	if ctx.Err() != nil {
		b.plan(n)
		return nil
	}
	if doubt := b.doubt(0); doubt != nil {
		return &NotDeletedError{n, doubt}
	}
	b.plan(n)
	b.report(Event{Kind: Deleting, Number: n})
	b.dispatch(ctx, b.slots(), slices.Values(deletions))
	return nil
}

// doubt returns why the source may have a name that is to be deleted, or nil. It is called while
// this number of jobs have not begun.
func (b *Batch) doubt(pending int) error {
	m := cmp.Or(b.mirrored, &mirrored{force: true})
	switch {
	case m.force:
		return nil
	case m.empty:
		return ErrEmpty
	case b.incomplete != nil || b.copied() < b.planned-pending:
		return ErrIncomplete
	default:
		return nil
	}
}

// plan counts jobs that should have an outcome by the end.
func (b *Batch) plan(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.planned += n
}

// copied returns the number of jobs after which the target has the source's content.
func (b *Batch) copied() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum.Copied + b.sum.Unchanged + b.sum.Moved
}

// maxErrors is how many failures a run's error joins at most.
const maxErrors = 100

// end returns a run's result.
func (b *Batch) end(ctx context.Context, notDeleted error) (Summary, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum, errs := b.sum, slices.Clone(b.errs)
	sum.Left = b.planned - sum.Total()
	if ctx.Err() != nil && sum.Left > 0 {
		errs = append(errs, context.Cause(ctx))
	}
	return sum, errors.Join(append(errs, notDeleted, b.incomplete)...)
}

// dispatch runs jobs, as many at a time as the slots allow. If one fails with an error that
// concerns all, no further one begins; those in progress end by themselves, so that their outcome
// is known. It reports whether further jobs may begin.
func (b *Batch) dispatch(ctx context.Context, slots int, jobs iter.Seq[job]) bool {
	more, stop := context.WithCancel(ctx) // ends when no other job must begin
	defer stop()
	taken := make(chan struct{}, slots)
	var running sync.WaitGroup
	for j := range jobs {
		n := min(b.slotsOf(&j), slots)
		if !take(more, taken, n) {
			break
		}
		running.Go(func() {
			b.runOne(ctx, &j, func(err error) {
				if err != nil && ConcernsAll(err) {
					stop()
				}
			})
			for range n {
				<-taken
			}
		})
	}
	running.Wait()
	for _, t := range b.targets {
		if t.publisher != nil {
			t.publisher.flush()
		}
	}
	return more.Err() == nil
}

// take takes n slots, for which it waits. It returns false if the context ended before.
func take(ctx context.Context, taken chan<- struct{}, n int) bool {
	for range n {
		select {
		case taken <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// runOne runs a job, reports its outcome, and then calls ended with its error, perhaps after it has
// returned.
func (b *Batch) runOne(ctx context.Context, j *job, ended func(error)) {
	if j.rename != nil {
		if possible, err := b.runRename(ctx, j); possible {
			ended(err)
			return
		}
	}
	if j.does == 0 {
		b.report(Event{Kind: Started, Source: j.source, Target: j.target, Size: j.size})
	}
	var done int64
	var result outcome
	err := j.target.check()
	if err == nil {
		result, err = j.run(ctx, func(n, _ int64) {
			done = n
			b.report(Event{Kind: Progress, Source: j.source, Target: j.target, Size: j.size, Done: n})
		})
	}
	settle := func(err error) {
		b.settle(ctx, j, result, done, err)
		ended(err)
	}
	if result.received == nil {
		settle(err)
		return
	}
	j.publisher.add(received{result.received, settle})
}

// runRename runs a job within the target. It returns false if that is not possible. Its events name
// the rename's source as their source, so the first one is reported after the rename.
func (b *Batch) runRename(ctx context.Context, j *job) (possible bool, err error) {
	r := j.rename
	moves := r.moves && !b.keeps
	result, possible, err := r.run(ctx, moves)
	if !possible {
		return false, nil
	}
	r.moved = moves && err == nil
	within := &job{source: r.from, target: j.target, size: j.size, moves: moves}
	b.report(Event{Kind: Started, Source: within.source, Target: within.target, Size: within.size})
	b.settle(ctx, within, result, 0, err)
	return true, err
}

// settle concludes a job that has ended, after done bytes if it has failed.
func (b *Batch) settle(ctx context.Context, j *job, result outcome, done int64, err error) {
	switch {
	case err != nil && ctx.Err() != nil:
		b.conclude(j, Event{Kind: Interrupted, Done: done, Err: err})
	case err != nil:
		b.conclude(j, Event{Kind: Failed, Done: done, Err: err})
	case result.unchanged:
		b.conclude(j, Event{Kind: Unchanged, Size: result.size, ETag: result.etag})
	case j.does != 0:
		b.conclude(j, Event{Kind: j.does, Size: result.size, ETag: result.etag})
	case j.moves:
		b.conclude(j, Event{Kind: Moved, Size: result.size, ETag: result.etag})
	default:
		b.conclude(j, Event{Kind: Copied, Size: result.size, ETag: result.etag})
	}
}

// conclude counts and reports a job's outcome.
func (b *Batch) conclude(j *job, e Event) {
	e.Source, e.Target = j.source, j.target
	b.mu.Lock()
	b.sum.count(&e)
	if e.Kind == Failed && len(b.errs) < maxErrors {
		err := e.Err
		if j.source != (Item{}) {
			err = &Error{j.source, j.target, err}
		}
		b.errs = append(b.errs, err)
	}
	b.mu.Unlock()
	b.report(e)
}

// report calls Options.Report.
func (b *Batch) report(e Event) {
	if b.o.Report == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.o.Report(e)
}
