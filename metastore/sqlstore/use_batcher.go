package sqlstore

import (
	"context"
	"crypto/rand"
	"math"
	"sync"
	"time"

	"sluice/metastore"
)

// useBatcher combines the uses of each session: those that arrive while a transaction of
// the session waits or runs share the next one, which has one statement, or more if it has charges or
// not all of its uses are possible. A transaction may last until the patience of the first of its
// callers ends. Each session has at most one transaction at
// a time, so that transactions of one store do not wait for the lock of the row.
type useBatcher struct {
	startLocked func(time.Time, func(*tx) error, func(any, error)) error // of the store
	now         func() time.Time                                         // of the store
	name        [8]byte                                                  // random name of the store

	timer  sharedTimer // of the callers
	doubts chargesInDoubt

	mu struct {
		sync.Mutex
		// waiting has the uses of the next transaction of each session with a running one.
		waiting map[string][]*use
	}
}

func newUseBatcher(startLocked func(time.Time, func(*tx) error, func(any, error)) error, now func() time.Time) *useBatcher {
	u := &useBatcher{startLocked: startLocked, now: now}
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
	if !time.Now().Before(wait.Until) {
		return metastore.Session{}, errQueued
	}
	one := &use{n: n, charge: charge, until: wait.Until, done: make(chan struct{})}
	if first := u.enqueue(id, one); first {
		u.begin(id)
	}
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

// enqueue adds a waiting use. It reports whether the session has no running transaction, which the
// caller must then begin.
func (u *useBatcher) enqueue(id string, one *use) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.waiting == nil {
		u.mu.waiting = map[string][]*use{}
	}
	list, running := u.mu.waiting[id]
	u.mu.waiting[id] = append(list, one)
	return !running
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

// begin begins the next transaction of a session, which has waiting uses.
func (u *useBatcher) begin(id string) {
	for {
		t := &useTransaction{u: u, id: id, until: u.earliest(id)}
		// Callers watch their own contexts; the transaction only has their deadline.
		err := u.startLocked(t.until, t.run, t.end)
		if err == nil {
			return
		}
		t.finish(nil, err)
		if !u.waits(id) {
			return
		}
	}
}

// waits reports whether uses of a session wait. Otherwise the session has no running transaction from
// now on.
func (u *useBatcher) waits(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.mu.waiting[id]) > 0 {
		return true
	}
	delete(u.mu.waiting, id)
	return false
}

// useTransaction is the transaction of the uses of a session that are waiting when it runs.
type useTransaction struct {
	u       *useBatcher
	id      string
	until   time.Time // until when its callers wait
	members []*use    // nil: it has not run yet
}

func (t *useTransaction) run(tx *tx) error {
	if t.members == nil { // otherwise this is a retry
		t.members = t.u.takeWaiting(t.id, t.until)
	}
	return t.u.deductAll(tx, t.id, t.members)
}

// end begins the next transaction, if uses wait for it, after it has returned the results of this one.
func (t *useTransaction) end(panicked any, err error) {
	t.finish(panicked, err)
	if t.u.waits(t.id) {
		t.u.begin(t.id)
	}
}

// finish returns the results of the uses, which are durable if err is nil.
func (t *useTransaction) finish(panicked any, err error) {
	if inDoubt(err) {
		t.u.pin(t.id, t.members)
	}
	if err != nil && t.members == nil {
		t.members = t.u.takeWaiting(t.id, t.until)
	}
	for _, m := range t.members {
		if err != nil {
			m.session, m.err, m.panicked = metastore.Session{}, err, panicked
		}
		close(m.done)
	}
}

// deductAll performs the uses in the order of their arrival, each completely or not at all,
// and writes their sum and their charges.
func (u *useBatcher) deductAll(t *tx, id string, members []*use) error {
	if len(members) == 0 {
		return nil
	}
	if done, err := deductTogether(t, id, members); done || err != nil {
		return err
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

// deductTogether performs the uses by one statement. It reports false, and does nothing, if the session
// has not enough left for all of them, or has ended, or if one of them is a charge.
func deductTogether(t *tx, id string, members []*use) (done bool, err error) {
	var sum int64
	for _, m := range members {
		if m.charge != "" || m.n > math.MaxInt64-sum {
			return false, nil
		}
		sum += m.n
	}
	session, found, err := t.takeFromSession(id, sum)
	if err != nil || !found {
		return false, err
	}
	session.Left += sum
	session.Used -= sum
	for _, m := range members {
		m.err = deduct(&session, m.n)
		m.session = session
	}
	return true, nil
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
