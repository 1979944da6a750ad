package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"sluice/metastore"
)

// useBatcher combines the uses of each session: those that arrive while a transaction of
// the session waits or runs share the next one, which has two statements. A transaction may
// last until the patience of the first of its callers ends. Each session has at most one transaction at
// a time, so that transactions of one store do not wait for the lock of the row.
type useBatcher struct {
	writeLocked func(context.Context, func(*tx) error) error // of the store
	now         func() time.Time                             // of the store
	name        [8]byte                                      // random name of the store

	timer  sharedTimer // of the callers
	doubts chargesInDoubt

	mu struct {
		sync.Mutex
		// waiting has the uses of the next transaction of each session with a running one.
		waiting map[string][]*use
	}
}

func newUseBatcher(writeLocked func(context.Context, func(*tx) error) error, now func() time.Time) *useBatcher {
	u := &useBatcher{writeLocked: writeLocked, now: now}
	rand.Read(u.name[:])
	return u
}

// use is one caller's use of a session.
type use struct {
	n        int64     // chunksets, which are used all or not at all
	charge   string    // name of the charge; empty: none
	until    time.Time // until when its caller waits
	session  metastore.Session
	err      error
	panicked any // value with which the transaction panicked
	done     chan struct{}
}

// use uses n chunksets of a session, under the name of a charge unless that is empty. ctx
// and its patience have an effect until the transaction has begun.
func (u *useBatcher) use(ctx context.Context, id string, n int64, charge string) (metastore.Session, error) {
	if err := ctx.Err(); err != nil {
		return metastore.Session{}, err
	}
	wait := metastore.Await(ctx, metastore.Patience)
	defer wait.End()
	one := &use{n: n, charge: charge, until: wait.Until, done: make(chan struct{})}
	u.enqueue(id, one)
	if err := u.timer.wait(ctx, one.done, wait.Until); err != nil {
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

// withdraw removes a waiting use. It returns false if its transaction has begun.
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

// earliest returns the earliest time at which the patience of a waiting caller ends.
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

// takeWaiting removes and returns the waiting uses whose callers wait at least until the
// given time. The others wait for the next transaction.
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

// run runs transactions of a session while uses of it arrive.
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

// transact runs the uses that are waiting when its transaction begins and returns their results once
// it is durable.
func (u *useBatcher) transact(id string) {
	var members []*use
	until := u.earliest(id)
	panicked, err := u.write(until, func(t *tx) error {
		if members == nil { // otherwise this is a retry
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

// write runs a transaction and returns the value of its panic, which is repeated in the
// goroutines of the callers.
func (u *useBatcher) write(until time.Time, fn func(*tx) error) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = errors.New("sqlstore: panic in a use of a session")
		}
	}()
	// Callers watch their own contexts; the transaction only has their deadline.
	ctx := metastore.WithPatience(context.Background(), time.Until(until))
	return nil, u.writeLocked(ctx, fn)
}

// deductAll performs the uses in the order of their arrival, each completely or not at all,
// and writes their sum and their charges.
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
		return t.recordCharge(id, before-session.Left, append(u.doubts.retained(id, charges, u.name, t.now), charged...))
	}
}

// pin records the charges of uses whose outcome is unknown.
func (u *useBatcher) pin(id string, members []*use) {
	var charges [][16]byte
	for _, m := range members {
		if m.charge != "" {
			charges = append(charges, chargeID(m.charge))
		}
	}
	u.doubts.add(id, charges, u.now())
}
