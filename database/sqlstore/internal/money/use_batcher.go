package money

import (
	"context"
	"crypto/rand"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/internal/boottime"
	"sluice/ledger"
)

// useBatcher combines uses: those that arrive while a transaction waits or runs share the next one.
// It has one statement for each session, or more if the session has charges or not all of its uses
// are possible. A transaction may last until its least patient caller gives up.
//
// Uses in the same lane share transactions. A lane has at most one transaction at a time. If the
// engine runs one write transaction at a time, all sessions are in one lane. Otherwise each session
// has its own lane, so that one store's transactions do not wait for the row's lock.
type useBatcher struct {
	startLocked func(time.Time, func(tx) error, func(any, error)) error // the store's
	name        [8]byte                                                 // the store's random name
	known       *knownSessions                                          // nil: each session has its own lane

	timer  *engine.SharedTimer // the callers' deadlines
	doubts chargesInDoubt

	mu struct {
		sync.Mutex
		// waiting has, for each lane with a running transaction, the uses for the next one.
		waiting map[string][]*use
	}
}

// newUseBatcher returns a useBatcher for an engine. oneWriter reports whether that runs one write
// transaction at a time.
func newUseBatcher(startLocked func(time.Time, func(tx) error, func(any, error)) error, oneWriter bool) *useBatcher {
	u := &useBatcher{startLocked: startLocked, timer: engine.NewSharedTimer()}
	if oneWriter {
		u.known = &knownSessions{}
	}
	rand.Read(u.name[:])
	return u
}

// lane returns a session's lane.
func (u *useBatcher) lane(id string) string {
	if u.known != nil {
		return ""
	}
	return id
}

// use is one caller's use of a session.
type use struct {
	id       string    // the session's
	n        int64     // chunksets, which are used all or not at all
	charge   string    // the charge's name; empty: none
	until    time.Time // until when its caller waits
	session  ledger.Session
	err      error
	panicked any // value with which the transaction panicked
	done     chan struct{}
}

// use uses n of a session's chunksets, under a charge's name unless that is empty. ctx and its
// patience have an effect until the transaction has begun.
func (u *useBatcher) use(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Session{}, err
	}
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	if !time.Now().Before(wait.Until) {
		return ledger.Session{}, engine.ErrQueued
	}
	one := &use{id: id, n: n, charge: charge, until: wait.Until, done: make(chan struct{})}
	if first := u.enqueue(one); first {
		u.begin(u.lane(id))
	}
	if err := u.timer.Wait(ctx, one.done, wait.Until); err != nil {
		if u.withdraw(one) {
			return ledger.Session{}, err
		}
		<-one.done
	}
	if one.panicked != nil {
		panic(one.panicked)
	}
	return one.session, one.err
}

// enqueue adds a waiting use. It reports whether its lane has no running transaction, which the
// caller must then begin.
func (u *useBatcher) enqueue(one *use) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.waiting == nil {
		u.mu.waiting = map[string][]*use{}
	}
	lane := u.lane(one.id)
	list, running := u.mu.waiting[lane]
	u.mu.waiting[lane] = append(list, one)
	return !running
}

// withdraw removes a waiting use. It returns false if its transaction has begun.
func (u *useBatcher) withdraw(one *use) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	lane := u.lane(one.id)
	list := u.mu.waiting[lane]
	i := slices.Index(list, one)
	if i < 0 {
		return false
	}
	u.mu.waiting[lane] = slices.Delete(list, i, i+1)
	return true
}

// earliest returns the earliest of the waiting callers' deadlines.
func (u *useBatcher) earliest(lane string) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	until := time.Now().Add(database.Patience)
	for _, one := range u.mu.waiting[lane] {
		if one.until.Before(until) {
			until = one.until
		}
	}
	return until
}

// takeWaiting removes the waiting uses with callers that wait at least until the given time, and
// returns them in order of arrival. The others wait for the next transaction.
func (u *useBatcher) takeWaiting(lane string, until time.Time) []*use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var taken, left []*use
	for _, one := range u.mu.waiting[lane] {
		if one.until.Before(until) {
			left = append(left, one)
		} else {
			taken = append(taken, one)
		}
	}
	u.mu.waiting[lane] = left
	return taken
}

// begin begins the next transaction of a lane that has waiting uses.
func (u *useBatcher) begin(lane string) {
	for {
		t := &useTransaction{u: u, lane: lane, until: u.earliest(lane)}
		// Callers watch their own contexts; the transaction only has their deadline.
		err := u.startLocked(t.until, t.run, t.end)
		if err == nil {
			return
		}
		t.finish(nil, err)
		if !u.waits(lane) {
			return
		}
	}
}

