package money

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
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
// A transaction must end before the first of its callers' deadlines.
//
// Uses in the same lane share transactions. A lane has at most one transaction at a time. If the
// engine runs one write transaction at a time, all sessions are in one lane. It has one statement
// for each session, or more if the session has charges or not all of its uses are possible.
//
// Otherwise there are several shared lanes, with one statement for all sessions. It leaves out a
// session with a locked row, so that no transaction waits for a lock while it holds another, and a
// session with too little left. Their uses, and charges, are in the session's own lane.
type useBatcher struct {
	startLocked func(time.Time, func(tx) error, func(any, error)) error // the store's
	name        [8]byte                                                 // the store's random name
	known       *knownSessions                                          // nil: there are several lanes

	timer  *engine.SharedTimer // the callers' deadlines
	doubts chargesInDoubt

	mu struct {
		sync.Mutex
		// waiting has, for each lane with a running transaction, the uses for the next one.
		waiting map[lane][]*use
	}
}

// sharedLanes is the number of lanes that sessions share if the engine runs several write
// transactions at a time.
const sharedLanes = 2

// lane is a shared lane, or the lane of the session with this id.
type lane struct {
	shared uint64 // number of a shared lane
	id     string // "": a shared lane
}

// newUseBatcher returns a useBatcher for an engine. oneWriter reports whether that runs one write
// transaction at a time.
func newUseBatcher(startLocked func(time.Time, func(tx) error, func(any, error)) error, oneWriter bool) *useBatcher {
	u := &useBatcher{startLocked: startLocked, timer: engine.NewSharedTimer()}
	u.mu.waiting = map[lane][]*use{}
	if oneWriter {
		u.known = &knownSessions{}
	}
	rand.Read(u.name[:])
	return u
}

// laneSeed makes which sessions share a lane differ from process to process.
var laneSeed = maphash.MakeSeed()

// laneOf returns a new use's lane: the session's own one if that has a transaction, which may be
// waiting for a lock, and otherwise a shared one. u.mu is held.
func (u *useBatcher) laneOf(one *use) lane {
	if u.known != nil {
		return lane{}
	}
	if _, running := u.mu.waiting[lane{id: one.id}]; running || one.charge != "" {
		return lane{id: one.id}
	}
	return lane{shared: maphash.String(laneSeed, one.id) % sharedLanes}
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
	lane     lane // guarded by useBatcher.mu
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
	if idle := u.enqueue(one); idle {
		u.begin(one.lane)
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
func (u *useBatcher) enqueue(one *use) (idle bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one.lane = u.laneOf(one)
	return u.add(one)
}

// add adds a use to its lane, and reports whether that is idle. u.mu is held.
func (u *useBatcher) add(one *use) (idle bool) {
	list, running := u.mu.waiting[one.lane]
	u.mu.waiting[one.lane] = append(list, one)
	return !running
}

// separate moves uses, which no transaction has any more, to the lanes of their sessions.
func (u *useBatcher) separate(list []*use) {
	var idle []lane
	u.mu.Lock()
	for _, one := range list {
		one.lane = lane{id: one.id}
		if u.add(one) {
			idle = append(idle, one.lane)
		}
	}
	u.mu.Unlock()
	for _, own := range idle {
		u.begin(own)
	}
}

// withdraw removes a waiting use. It returns false if its transaction has begun.
func (u *useBatcher) withdraw(one *use) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.mu.waiting[one.lane]
	i := slices.Index(list, one)
	if i < 0 {
		return false
	}
	u.mu.waiting[one.lane] = slices.Delete(list, i, i+1)
	return true
}

// earliest returns the earliest of the waiting callers' deadlines.
func (u *useBatcher) earliest(of lane) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	until := time.Now().Add(database.Patience)
	for _, one := range u.mu.waiting[of] {
		if one.until.Before(until) {
			until = one.until
		}
	}
	return until
}

// takeWaiting removes the waiting uses with callers that wait at least until the given time, and
// returns them in order of arrival. The rest wait for the next transaction.
func (u *useBatcher) takeWaiting(of lane, until time.Time) []*use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var taken, left []*use
	for _, one := range u.mu.waiting[of] {
		if one.until.Before(until) {
			left = append(left, one)
		} else {
			taken = append(taken, one)
		}
	}
	u.mu.waiting[of] = left
	return taken
}

// begin begins the next transaction of a lane that has waiting uses.
func (u *useBatcher) begin(of lane) {
	for {
		t := &useTransaction{u: u, lane: of, until: u.earliest(of)}
		// Callers watch their own contexts; the transaction only has their deadline.
		err := u.startLocked(t.until, t.run, t.end)
		if err == nil {
			return
		}
		t.finish(nil, err)
		if !u.waits(of) {
			return
		}
	}
}

// gather waits for uses that are about to arrive, such as the next ones from callers that just got
// their results: it runs other goroutines as long as that adds uses.
func (u *useBatcher) gather(of lane) {
	for have, more := 0, u.count(of); have < more && more < engine.MaxBatch; {
		runtime.Gosched()
		have, more = more, u.count(of)
	}
}

// count returns how many uses wait in a lane.
func (u *useBatcher) count(of lane) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.mu.waiting[of])
}

// waits reports whether uses wait in a lane. Otherwise the lane has no running transaction from now
// on.
func (u *useBatcher) waits(of lane) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.mu.waiting[of]) > 0 {
		return true
	}
	delete(u.mu.waiting, of)
	return false
}

// useTransaction is the transaction for the uses that wait in a lane when it runs.
type useTransaction struct {
	u       *useBatcher
	lane    lane
	until   time.Time // until when its callers wait
	members []*use    // nil: it has not run yet
	left    []*use    // members that it has left out; they are the last
}

