package blob

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// EpochProperty is the property that holds the epoch of a database: its number, and a
// nonce that distinguishes it from the epoch with the same number of another database.
const EpochProperty = "epoch"

// Errors of a Fence. They are returned wrapped; use errors.Is to test for them.
var (
	// ErrFenced is returned if another database with the id of this one owns the
	// bytes.
	ErrFenced = errors.New("another database with the same instance id uses these bytes")

	// ErrFenceWaits is returned while it is unknown whether another database owns the
	// bytes. Deletions must wait.
	ErrFenceWaits = errors.New("deletions wait until it is known that no other database uses these bytes")
)

// The times of a Fence. An owner checks for claims every fenceEvery. The result of a
// check permits deletions for fenceFresh from the beginning of the check. A node that
// has started waits fenceWait for a response to its claim. After that time an owner that
// did not respond has stopped deleting.
const (
	fenceEvery = 8 * time.Second
	fenceFresh = 10 * time.Second
	fenceWait  = 20 * time.Second
)

// epochsKept is the number of the latest epochs that are kept in the bytes.
const epochsKept = 16

// Fence prevents a database and a copy of it, which have the same id and therefore both
// pass Bind, from using the same bytes: at most one of them deletes.
//
// The bytes hold an object for each epoch, with the nonce of the database that owns the
// bytes. A new epoch is first recorded in the database and then put into the bytes, where
// the first of several databases wins. A database that finds a later epoch than its own is
// fenced permanently. A node that starts puts a claim to the next epoch, which is an
// object without an owner. A node that is an owner responds to the claim by making that epoch
// in its own database: the other nodes of its database then know immediately that they are
// owners, too, and a copy knows that it is fenced. If no node responds within fenceWait, the
// node makes the epoch itself.
//
// A Fence relies on two guarantees of the byte store: of several Puts of one key one
// succeeds, and Open finds what a Put has stored. Only a database that is more than
// epochsKept epochs old relies on listings that show epochs put long ago.
//
// Methods may be called concurrently.
type Fence struct {
	props metastore.Properties
	bytes bytestore.Store

	sem     chan struct{} // held during a check; guards the fields up to mu
	started uint64        // the number of the database's epoch at the start, or 0
	owner   bool          // a node of this database has made an epoch since
	claimed time.Time     // when a claim to the next epoch was first seen; zero if there is none
	put     epoch         // the latest epoch of the database that is known to be in the bytes

	mu   sync.Mutex
	last result
}

// result is the result of a check.
type result struct {
	began time.Time
	err   error
	pause time.Duration // until the next check
}

// epoch is the number of an epoch and a nonce that identifies its maker.
type epoch struct {
	number uint64 // from 1
	nonce  string // of instanceLen characters
}

func newEpoch(number uint64) epoch {
	return epoch{number, newID()}
}

func (e epoch) String() string { return fmt.Sprintf("%016x %s", e.number, e.nonce) }

func parseEpoch(s string) (epoch, error) {
	number, nonce, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(number, 16, 64)
	if err != nil || n == 0 || len(nonce) != instanceLen {
		return epoch{}, fmt.Errorf("the property %s is %q, which is not an epoch", EpochProperty, s)
	}
	return epoch{n, nonce}, nil
}

// Keys of the objects of a Fence. The claim to an epoch sorts before the epoch.
const epochPrefix = "sluice-epoch-"

func epochKey(number uint64) bytestore.Key {
	return bytestore.Key(fmt.Sprintf("%s%016x-owner", epochPrefix, number))
}

func claimKey(number uint64) bytestore.Key {
	return bytestore.Key(fmt.Sprintf("%s%016x-claim", epochPrefix, number))
}

// epochOfKey returns the number of the epoch to which an object belongs. It returns false
// for other objects.
func epochOfKey(key bytestore.Key) (number uint64, ok bool) {
	rest, ok := strings.CutPrefix(string(key), epochPrefix)
	digits, _, _ := strings.Cut(rest, "-")
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, ok && err == nil
}

