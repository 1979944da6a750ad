package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/database"
)

// Errors that a Fence returns. They are returned wrapped; use errors.Is to test for them.
var (
	// ErrFenced is returned if another database with the id of this one holds the bytes, or may do
	// so with more right. Nothing may be deleted or committed.
	ErrFenced = errors.New("another database with the same instance id uses these bytes")

	// ErrFenceWaits is returned while it is unknown whether another database holds the bytes.
	// Deletions and commits must wait.
	ErrFenceWaits = errors.New("deletions and writes wait until it is known that no other database uses these bytes")
)

// A Fence's times. A holder checks for claims every fenceEvery. A check's result permits deletions
// for fenceFresh from its beginning. A node that has started checks every fencePoll, and waits
// fenceWait for a response to its claim. After that time a holder that did not respond has stopped
// deleting, and committing too: it does so only if a check began at most fenceGap ago.
const (
	fenceEvery   = 2 * time.Second
	fencePoll    = time.Second
	fenceFresh   = 10 * time.Second
	fenceGap     = 15 * time.Second
	fenceWait    = 20 * time.Second
	checkTimeout = 6 * time.Second // so that two checks that fail leave no gap
)

// epochsKept is how many epochs are kept, the latest ones, in the bytes.
const epochsKept = 16

// epochAge is the age at which a holder replaces its epoch by a new one, so that copies of its
// database which were made before that are refused.
const epochAge = 12 * time.Hour

// countEvery is how often the commits are recorded in the database, if there were any.
const countEvery = 10 * time.Second

// Fence prevents a database and a copy of it, which have the same id and therefore both pass Bind,
// from using the same bytes: at most one of them deletes, and at most one commits.
//
// The bytes hold an object for each epoch, with a nonce from the database that holds the bytes. A
// new epoch is first recorded in the database and then put into the bytes, where the first of
// several databases wins. A database that finds a later epoch than its own is fenced permanently. A
// node that starts puts a claim to the next epoch, which is an object without a holder. A node that
// is a holder responds to the claim by making that epoch in its own database: the other nodes of
// its database then know immediately that they are holders, too, and a copy knows that it is
// fenced. If no node responds within fenceWait, the node makes the epoch itself, unless its
// database is a candidate beside one that has at least as many commits: then it is fenced.
//
// A holder also makes a new epoch when Renew is called and when its epoch is epochAge old. A copy
// that was made before is behind the bytes, and is refused when it starts.
//
// A holder continues to commit while the bytes cannot be reached. A node that has started, or did
// not check for fenceGap because it was suspended, does not commit before a check has found that
// its database is the holder.
//
// A Fence relies on two guarantees of a byte store: if there are several Puts with one name, one
// succeeds, and Open finds what a Put has stored. It relies on listings that show objects put
// lately only for the comparison of candidates, and on listings that show epochs put long ago only
// if a database is more than epochsKept epochs old.
//
// Methods may be called concurrently.
type Fence struct {
	props   database.Properties
	bytes   bytestore.Store
	commits *commitCount
	hurry   chan struct{} // holds a token if Watch must check now

	sem       chan struct{} // held during a check; guards the fields up to mu
	started   uint64        // the number of the database's epoch at the start, or 0
	holder    bool          // a node of this database has made an epoch since
	candidate candidate     // the last that a node of this database has put
	claimed   time.Time     // when a claim to the next epoch was first seen; zero if there is none
	put       epoch         // the database's latest epoch that is known to be in the bytes
	made      time.Time     // when put was found
	renew     bool          // a new epoch was requested
	counted   time.Time     // when the commits were last recorded

	mu      sync.Mutex
	last    result
	tried   time.Time     // when the last check began, even if it failed
	holds   bool          // the database was found to be the holder, and there has been no gap since
	checked chan struct{} // closed when the next check ends
}

// result is what a check found.
type result struct {
	began time.Time
	err   error
	pause time.Duration // until the next check
}

// OpenFence puts a claim. It returns ErrFenced if another database is known to hold the bytes.
// Metadata and bytes must have passed Bind. The caller must run Watch.
func OpenFence(ctx context.Context, props database.Properties, bytes bytestore.Store) (*Fence, error) {
	f := &Fence{
		props: props, bytes: bytes, commits: &commitCount{props: props},
		hurry: make(chan struct{}, 1), sem: make(chan struct{}, 1), checked: make(chan struct{}),
	}
	known, err := f.epoch(ctx)
	if err != nil {
		return nil, err
	}
	f.started = known.number
	if err := f.checkPassed(ctx, known.number); err != nil {
		return nil, err
	}
	if err := f.check(ctx); err != nil && !errors.Is(err, ErrFenceWaits) {
		return nil, err
	}
	return f, nil
}