func (t *useTransaction) run(tx tx) error {
	if t.members == nil { // otherwise this is a retry
		if t.u.known != nil { // otherwise uses have arrived during the round trip that began this
			t.u.gather(t.lane)
		}
		t.members = t.u.takeWaiting(t.lane, t.until)
		slices.SortStableFunc(t.members, func(a, b *use) int { return strings.Compare(a.id, b.id) })
	}
	sessions := bySession(t.members)
	if t.u.known == nil && t.lane.id == "" {
		t.left = nil
		return t.takeFromFree(tx, sessions)
	}
	for _, members := range sessions {
		err := t.u.deductAll(tx, members[0].id, members)
		switch {
		case err == nil:
		case tx.HasFailed() || len(members) == len(t.members):
			return err
		default: // nothing has changed
			fail(members, err)
		}
	}
	return nil
}

// bySession groups uses, which are sorted by session.
func bySession(members []*use) (sessions [][]*use) {
	for left := members; len(left) > 0; {
		n := slices.IndexFunc(left, func(one *use) bool { return one.id != left[0].id })
		if n < 0 {
			n = len(left)
		}
		sessions, left = append(sessions, left[:n:n]), left[n:]
	}
	return sessions
}

// takeFromFree performs the uses of sessions that nobody has locked and that have enough left, and
// leaves out the rest.
func (t *useTransaction) takeFromFree(tx tx, sessions [][]*use) error {
	var done, left []*use
	var takes []take
	var takers [][]*use
	for _, members := range sessions {
		if sum, ok := sumOf(members); ok {
			takes, takers = append(takes, take{id: members[0].id, n: sum}), append(takers, members)
		} else {
			left = append(left, members...)
		}
	}
	if err := tx.takeFromFree(takes); err != nil {
		return err
	}
	for i, one := range takes {
		switch {
		case one.err != nil:
			fail(takers[i], one.err)
		case one.taken:
			settle(one.after, one.n, takers[i])
		default:
			left = append(left, takers[i]...)
			continue
		}
		done = append(done, takers[i]...)
	}
	t.members, t.left = append(done, left...), left
	return nil
}

// fail sets the results of uses that have failed.
func fail(members []*use, err error) {
	for _, m := range members {
		m.session, m.err = ledger.Session{}, err
	}
}

// end begins the next transaction, if uses wait for it, after it has returned the results of this
// one.
func (t *useTransaction) end(panicked any, err error) {
	t.finish(panicked, err)
	if t.u.waits(t.lane) {
		t.u.begin(t.lane)
	}
}

// finish returns each use's result. The results are durable if err is nil. The uses that were left
// out get theirs later.
func (t *useTransaction) finish(panicked any, err error) {
	if err != nil && t.members == nil {
		t.members = t.u.takeWaiting(t.lane, t.until)
	}
	if inDoubt(err) {
		t.u.pin(t.members)
	}
	ended, left := t.members[:len(t.members)-len(t.left)], t.left
	if t.failedForOne(panicked, err) {
		ended, left = nil, t.members
	}
	for _, m := range ended {
		if err != nil {
			m.session, m.err, m.panicked = ledger.Session{}, err, panicked
		}
		close(m.done)
	}
	t.u.separate(left)
}

// failedForOne reports whether nothing has happened for a reason that may be one session's, such as
// a page that cannot be read, so that the other sessions' uses must be tried without it.
func (t *useTransaction) failedForOne(panicked any, err error) bool {
	if err == nil || panicked != nil || t.lane.id != "" || t.u.known != nil {
		return false
	}
	ofAll := func(target error) bool { return errors.Is(err, target) }
	return !slices.ContainsFunc([]error{
		database.ErrBusy, database.ErrUnavailable, database.ErrUnknownOutcome, database.ErrNoSpace, engine.ErrClosed,
	}, ofAll)
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

// sumOf returns how many chunksets uses take together. It returns false if one of them is a charge,
// or if the sum is too large.
func sumOf(members []*use) (sum int64, ok bool) {
	for _, m := range members {
		if m.charge != "" || m.n > math.MaxInt64-sum {
			return 0, false
		}
		sum += m.n
	}
	return sum, true
}

// settle sets the results of uses that have taken n chunksets together.
func settle(after ledger.Session, n int64, members []*use) {
	session := after
	session.Left += n
	session.Used -= n
	for _, m := range members {
		m.err = deduct(&session, m.n)
		m.session = session
	}
}

// deductTogether performs the uses by one statement. It reports false, and does nothing, if the
// session has not enough left for all of them, or has ended, or if one of them is a charge.
func (u *useBatcher) deductTogether(t tx, id string, members []*use) (done bool, err error) {
	sum, ok := sumOf(members)
	if !ok {
		return false, nil
	}
	after, found, err := u.take(t, id, sum)
	if err != nil || !found {
		return false, err
	}
	settle(after, sum, members)
	u.known.put(after)
	return true, nil
}

// take uses n of a session's chunksets, and returns the session after that. It returns false, and
// does nothing, unless there is such a session that has not ended and has n chunksets left.
func (u *useBatcher) take(t tx, id string, n int64) (after ledger.Session, found bool, err error) {
	if guess, known := u.known.get(id); known && n <= guess.Left && t.Now.Before(guess.Expires) {
		if found, err := t.takeIfUnchanged(guess, n); found || err != nil {
			guess.Left -= n
			guess.Used += n
			return guess, found, err
		}
	}
	return t.takeFromSession(id, n)
}

// pin records the charges of uses with an unknown outcome.
func (u *useBatcher) pin(members []*use) {
	for _, m := range members {
		if m.charge != "" {
			u.doubts.add(m.id, chargeID(m.charge), boottime.Now())
		}
	}
}
