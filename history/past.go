// Package history notices that an instance was set back: that its database, or its bytes, lack what
// they have acknowledged, because they were restored from an older state or replaced by a copy that
// did not have everything.
//
// A database that was set back looks like any other. What it lacks is known only elsewhere:
//
//   - The engine remembers the last transactions that were acknowledged to this process, and looks
//     for them on each new connection (database.Past's LostCommits).
//   - The database has marks, transactions that exist for this purpose. Each node remembers the
//     newest one that it has seen.
//   - Marks are recorded beside the bytes, so that a start after everything had stopped notices as
//     well. Between a record and the next, up to Every of commits remain unseen.
//
// Whoever notices records it in the database, from where all other nodes know it. It ends with the
// next generation, which an operator begins.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bytestore"
	"sluice/database"
)

const (
	// Every is how often a node records a mark beside the bytes while it commits.
	Every = 30 * time.Second

	// lookEvery is how often a node looks whether another one has noticed something.
	lookEvery = 2 * time.Second
	// lookTimeout bounds a look, and lastTimeout the last mark of a node that ends.
	lookTimeout = 10 * time.Second
	lastTimeout = 2 * time.Second

	// recordsKept is how many records are kept beside the bytes: the latest.
	recordsKept = 16
)

// Store is the database's past, and its clock.
type Store interface {
	database.Past
	Now() time.Time
}

// Options configure a Past. The zero value is valid.
type Options struct {
	// Node names this node for operators.
	Node string
	// Permitted returns nil if this database owns the bytes. nil: it always does.
	Permitted func() error
	// Done returns what this process has acknowledged since it started. nil: it is not known.
	Done func() Done
}

// Done is what a node has acknowledged.
type Done struct {
	Chunksets int64 // used
	Payments  int64
}

// Past is an instance's past as a node knows it. Its methods may be called concurrently, except
// Watch.
type Past struct {
	db        Store
	bytes     bytestore.Store
	opt       Options
	committed atomic.Bool // since the last mark

	setBack atomic.Pointer[error] // nil: nothing was noticed

	generation atomic.Int64                         // at the last look
	kept       atomic.Pointer[database.KeptObjects] // at the last look

	mu       sync.Mutex         // held during a look; guards what follows
	seen     database.PastState // at the last look that found nothing; zero if none has
	recorded []checkpoint       // the newest marks that this process has recorded, and a zero one at first
	looked   time.Time          // at the records
	reported bool               // in this generation: how it was set back, as far as this node knows
}

// checkpoint is a mark, and what the process had done when the mark was added.
type checkpoint struct {
	mark database.Mark
	done Done
}

// checkpoints is how many of its marks a node remembers.
const checkpoints = 20

