package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// EpochProperty is the fact that holds the epoch of a database: its number, and a
// nonce that another database's epoch of the same number does not have.
const EpochProperty = "epoch"

// Errors of a Fence. They arrive wrapped; compare with errors.Is.
var (
	// ErrFenced: another database with the id of this one owns the bytes.
	ErrFenced = errors.New("another database with the same instance id works on these bytes")
	// ErrFenceWaits: it is not known yet whether one does; deletions must wait.
	ErrFenceWaits = errors.New("deletions wait until no other database is known to work on these bytes")
)

// The times of a Fence. An owner looks for claims every fenceEvery, and what it
// found counts for deletions for fenceFresh from the beginning of the look. A
// node that has started waits fenceWait for an answer to its claim, by when the
// deletions of an owner that did not answer have stopped.
const (
	fenceEvery = 8 * time.Second
	fenceFresh = 10 * time.Second
	fenceWait  = 20 * time.Second
)

// epochsKept is how many of the latest epochs stay in the bytes.
const epochsKept = 16

// Fence keeps a database and its copy, which have the same id and so both pass
// Bind, from working on the same bytes. At most one of them deletes.
//
// The bytes hold an object for each epoch, which names the database that owns
// them by a nonce. A new epoch is first written into the database and then put
// into the bytes, where the first of several databases wins; one that finds a
// later epoch than its own database knows is fenced for good. A node that starts
// puts a claim to the next epoch, which is an object without an owner. A node
// that is an owner answers it with that epoch, of its own database: so the other
// nodes of its database know at once that they are owners, too, and a copy knows
// that it is fenced. When nobody answers within fenceWait, the node makes the
// epoch itself.
//
// Of the byte store a Fence needs two promises: of several Puts of one key one
// succeeds, and Open finds what a Put has stored. That a listing shows epochs
// that were put long ago matters only to a database that is more than epochsKept
// epochs old.
//
// Its methods may be called at once.
type Fence struct {
	facts metastore.Properties
	bytes bytestore.Store

	looking chan struct{} // holds an element while somebody looks, who has what follows
	started uint64        // the number of the database's epoch at the start; 0: none
	owner   bool          // an epoch was made since by a node of this database
	claimed time.Time     // since when a claim to the next epoch is known; zero: not yet
	put     epoch         // the latest epoch of the database that was found in the bytes

	mu   sync.Mutex
	last verdict
}

// verdict is the outcome of a look.
type verdict struct {
	began time.Time
	err   error
	pause time.Duration // until the next look
}

// epoch is a number and who made it.
type epoch struct {
	number uint64 // from 1
	nonce  string // of instanceLen characters
}

func newEpoch(number uint64) epoch {
	var b [instanceLen / 2]byte
	rand.Read(b[:])
	return epoch{number, hex.EncodeToString(b[:])}
}

func (e epoch) String() string { return fmt.Sprintf("%016x %s", e.number, e.nonce) }

func parseEpoch(s string) (epoch, error) {
	number, nonce, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(number, 16, 64)
	if err != nil || n == 0 || len(nonce) != instanceLen {
		return epoch{}, fmt.Errorf("the fact %s is %q, which is no epoch", EpochProperty, s)
	}
	return epoch{n, nonce}, nil
}

// The keys of the objects of a Fence. The claim to an epoch sorts before it.
const epochPrefix = "sluice-epoch-"

func epochKey(number uint64) bytestore.Key {
	return bytestore.Key(fmt.Sprintf("%s%016x-owner", epochPrefix, number))
}

func claimKey(number uint64) bytestore.Key {
	return bytestore.Key(fmt.Sprintf("%s%016x-claim", epochPrefix, number))
}

// epochOfKey is the number of the epoch that an object belongs to; false for the
// objects of others.
func epochOfKey(key bytestore.Key) (number uint64, ok bool) {
	rest, ok := strings.CutPrefix(string(key), epochPrefix)
	digits, _, _ := strings.Cut(rest, "-")
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, ok && err == nil
}

// OpenFence puts a claim, and reports ErrFenced when another database is known to
// own the bytes. Metadata and bytes must have passed Bind. The caller runs Watch.
func OpenFence(ctx context.Context, facts metastore.Properties, bytes bytestore.Store) (*Fence, error) {
	f := &Fence{facts: facts, bytes: bytes, looking: make(chan struct{}, 1)}
	known, err := f.known(ctx)
	if err != nil {
		return nil, err
	}
	f.started = known.number
	if err := f.passed(ctx, known.number); err != nil {
		return nil, err
	}
	if err := f.look(ctx); err != nil && !errors.Is(err, ErrFenceWaits) {
		return nil, err
	}
	return f, nil
}

// Watch looks for claims and later epochs until ctx ends. It calls changed with
// each outcome that differs from the one before: nil, ErrFenceWaits, ErrFenced, or
// what kept it from looking.
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
		err := f.look(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if fmt.Sprint(err) != fmt.Sprint(last.err) {
			changed(err)
		}
		last = verdict{err: err, pause: max(f.latest().pause, time.Second)}
	}
}