// gather waits for uses that are about to arrive, such as the next ones from callers that just got
// their results: it runs other goroutines as long as that adds uses.
func (u *useBatcher) gather(lane string) {
	for have, more := 0, u.count(lane); have < more && more < engine.MaxBatch; {
		runtime.Gosched()
		have, more = more, u.count(lane)
	}
}

// count returns how many uses wait in a lane.
func (u *useBatcher) count(lane string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.mu.waiting[lane])
}

// waits reports whether uses wait in a lane. Otherwise the lane has no running transaction from now
// on.
func (u *useBatcher) waits(lane string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.mu.waiting[lane]) > 0 {
		return true
	}
	delete(u.mu.waiting, lane)
	return false
}

// useTransaction is the transaction for the uses that wait in a lane when it runs.
type useTransaction struct {
	u       *useBatcher
	lane    string
	until   time.Time // until when its callers wait
	members []*use    // nil: it has not run yet
}

func (t *useTransaction) run(tx tx) error {
	if t.members == nil { // otherwise this is a retry
		if t.u.known != nil { // otherwise uses have arrived during the round trip that began this
			t.u.gather(t.lane)
		}
		t.members = t.u.takeWaiting(t.lane, t.until)
		slices.SortStableFunc(t.members, func(a, b *use) int { return strings.Compare(a.id, b.id) })
	}
	for left := t.members; len(left) > 0; {
		n := slices.IndexFunc(left, func(one *use) bool { return one.id != left[0].id })
		if n < 0 {
			n = len(left)
		}
		err := t.u.deductAll(tx, left[0].id, left[:n])
		switch {
		case err == nil:
		case tx.HasFailed() || n == len(t.members):
			return err
		default: // nothing has changed
			for _, m := range left[:n] {
				m.session, m.err = ledger.Session{}, err
			}
		}
		left = left[n:]
	}
	return nil
}

// end begins the next transaction, if uses wait for it, after it has returned the results of this
// one.
func (t *useTransaction) end(panicked any, err error) {
	t.finish(panicked, err)
	if t.u.waits(t.lane) {
		t.u.begin(t.lane)
	}
}

// finish returns each use's result. The results are durable if err is nil.
func (t *useTransaction) finish(panicked any, err error) {
	if err != nil && t.members == nil {
		t.members = t.u.takeWaiting(t.lane, t.until)
	}
	if inDoubt(err) {
		t.u.pin(t.members)
	}
	for _, m := range t.members {
		if err != nil {
			m.session, m.err, m.panicked = ledger.Session{}, err, panicked
		}
		close(m.done)
	}
}

// deductAll performs a session's uses in order of arrival, each completely or not at all, and
// writes their sum and their charges. If its error is not the engine's, it has changed nothing.
func (u *useBatcher) deductAll(t tx, id string, members []*use) error {
	if done, err := u.deductTogether(t, id, members); done || err != nil {
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
			charged = append(charged, chargeRecord{id: chargeID(m.charge), store: u.name, at: t.Now.UnixMicro(), count: m.n})
		}
	}
	u.known.put(session)
	switch {
	case session.Left == before:
		return nil
	case len(charged) == 0:
		return t.recordUse(id, before-session.Left)
	default:
		return t.recordCharge(id, before-session.Left, append(u.doubts.retained(id, charges, u.name, t.Forgotten(chargeRetention)), charged...))
	}
}

// deductTogether performs the uses by one statement. It reports false, and does nothing, if the
// session has not enough left for all of them, or has ended, or if one of them is a charge.
func (u *useBatcher) deductTogether(t tx, id string, members []*use) (done bool, err error) {
	var sum int64
	for _, m := range members {
		if m.charge != "" || m.n > math.MaxInt64-sum {
			return false, nil
		}
		sum += m.n
	}
	before, found, err := u.take(t, id, sum)
	if err != nil || !found {
		return false, err
	}
	session := before
	for _, m := range members {
		m.err = deduct(&session, m.n)
		m.session = session
	}
	u.known.put(session)
	return true, nil
}

// take uses n of a session's chunksets, and returns the session before that. It returns false, and
// does nothing, unless there is such a session that has not ended and has n chunksets left.
func (u *useBatcher) take(t tx, id string, n int64) (before ledger.Session, found bool, err error) {
	if guess, known := u.known.get(id); known && n <= guess.Left && t.Now.Before(guess.Expires) {
		if found, err := t.takeIfUnchanged(guess, n); found || err != nil {
			return guess, found, err
		}
	}
	after, found, err := t.takeFromSession(id, n)
	after.Left += n
	after.Used -= n
	return after, found, err
}

// pin records the charges of uses with an unknown outcome.
func (u *useBatcher) pin(members []*use) {
	for _, m := range members {
		if m.charge != "" {
			u.doubts.add(m.id, chargeID(m.charge), boottime.Now())
		}
	}
}