// OpenPast returns an instance's past. What it finds is returned by Err. The caller must run Watch.
func OpenPast(ctx context.Context, db Store, bytes bytestore.Store, opt Options) (*Past, error) {
	if opt.Permitted == nil {
		opt.Permitted = func() error { return nil }
	}
	if opt.Done == nil {
		opt.Done = func() Done { return Done{} }
	}
	p := &Past{db: db, bytes: bytes, opt: opt, recorded: []checkpoint{{}}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.look(ctx); err != nil {
		return nil, fmt.Errorf("looking at the past: %w", err)
	}
	return p, nil
}

// Err returns a database.ErrSetBack if the instance was set back, and nil otherwise. It does not
// wait.
func (p *Past) Err() error {
	if lost := p.db.LostCommits(); lost != nil {
		return advise(lost)
	}
	if setBack := p.setBack.Load(); setBack != nil {
		return *setBack
	}
	return nil
}

// Commit is Err, and notes that something is committed if it returns nil. It must be called before
// each commit of changes to the instance.
func (p *Past) Commit() error {
	err := p.Err()
	if err == nil && !p.committed.Load() {
		p.committed.Store(true)
	}
	return err
}

// Generation returns the instance's generation.
func (p *Past) Generation() int64 { return p.generation.Load() }

// NewID returns a new id in this generation. It is the function for the services' options.
func (p *Past) NewID() string { return database.NewID(p.Generation()) }

// KeptBefore returns the time before which objects were made that must be kept, though nothing
// refers to them. It is the function for blob.Options.
func (p *Past) KeptBefore() time.Time {
	if kept := p.kept.Load(); p.db.Now().Before(kept.Until) {
		return kept.MadeBefore
	}
	return time.Time{}
}

// Watch looks for what other nodes have noticed, and records marks, until ctx ends. It calls
// changed with each error of Err that differs from the last one, and with nil when the next
// generation has begun.
func (p *Past) Watch(ctx context.Context, changed func(error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := p.Err()
	for {
		select {
		case <-ctx.Done():
			p.end(ctx)
			return
		case <-tick.C:
		}
		p.turn(ctx)
		if now := p.Err(); fmt.Sprint(now) != fmt.Sprint(last) {
			changed(now)
			last = now
		}
	}
}

// turn looks, and records a mark if it is time. Its errors say nothing about the past: the stores
// cannot be reached, which is reported elsewhere.
func (p *Past) turn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.look(ctx) == nil && time.Since(p.looked) >= Every && p.committed.Load() {
		_ = p.leave(ctx)
	}
}

// end records a last mark after ctx has ended.
func (p *Past) end(ctx context.Context) {
	if !p.committed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	// If this fails, up to Every of commits remain unseen, as after a crash.
	_ = p.leave(ctx)
}

// look compares the database with what this process and the bytes remember.
func (p *Past) look(ctx context.Context) error {
	now, err := p.db.Past(ctx)
	if err != nil {
		return err
	}
	if before := p.generation.Swap(now.Generation); before > 0 && now.Generation > before {
		p.db.ForgetCommits() // an operator has begun a generation, and knows that they are lost
		p.reported, p.recorded = false, []checkpoint{{done: p.opt.Done()}}
	}
	p.kept.Store(&now.Kept)
	how, err := p.lacked(ctx, now)
	if err == nil && how == "" && now.SetBack == "" && p.seen.Generation == 0 {
		how, err = p.compareRecords(ctx, now)
	}
	if err != nil {
		return err
	}
	if how != "" || now.SetBack != "" {
		return p.notice(ctx, now, how)
	}
	p.seen = now
	p.setBack.Store(nil)
	return nil
}

// notice makes Err return how the instance was seen to be set back, by others or by this node, and
// records what this node knows. how is empty if it has seen nothing.
func (p *Past) notice(ctx context.Context, now database.PastState, how string) error {
	first, _, _ := strings.Cut(cmp.Or(now.SetBack, how), "\n")
	setBack := advise(fmt.Errorf("%w: %s", database.ErrSetBack, first))
	p.setBack.Store(&setBack)
	if p.reported {
		return nil
	}
	lost, err := p.lost(ctx)
	if err == nil && (how != "" || lost != "") {
		err = p.db.RecordSetback(ctx, now.Generation, fmt.Sprintf("%s: %s%s", cmp.Or(p.opt.Node, "a node"), cmp.Or(how, "it has noticed nothing itself"), lost))
	}
	p.reported = err == nil
	return err
}

// lost returns what this process has done since the newest of its marks that the database has. So
// much is lost at most, and can be done again.
func (p *Past) lost(ctx context.Context) (string, error) {
	var marks []database.Mark
	for _, c := range p.recorded {
		marks = append(marks, c.mark)
	}
	lacked, err := p.db.LackedMarks(ctx, marks)
	if err != nil {
		return "", err
	}
	var kept Done
	for _, c := range p.recorded {
		if c.mark.Sequence == 0 || !slices.Contains(lacked, c.mark) {
			kept = c.done
		}
	}
	done := p.opt.Done()
	if done == kept {
		return "", nil
	}
	return fmt.Sprintf("; it had acknowledged since then at most %d chunksets used and %d payments", done.Chunksets-kept.Chunksets, done.Payments-kept.Payments), nil
}

// advise returns an ErrSetBack with what to do.
func advise(err error) error {
	return fmt.Errorf("%w; blobs can be read, and nothing else is done: see the runbook, and run sluice recover", err)
}

// lacked returns how the database differs from what this process knows of it, or "".
func (p *Past) lacked(ctx context.Context, now database.PastState) (how string, err error) {
	if lost := p.db.LostCommits(); lost != nil {
		return strings.TrimPrefix(lost.Error(), database.ErrSetBack.Error()+": "), nil
	}
	seen := p.seen
	switch {
	case now.Generation < seen.Generation:
		return fmt.Sprintf("the database has generation %d, and had %d", now.Generation, seen.Generation), nil
	case now.Generation > seen.Generation || now.Newest == seen.Newest || seen.Newest.Sequence == 0:
		return "", nil
	}
	lacked, err := p.db.LackedMarks(ctx, []database.Mark{seen.Newest})
	if err == nil && len(lacked) > 0 {
		how = fmt.Sprintf("the database lacks mark %d, which it had", seen.Newest.Sequence)
	}
	return how, err
}

// compareRecords returns how the database and the records beside the bytes show that one of them
// was set back, or "". It removes old records.
func (p *Past) compareRecords(ctx context.Context, now database.PastState) (how string, err error) {
	records, err := listRecords(ctx, p.bytes)
	if err != nil {
		return "", err
	}
	p.looked = time.Now()
	var marks []database.Mark
	var old []bytestore.Name
	outside := now.Outside.Sequence == 0
	for _, r := range records {
		switch {
		case r.generation > now.Generation:
			return fmt.Sprintf("the database has generation %d, and the bytes have %d", now.Generation, r.generation), nil
		case r.generation < now.Generation || r.mark.Sequence <= now.Outside.Sequence-recordsKept:
			old = append(old, r.object())
		default:
			marks = append(marks, r.mark)
		}
		outside = outside || r.mark == now.Outside
	}
	lacked, err := p.db.LackedMarks(ctx, marks)
	switch {
	case err != nil:
		return "", err
	case len(lacked) > 0:
		return fmt.Sprintf("the database lacks mark %d, which is recorded beside the bytes: its newest one is %d", lacked[len(lacked)-1].Sequence, now.Newest.Sequence), nil
	case !outside:
		return p.bytesLack(ctx, now)
	case len(old) > 0 && p.opt.Permitted() == nil:
		return "", p.bytes.Delete(ctx, old...)
	}
	return "", nil
}

// bytesLack returns that the bytes were set back if they lack the record that the database knows to
// be there. A listing may have missed it, or another node may have recorded a later one and removed
// it.
func (p *Past) bytesLack(ctx context.Context, before database.PastState) (how string, err error) {
	r, err := p.bytes.Open(ctx, record{before.Generation, before.Outside}.object(), 0, 0)
	if err == nil {
		return "", r.Close()
	}
	if !errors.Is(err, bytestore.ErrNotFound) {
		return "", err
	}
	now, err := p.db.Past(ctx)
	if err != nil || now.Outside != before.Outside || now.Generation != before.Generation {
		return "", err
	}
	return fmt.Sprintf("the bytes lack the record of mark %d, which was beside them", before.Outside.Sequence), nil
}

// leave compares the records, adds a mark, and records it beside the bytes.
func (p *Past) leave(ctx context.Context) error {
	if p.Err() != nil {
		return nil
	}
	if err := p.opt.Permitted(); err != nil {
		return err
	}
	how, err := p.compareRecords(ctx, p.seen)
	if err != nil {
		return err
	}
	if how != "" {
		return p.notice(ctx, p.seen, how)
	}
	done := p.opt.Done()
	p.committed.Store(false) // what is committed from now on may not precede the mark
	m, err := recordMark(ctx, p.db, p.bytes, p.seen.Generation)
	if err != nil {
		p.committed.Store(true)
		return err
	}
	p.seen.Newest = m
	p.recorded = append(p.recorded, checkpoint{m, done})
	p.recorded = p.recorded[max(0, len(p.recorded)-checkpoints):]
	return nil
}

// Compare returns a database's past, and how the database or the bytes show that one of them was
// set back, or "". It changes nothing.
func Compare(ctx context.Context, db database.Past, bytes bytestore.Store) (now database.PastState, how string, err error) {
	if now, err = db.Past(ctx); err != nil || now.SetBack != "" {
		return now, now.SetBack, err
	}
	p := &Past{db: looking{db}, bytes: bytes, opt: Options{Permitted: func() error { return errors.ErrUnsupported }}}
	how, err = p.compareRecords(ctx, now)
	return now, how, err
}

// looking is a database without a clock.
type looking struct{ marks }

type marks interface{ database.Past }

// Now implements Store. Nothing that Compare calls needs it.
func (looking) Now() time.Time { return time.Time{} }

// Begin begins a generation that is later than all that the database and the bytes know, and
// records a mark in it. Objects that were made before now, and that nothing refers to, are kept.
func Begin(ctx context.Context, db database.Past, bytes bytestore.Store, kept database.KeptObjects) (generation int64, err error) {
	now, err := db.Past(ctx)
	if err != nil {
		return 0, err
	}
	records, err := listRecords(ctx, bytes)
	if err != nil {
		return 0, err
	}
	generation = now.Generation
	for _, r := range records {
		generation = max(generation, r.generation)
	}
	generation++
	if err := db.BeginGeneration(ctx, now.Generation, generation, kept); err != nil {
		return 0, err
	}
	_, err = recordMark(ctx, db, bytes, generation)
	return generation, err
}

// recordMark adds a mark to the database and records it beside the bytes.
func recordMark(ctx context.Context, db database.Past, bytes bytestore.Store, generation int64) (database.Mark, error) {
	m, err := db.AddMark(ctx, generation)
	if err != nil {
		return m, err
	}
	if err := bytes.Put(ctx, record{generation, m}.object(), strings.NewReader(""), 0); err != nil {
		return m, err
	}
	return m, db.MarkOutside(ctx, generation, m)
}

// listRecords returns the records beside the bytes, from the oldest on.
func listRecords(ctx context.Context, bytes bytestore.Store) (list []record, err error) {
	end := errors.New("no more records")
	err = bytes.List(ctx, markPrefix, func(o bytestore.Object) error {
		if !strings.HasPrefix(string(o.Name), markPrefix) {
			return end
		}
		if r, ok := parseRecord(o.Name); ok {
			list = append(list, r)
		}
		return nil
	})
	if errors.Is(err, end) {
		err = nil
	}
	slices.SortFunc(list, func(a, b record) int { return strings.Compare(string(a.object()), string(b.object())) })
	return list, err
}

// While runs work each time that Err has returned nil, until ctx ends. The context of work ends
// within a second after Err has returned an error.
func (p *Past) While(ctx context.Context, work func(context.Context)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	permitted := func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			return p.Err() == nil
		}
	}
	for ctx.Err() == nil {
		if p.Err() == nil {
			working, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() { work(working) })
			for permitted() {
			}
			stop()
			running.Wait()
		}
		permitted()
	}
}