// Err is ErrFenced when another database owns the bytes, and nil otherwise, also
// while that is not known.
func (f *Fence) Err() error {
	if err := f.latest().err; errors.Is(err, ErrFenced) {
		return err
	}
	return nil
}

func (f *Fence) latest() verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// MayDelete is nil while this database owns the bytes, as a look showed that began
// at most fenceFresh ago; it looks anew when the last one is older. It is what
// Options.MayDelete wants.
func (f *Fence) MayDelete(ctx context.Context) error {
	if last := f.latest(); elapsed(last.began) < fenceFresh {
		return last.err
	}
	return f.look(ctx)
}

// elapsed is the time since t, by the clock that shows more of it: the monotonic
// one stands still while the machine sleeps, and the other one can be set back.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// look finds out whether this database owns the bytes.
func (f *Fence) look(ctx context.Context) error {
	select {
	case f.looking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.looking }()
	found := verdict{began: time.Now(), pause: fenceEvery}
	for again := true; again && found.err == nil; {
		again, found.err = f.step(ctx)
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), found.err) // which says nothing of the bytes
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

// step compares the database with the bytes, and takes at most one step towards
// an epoch. again says that it did, or that the database has moved on.
func (f *Fence) step(ctx context.Context) (again bool, err error) {
	known, err := f.known(ctx)
	if err != nil {
		return false, err
	}
	if known.number == 0 {
		err := f.facts.SetProperty(ctx, EpochProperty, newEpoch(1).String())
		if errors.Is(err, metastore.ErrExists) {
			err = nil // by another node
		}
		return true, err
	}
	if f.put != known {
		return true, f.publish(ctx, known)
	}
	next := known.number + 1
	// The claim first: who removes epochs removes ours before it.
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
		return f.outrun(ctx, known, next, err)
	}
	if f.claimed.IsZero() {
		f.claimed = time.Now()
	}
	if !f.owner && elapsed(f.claimed) < fenceWait {
		return false, fmt.Errorf("%w, which takes up to %s after a start", ErrFenceWaits, fenceWait)
	}
	err = f.facts.ReplaceProperty(ctx, EpochProperty, known.String(), newEpoch(next).String())
	if errors.Is(err, metastore.ErrNotFound) {
		err = nil // another node was first
	}
	return true, err
}

// claim asks who owns the bytes. Another node, of whichever database, may have
// asked already.
func (f *Fence) claim(ctx context.Context, number uint64) error {
	err := f.bytes.Put(ctx, claimKey(number), strings.NewReader(newEpoch(number).nonce), instanceLen)
	if errors.Is(err, bytestore.ErrExists) {
		return nil
	}
	return err
}

// publish puts an epoch of the database into the bytes, unless it is there.
// ErrFenced when another database was first.
func (f *Fence) publish(ctx context.Context, e epoch) error {
	err := f.bytes.Put(ctx, epochKey(e.number), strings.NewReader(e.nonce), instanceLen)
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	if err != nil {
		found, err := ReadID(ctx, f.bytes, epochKey(e.number))
		if err != nil {
			return err
		}
		if found != e.nonce {
			return fenced(e.number)
		}
	}
	// It may have been there long ago, and be the only one that was removed.
	if err := f.passed(ctx, e.number); err != nil {
		return err
	}
	f.put, f.claimed = e, time.Time{}
	return nil
}

// passed is ErrFenced when the bytes hold a later epoch than the one of this
// number that the database does not know. It removes those that are old.
func (f *Fence) passed(ctx context.Context, number uint64) error {
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
		if known, err := f.known(ctx); err != nil || latest > known.number {
			return errors.Join(err, fenced(latest))
		}
		return nil
	}
	for _, key := range old { // in their order, so that a database which was passed misses its own first
		if err := f.bytes.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// outrun is for an epoch that was found in the bytes and is later than the one
// that the database had a moment ago.
func (f *Fence) outrun(ctx context.Context, known epoch, next uint64, err error) (again bool, _ error) {
	if err != nil {
		return false, err
	}
	now, err := f.known(ctx)
	if err != nil {
		return false, err
	}
	if now != known {
		return true, nil
	}
	return false, fenced(next)
}

// fenced says what an operator can do.
func fenced(number uint64) error {
	return fmt.Errorf("%w: epoch %d is of a copy of this database, or of the one that this is a copy of; this one deletes nothing. "+
		"Stop the one that is not wanted; to go on with this one, stop all nodes of both, delete the objects %s* and start it", ErrFenced, number, epochPrefix)
}

// known is the epoch of the database; its number is 0 when there is none.
func (f *Fence) known(ctx context.Context) (epoch, error) {
	text, err := f.facts.Property(ctx, EpochProperty)
	if errors.Is(err, metastore.ErrNotFound) {
		return epoch{}, nil
	}
	if err != nil {
		return epoch{}, err
	}
	return parseEpoch(text)
}

// FreeSoon makes Run look for garbage: what MayDelete refused may be deleted now.
func (s *Service) FreeSoon() { s.wake() }