// Watch checks for claims and later epochs until ctx ends. It calls changed with each result that
// differs from the previous one: nil, ErrFenceWaits, ErrFenced, or the reason why the check failed.
// At the end it records the commits.
func (f *Fence) Watch(ctx context.Context, changed func(error)) {
	last := f.latest()
	for {
		timer := time.NewTimer(last.pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			f.recordLast(ctx)
			return
		case <-timer.C:
		case <-f.hurry:
			timer.Stop()
		}
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		err := f.check(bounded)
		cancel()
		if ctx.Err() != nil {
			f.recordLast(ctx)
			return
		}
		f.try(began) // also if the stores did not answer in time
		if fmt.Sprint(err) != fmt.Sprint(last.err) {
			changed(err)
		}
		last = result{err: err, pause: max(f.latest().pause, fencePoll)}
	}
}

// recordLast records the commits when ctx has ended.
func (f *Fence) recordLast(ctx context.Context) {
	if f.MayCommit() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fencePoll)
	defer cancel()
	// If this fails, the last seconds' commits are missing in the count, as after a crash.
	_ = f.commits.flush(ctx)
}

// Err returns ErrFenced if another database is known to hold the bytes, and nil otherwise.
func (f *Fence) Err() error {
	if err := f.latest().err; errors.Is(err, ErrFenced) {
		return err
	}
	return nil
}

func (f *Fence) latest() result {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// MayDelete returns nil if this database holds the bytes according to a check that began at most
// fenceFresh ago. It makes a check if the last one is older. It is the function for
// Options.MayDelete.
func (f *Fence) MayDelete(ctx context.Context) error {
	if last := f.latest(); elapsed(last.began) < fenceFresh {
		return last.err
	}
	return f.check(ctx)
}

// MayCommit returns nil if this database may commit now, and otherwise ErrFenced or ErrFenceWaits.
// It makes no check, and never waits for one.
func (f *Fence) MayCommit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(f.last.err, ErrFenced):
		return f.last.err
	case !f.holds || f.gap():
		return fmt.Errorf("%w; this takes up to %s after a start", ErrFenceWaits, fenceWait)
	}
	return nil
}

// Commit is MayCommit, and counts a commit if it returns nil. The caller must call it immediately
// before each commit of changes to the instance.
func (f *Fence) Commit() error {
	err := f.MayCommit()
	if err == nil {
		f.commits.add()
	}
	return err
}

// Await waits until MayCommit returns nil or ErrFenced, and returns that, or ErrFenceWaits if ctx
// ends before that.
func (f *Fence) Await(ctx context.Context) error {
	for {
		f.mu.Lock()
		checked, gap := f.checked, f.gap()
		f.mu.Unlock()
		err := f.MayCommit()
		if !errors.Is(err, ErrFenceWaits) {
			return err
		}
		if gap { // Watch may sleep for as long as the machine did
			select {
			case f.hurry <- struct{}{}:
			default:
			}
		}
		select {
		case <-checked:
		case <-ctx.Done():
			return err
		}
	}
}

// While runs work each time that MayCommit has returned nil, until ctx ends. The context of work
// ends when the database is fenced.
func (f *Fence) While(ctx context.Context, work func(context.Context)) {
	for ctx.Err() == nil {
		if f.Await(ctx) == nil {
			working, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() { work(working) })
			for f.Err() == nil {
				if !f.awaitCheck(ctx) {
					break
				}
			}
			stop()
			running.Wait()
		}
		f.awaitCheck(ctx)
	}
}

// awaitCheck waits until a check ends. It returns false if ctx ends before that.
func (f *Fence) awaitCheck(ctx context.Context) bool {
	f.mu.Lock()
	checked := f.checked
	f.mu.Unlock()
	select {
	case <-checked:
		return true
	case <-ctx.Done():
		return false
	}
}

// Renew makes a new epoch. It returns ErrFenced or ErrFenceWaits if the database does not own the
// bytes, and does nothing then. It is the function for Options.BeforeSweep.
func (f *Fence) Renew(ctx context.Context) error {
	return f.checkWith(ctx, true)
}

// gap reports whether no check has begun for so long that another database may be the holder.
func (f *Fence) gap() bool { return elapsed(f.tried) > fenceGap }

