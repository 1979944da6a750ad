package sqlstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/metastore"
)

// uses coalesces the uses of each session: those that arrive while a
// transaction for it is waiting or in flight become one pair of statements.
// A transaction lasts no longer than the first of its callers waits.
// There is at most one transaction a session at a time, so that on an engine
// of many writers they do not wait for each other's row.
type useBatcher struct {
	store *Store
	name  [8]byte // random, of the store

	patience sharedTimer // of the callers

	mu struct {
		sync.Mutex
		// waiting holds the uses of the next transaction of each session that
		// has one at work.
		waiting map[string][]*use
		pinned  map[string]chargesInDoubt // by session
	}
}

// use is one caller's use of a session.
type use struct {
	n        int64     // chunksets, all or none of them
	charge   string    // names it; empty: it has no name
	until    time.Time // until when its caller waits
	session  metastore.Session
	err      error
	panicked any // what the transaction panicked with
	done     chan struct{}
}

// use takes n chunksets, under the name of a charge unless that is empty. ctx and
// its patience count until the transaction has begun.
func (u *useBatcher) use(ctx context.Context, id string, n int64, charge string) (metastore.Session, error) {
	if err := ctx.Err(); err != nil {
		return metastore.Session{}, err
	}
	wait := metastore.Await(ctx, metastore.Patience)
	defer wait.End()
	one := &use{n: n, charge: charge, until: wait.Until, done: make(chan struct{})}
	u.enqueue(id, one)
	if err := u.patience.wait(ctx, one.done, wait.Until); err != nil {
		if u.withdraw(id, one) {
			return metastore.Session{}, err
		}
		<-one.done
	}
	if one.panicked != nil {
		panic(one.panicked)
	}
	return one.session, one.err
}

func (u *useBatcher) enqueue(id string, one *use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.waiting == nil {
		u.mu.waiting = map[string][]*use{}
	}
	list, running := u.mu.waiting[id]
	u.mu.waiting[id] = append(list, one)
	if !running {
		go u.run(id)
	}
}

// leave takes a use back; false when its transaction has begun.
func (u *useBatcher) withdraw(id string, one *use) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.mu.waiting[id]
	for i := range list {
		if list[i] == one {
			u.mu.waiting[id] = append(list[:i:i], list[i+1:]...)
			return true
		}
	}
	return false
}

// earliest returns when the first of the callers that wait gives up.
func (u *useBatcher) earliest(id string) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	until := time.Now().Add(metastore.Patience)
	for _, one := range u.mu.waiting[id] {
		if one.until.Before(until) {
			until = one.until
		}
	}
	return until
}

// take gives the uses that wait for a transaction that lasts until then, which can
// then no longer be taken back. Callers that give up earlier wait for the next one.
func (u *useBatcher) takeWaiting(id string, until time.Time) []*use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var taken, left []*use
	for _, one := range u.mu.waiting[id] {
		if one.until.Before(until) {
			left = append(left, one)
		} else {
			taken = append(taken, one)
		}
	}
	u.mu.waiting[id] = left
	return taken
}

// run makes transactions for a session for as long as uses of it arrive.
func (u *useBatcher) run(id string) {
	for {
		u.transact(id)
		u.mu.Lock()
		if len(u.mu.waiting[id]) == 0 {
			delete(u.mu.waiting, id)
			u.mu.Unlock()
			return
		}
		u.mu.Unlock()
	}
}

// transact serves the uses that wait when its transaction begins, and answers
// them when it is durable.
func (u *useBatcher) transact(id string) {
	var members []*use
	until := u.earliest(id)
	panicked, err := u.write(until, func(t *tx) error {
		if members == nil { // else the transaction is run again
			members = u.takeWaiting(id, until)
		}
		return u.deductAll(t, id, members)
	})
	if inDoubt(err) {
		u.pin(id, members)
	}
	if err != nil && members == nil {
		members = u.takeWaiting(id, until)
	}
	for _, m := range members {
		if err != nil {
			m.session, m.err, m.panicked = metastore.Session{}, err, panicked
		}
		close(m.done)
	}
}

// write runs a transaction, and gives a panic of it back beside the error: it
// belongs to the callers' goroutines.
func (u *useBatcher) write(until time.Time, fn func(*tx) error) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = errors.New("sqlstore: panic in a use of a session")
		}
	}()
	// Each caller minds his own context, but for how long it waits.
	ctx := metastore.WithPatience(context.Background(), time.Until(until))
	return nil, u.store.writeLocked(ctx, fn)
}

// takeAll gives each use, in the order of their arrival, all that it asks for
// or nothing, and writes the sum, with the charges among them.
func (u *useBatcher) deductAll(t *tx, id string, members []*use) error {
	if len(members) == 0 {
		return nil
	}
	session, charges, err := t.chargedSession(id)
	if err != nil {
		return err
	}
	if err := t.live(session); err != nil {
		return err
	}
	before := session.Left
	var charged []chargeRecord
	for _, m := range members {
		m.err = deduct(&session, m.n)
		m.session = session
		if m.err == nil && m.charge != "" {
			charged = append(charged, chargeRecord{id: chargeID(m.charge), store: u.name, at: t.now.UnixMicro(), count: m.n})
		}
	}
	switch {
	case session.Left == before:
		return nil
	case len(charged) == 0:
		return t.recordUse(id, before-session.Left)
	default:
		return t.recordCharge(id, before-session.Left, append(u.retained(id, charges, t.now), charged...))
	}
}