// OpenFence puts a claim. It returns ErrFenced if another database is known to own the
// bytes. Metadata and bytes must have passed Bind. The caller must run Watch.
func OpenFence(ctx context.Context, props metastore.Properties, bytes bytestore.Store) (*Fence, error) {
	f := &Fence{props: props, bytes: bytes, sem: make(chan struct{}, 1)}
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

// Watch checks for claims and later epochs until ctx ends. It calls changed with each
// result that differs from the previous one: nil, ErrFenceWaits, ErrFenced, or the reason
// why the check failed.
func (f *Fence) Watch(ctx context.Context, changed func(error)) {
	last := f.latest()
	for {
		timer := time.NewTimer(last.pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		bounded, cancel := context.WithTimeout(ctx, fenceEvery)
		err := f.check(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if fmt.Sprint(err) != fmt.Sprint(last.err) {
			changed(err)
		}
		last = result{err: err, pause: max(f.latest().pause, time.Second)}
	}
}

// Err returns ErrFenced if another database is known to own the bytes, and nil otherwise.
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

// MayDelete returns nil if this database owns the bytes according to a check that began at
// most fenceFresh ago. It makes a check if the last one is older. It is the function for
// Options.MayDelete.
func (f *Fence) MayDelete(ctx context.Context) error {
	if last := f.latest(); elapsed(last.began) < fenceFresh {
		return last.err
	}
	return f.check(ctx)
}

// elapsed returns the time since t by the clock that shows more of it: the monotonic clock
// may stop while the machine is asleep, and the wall clock can be set back.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// check finds out whether this database owns the bytes.
func (f *Fence) check(ctx context.Context) error {
	select {
	case f.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.sem }()
	found := result{began: time.Now(), pause: fenceEvery}
	for again := true; again && found.err == nil; {
		again, found.err = f.step(ctx)
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), found.err) // which says nothing about the bytes
	}
	switch {
	case errors.Is(found.err, ErrFenced):
		f.owner = false
	case errors.Is(found.err, ErrFenceWaits):
		found.pause = min(fenceEvery, fenceWait-elapsed(f.claimed))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = found
	return found.err
}

// step compares the database with the bytes, and performs at most one step towards an
// epoch. again reports that it did, or that the database has changed.
func (f *Fence) step(ctx context.Context) (again bool, err error) {
	known, err := f.epoch(ctx)
	if err != nil {
		return false, err
	}
	if known.number == 0 {
		err := f.props.SetProperty(ctx, EpochProperty, newEpoch(1).String())
		if errors.Is(err, metastore.ErrExists) {
			err = nil // another node has set it
		}
		return true, err
	}
	if f.put != known {
		return true, f.publish(ctx, known)
	}
	next := known.number + 1
	// The claim is read first: a node that removes epochs removes ours before the claim.
	claim, err := ReadID(ctx, f.bytes, claimKey(next))
	if err != nil {
		return false, err
	}
	ours, err := ReadID(ctx, f.bytes, epochKey(known.number))
	if err != nil {
		return false, err
	}
	if ours != known.nonce {
		return false, fenced(known.number)
	}
	if known.number > f.started {
		f.owner = true
	}
	switch {
	case claim == "" && f.owner:
		return false, nil
	case claim == "":
		return true, f.claim(ctx, next)
	}
	if later, err := ReadID(ctx, f.bytes, epochKey(next)); err != nil || later != "" {
		return f.laterEpoch(ctx, known, next, err)
	}
	if f.claimed.IsZero() {
		f.claimed = time.Now()
	}
	if !f.owner && elapsed(f.claimed) < fenceWait {
		return false, fmt.Errorf("%w; this takes up to %s after a start", ErrFenceWaits, fenceWait)
	}
	err = f.props.ReplaceProperty(ctx, EpochProperty, known.String(), newEpoch(next).String())
	if errors.Is(err, metastore.ErrNotFound) {
		err = nil // another node was first
	}
	return true, err
}

// claim puts a claim, unless another node, of either database, has done so.
func (f *Fence) claim(ctx context.Context, number uint64) error {
	err := f.bytes.Put(ctx, claimKey(number), strings.NewReader(newEpoch(number).nonce), instanceLen)
	if errors.Is(err, bytestore.ErrExists) {
		return nil
	}
	return err
}

// publish puts an epoch of the database into the bytes, unless that number is there. step
// finds out whether another database was first.
func (f *Fence) publish(ctx context.Context, e epoch) error {
	err := f.bytes.Put(ctx, epochKey(e.number), strings.NewReader(e.nonce), instanceLen)
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	// The epoch may have been there before and may be the only one that was removed.
	if err := f.checkPassed(ctx, e.number); err != nil {
		return err
	}
	f.put, f.claimed = e, time.Time{}
	return nil
}

// checkPassed returns ErrFenced if the bytes hold an epoch that is later than the given
// one and unknown to the database. It removes old epochs.
func (f *Fence) checkPassed(ctx context.Context, number uint64) error {
	end := errors.New("no more epochs")
	var latest uint64
	var old []bytestore.Key
	err := f.bytes.List(ctx, bytestore.Key(epochPrefix), func(o bytestore.Object) error {
		n, ok := epochOfKey(o.Key)
		if !ok {
			return end
		}
		if o.Key == epochKey(n) {
			latest = max(latest, n)
		}
		if n+epochsKept <= number {
			old = append(old, o.Key)
		}
		return nil
	})
	if err != nil && !errors.Is(err, end) {
		return err
	}
	if latest > number {
		known, err := f.epoch(ctx) // a node of this database may have made the later epoch
		if err == nil && latest > known.number {
			err = fenced(latest)
		}
		return err
	}
	for _, key := range old { // oldest first, so that a database that was passed misses its own epoch first
		if err := f.bytes.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// laterEpoch handles an epoch that was found in the bytes and is later than the epoch that
// the database had a moment ago.
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
	return false, fenced(next)
}

// fenced returns ErrFenced with the actions that an operator can take.
func fenced(number uint64) error {
	return fmt.Errorf("%w: epoch %d belongs to a copy of this database, or to the original of which this is a copy; this one deletes nothing. "+
		"Stop the one that is not wanted; to continue with this one, stop all nodes of both, delete the objects %s* and start it", ErrFenced, number, epochPrefix)
}

// epoch returns the epoch of the database; its number is 0 if there is none.
func (f *Fence) epoch(ctx context.Context) (epoch, error) {
	text, err := f.props.Property(ctx, EpochProperty)
	if errors.Is(err, metastore.ErrNotFound) {
		return epoch{}, nil
	}
	if err != nil {
		return epoch{}, err
	}
	return parseEpoch(text)
}