// try records when a check began that has ended, even with an error. If there was none for so long
// that another database may be the holder, only a check can show that it is not.
func (f *Fence) try(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gap() {
		f.holds = false
	}
	if began.After(f.tried) {
		f.tried = began
	}
}

// elapsed returns the time since t by the clock that shows more of it: the monotonic clock may stop
// while the machine is asleep, and the wall clock can be set back.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// check finds out whether this database holds the bytes.
func (f *Fence) check(ctx context.Context) error { return f.checkWith(ctx, false) }

// checkWith is check, and makes a new epoch if renew is set and the database holds the bytes.
func (f *Fence) checkWith(ctx context.Context, renew bool) error {
	select {
	case f.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.sem }()
	f.renew = renew
	found := result{began: time.Now(), pause: fenceEvery}
	for again := true; again && found.err == nil; {
		again, found.err = f.step(ctx)
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), found.err) // which says nothing about the bytes
	}
	switch {
	case errors.Is(found.err, ErrFenced):
		f.holder = false
	case errors.Is(found.err, ErrFenceWaits):
		found.pause = min(fencePoll, fenceWait-elapsed(f.claimed))
	}
	f.try(found.began)
	f.conclude(found)
	if found.err == nil && elapsed(f.counted) >= countEvery {
		f.counted = time.Now()
		// What this cannot record is recorded later, and does not decide who holds the bytes.
		_ = f.commits.flush(ctx)
	}
	return found.err
}

// conclude publishes a check's result unless it was interrupted.
func (f *Fence) conclude(found result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = found
	if found.err == nil || errors.Is(found.err, ErrFenced) {
		f.holds = found.err == nil
	}
	close(f.checked)
	f.checked = make(chan struct{})
}

// step compares the database with the bytes, and performs at most one step towards an epoch. again
// reports that it did, or that the database has changed.
func (f *Fence) step(ctx context.Context) (again bool, err error) {
	known, err := f.epoch(ctx)
	if err != nil {
		return false, err
	}
	if known.number == 0 {
		err := f.props.SetProperty(ctx, EpochProperty, newEpoch(1).String())
		if errors.Is(err, database.ErrExists) {
			err = nil // another node has set it
		}
		return true, err
	}
	if f.put != known {
		return true, f.publish(ctx, known)
	}
	next := known.number + 1
	// The claim is read first: a node that removes epochs removes ours before the claim.
	claim, err := ReadID(ctx, f.bytes.Open, claimName(next))
	if err != nil {
		return false, err
	}
	ours, err := ReadID(ctx, f.bytes.Open, epochName(known.number))
	if err != nil {
		return false, err
	}
	if ours != known.nonce {
		return false, f.fenced(ctx, known.number)
	}
	if known.number > f.started {
		f.holder = true
	}
	switch {
	case claim == "" && f.holder && !f.renew && elapsed(f.made) < epochAge:
		return false, nil
	case !f.holder && f.candidate.number != next:
		return true, f.stand(ctx, next)
	case claim == "" && !f.holder:
		return true, f.claim(ctx, next)
	}
	if later, err := ReadID(ctx, f.bytes.Open, epochName(next)); err != nil || later != "" {
		return f.laterEpoch(ctx, known, next, err)
	}
	if f.claimed.IsZero() {
		f.claimed = time.Now()
	}
	if !f.holder {
		if elapsed(f.claimed) < fenceWait {
			return false, fmt.Errorf("%w; this takes up to %s after a start", ErrFenceWaits, fenceWait)
		}
		if err := f.outdo(ctx); err != nil {
			return false, err
		}
	} else if err := f.commits.flush(ctx); err != nil {
		return false, err
	}
	err = f.props.ReplaceProperty(ctx, EpochProperty, known.String(), newEpoch(next).String())
	if errors.Is(err, database.ErrNotFound) {
		err = nil // another node was first
	}
	return true, err
}

// stand makes the database a candidate for an epoch.
func (f *Fence) stand(ctx context.Context, number uint64) (err error) {
	c := candidate{number: number}
	if c.name, err = nameOf(ctx, f.props, number); err != nil {
		return err
	}
	if c.commits, err = f.commits.stored(ctx); err != nil {
		return err
	}
	err = f.bytes.Put(ctx, c.object(), strings.NewReader(""), 0)
	if err == nil || errors.Is(err, bytestore.ErrExists) {
		f.candidate = c
		return nil
	}
	return err
}

// outdo returns ErrFenced if another database is a candidate for the same epoch and has at least as
// many commits. Which of several is the original is then not known, or it is the other one.
func (f *Fence) outdo(ctx context.Context) error {
	rival, found, err := f.candidate.rival(ctx, f.bytes)
	switch {
	case err != nil:
		return err
	case !found || rival.commits < f.candidate.commits:
		return nil
	case rival.commits > f.candidate.commits:
		return refuse("a copy of this database, or its original, was started while no node ran that holds the bytes, "+
			"and has %d commits; this one has %d and is behind", rival.commits, f.candidate.commits)
	}
	return refuse("a copy of this database, or its original, was started while no node ran that holds the bytes, "+
		"and has %d commits like this one, so that neither is preferred", rival.commits)
}

// claim puts a claim, unless another node, of either database, has done so.
func (f *Fence) claim(ctx context.Context, number uint64) error {
	err := f.bytes.Put(ctx, claimName(number), strings.NewReader(newEpoch(number).nonce), instanceLen)
	if errors.Is(err, bytestore.ErrExists) {
		return nil
	}
	return err
}

// publish puts the database's epoch into the bytes, unless that number is there. step finds out
// whether another database was first.
func (f *Fence) publish(ctx context.Context, e epoch) error {
	commits, err := f.commits.stored(ctx)
	if err != nil {
		return err
	}
	object := epochObject(e, commits)
	err = f.bytes.Put(ctx, epochName(e.number), strings.NewReader(object), int64(len(object)))
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	// The epoch may have been there before and may be the only one that was removed.
	if err := f.checkPassed(ctx, e.number); err != nil {
		return err
	}
	f.put, f.claimed, f.made, f.renew = e, time.Time{}, time.Now(), false
	return nil
}

// checkPassed returns ErrFenced if the bytes hold an epoch that is later than the given one and
// unknown to the database. It removes old epochs and the candidates for made ones.
func (f *Fence) checkPassed(ctx context.Context, number uint64) error {
	end := errors.New("no more epochs")
	var latest uint64
	var old []bytestore.Name
	err := f.bytes.List(ctx, bytestore.Name(epochPrefix), func(o bytestore.Object) error {
		n, ok := epochOfName(o.Name)
		if !ok {
			return end
		}
		if o.Name == epochName(n) {
			latest = max(latest, n)
		}
		_, candidate := parseCandidate(o.Name)
		if n+epochsKept <= number || candidate && n <= number {
			old = append(old, o.Name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, end) {
		return err
	}
	if latest > number {
		known, err := f.epoch(ctx) // a node of this database may have made the later epoch
		if err == nil && latest > known.number {
			err = f.fenced(ctx, latest)
		}
		return err
	}
	for _, name := range old { // oldest first, so that a database that was passed misses its own epoch first
		if err := f.bytes.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// laterEpoch handles an epoch that was found in the bytes and is later than the epoch that the
// database had a moment ago.
func (f *Fence) laterEpoch(ctx context.Context, known epoch, next uint64, err error) (again bool, _ error) {
	if err != nil {
		return false, err
	}
	now, err := f.epoch(ctx)
	if err != nil {
		return false, err
	}
	if now != known {
		return true, nil
	}
	return false, f.fenced(ctx, next)
}

// fenced returns ErrFenced because another database has an epoch.
func (f *Fence) fenced(ctx context.Context, number uint64) error {
	// The counts only help to choose the database to continue with, so that errors do not matter.
	theirs, known, _ := readCount(ctx, f.bytes, number)
	own, err := f.commits.stored(ctx)
	if !known || err != nil {
		return refuse("epoch %d belongs to a copy of this database, or to its original", number)
	}
	return refuse("epoch %d belongs to a copy of this database, or to its original; that one had %d commits then, and this one has %d",
		number, theirs, own)
}

// refuse returns ErrFenced with the reason and the actions that an operator can take.
func refuse(reason string, values ...any) error {
	return fmt.Errorf("%w: %s; this one deletes and writes nothing. "+
		"Stop the one that is not wanted; to continue with this one, stop all nodes of both, run sluice recover for it and start it",
		ErrFenced, fmt.Sprintf(reason, values...))
}

// epoch returns the database's epoch; its number is 0 if there is none.
func (f *Fence) epoch(ctx context.Context) (epoch, error) {
	text, err := f.props.Property(ctx, EpochProperty)
	if errors.Is(err, database.ErrNotFound) {
		return epoch{}, nil
	}
	if err != nil {
		return epoch{}, err
	}
	e, err := parseEpoch(text)
	if err != nil {
		return epoch{}, fmt.Errorf("%s: %w", EpochProperty, err)
	}
	return e, nil
}
