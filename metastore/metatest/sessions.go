package metatest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func sessionChecks() []Check {
	return []Check{
		check("sessions/create", sessionCreate),
		check("sessions/use", sessionUse),
		check("sessions/expiry", sessionExpiry),
		check("sessions/racing-uses", sessionRacingUses),
		check("sessions/last-chunkset", sessionLastChunkset),
		check("sessions/use-many", sessionUseMany),
		check("sessions/racing-many", sessionRacingMany),
		check("sessions/return", sessionReturn),
		check("sessions/racing-returns", sessionRacingReturns),
	}
}

// session creates a session of this many chunksets that expires after an hour.
func (p *probe) session(id string, left int64) ledger.Session {
	s, err := p.store.CreateSession(p.ctx, ledger.Session{ID: id, Total: left, Left: left, Expires: p.clock.Now().Add(time.Hour)}, nil)
	p.ok(err, "create session")
	return s
}

func (p *probe) left(id string) int64 {
	s, err := p.store.Session(p.ctx, id)
	p.ok(err, "session")
	return s.Left
}

func sessionCreate(p *probe) {
	in := ledger.Session{
		ID: "session", UserIdentity: "0xab", Total: 1<<63 - 1, Left: 1<<63 - 1,
		Created: p.clock.Now().Add(time.Hour), Expires: p.clock.Now().Add(time.Hour + time.Nanosecond),
	}
	want := in
	want.Created, want.Expires = p.clock.Now(), p.clock.Now().Add(time.Hour)
	got, err := p.store.CreateSession(p.ctx, in, nil)
	p.ok(err, "create")
	p.equal(got, want, "created session")
	_, err = p.store.CreateSession(p.ctx, in, nil)
	p.is(err, database.ErrExists, "second session with that id")
	p.reopen()
	got, err = p.store.Session(p.ctx, "session")
	p.ok(err, "session")
	p.equal(got, want, "session")
	_, err = p.store.Session(p.ctx, "sessio")
	p.is(err, database.ErrNotFound, "unknown session")
	_, err = p.store.UseSession(p.ctx, "sessio", 1, nil)
	p.is(err, database.ErrNotFound, "use of an unknown session")
}

// sessionUse uses a session until it is exhausted, one chunkset at a time.
func sessionUse(p *probe) {
	want := p.session("session", 7)
	p.session("other", 3)
	for i := range 7 {
		want.Left--
		want.Used++
		got, err := p.store.UseSession(p.ctx, "session", 1, nil)
		p.ok(err, "use %d", i)
		p.equal(got, want, "session after use %d", i)
		p.must(p.left("session") == want.Left, "%d left after use %d, want %d", p.left("session"), i, want.Left)
	}
	for range 3 {
		got, err := p.store.UseSession(p.ctx, "session", 1, nil)
		p.is(err, ledger.ErrExhausted, "use of an empty session")
		p.equal(got, want, "session returned with the error")
		p.must(p.left("session") == 0, "an empty session has %d left", p.left("session"))
	}
	p.must(p.left("other") == 3, "another session was charged")
	p.reopen()
	p.must(p.left("session") == 0 && p.left("other") == 3, "charges after a reopen")
}

func sessionExpiry(p *probe) {
	p.session("session", 5)
	p.session("empty", 0)
	p.clock.Advance(time.Hour - time.Microsecond)
	_, err := p.store.UseSession(p.ctx, "session", 1, nil)
	p.ok(err, "use just before the expiry")
	p.clock.Advance(time.Microsecond)
	for _, id := range []string{"session", "empty"} {
		_, err = p.store.UseSession(p.ctx, id, 1, nil)
		p.is(err, database.ErrExpired, "use of %s at the expiry", id)
		_, err = p.store.UseSession(p.ctx, id, 1, &ledger.Idempotency{Scope: id, Key: "k"})
		p.is(err, database.ErrExpired, "use of %s at the expiry, with a key", id)
	}
	p.must(p.left("session") == 4, "an expired session was charged")
	p.clock.Advance(ledger.SessionRetention - time.Microsecond)
	p.left("session")
	p.clock.Advance(time.Microsecond)
	for range 2 {
		_, err = p.store.Session(p.ctx, "session")
		p.is(err, database.ErrNotFound, "session after its retention")
		_, err = p.store.UseSession(p.ctx, "session", 1, nil)
		p.is(err, database.ErrNotFound, "use of a session after its retention")
		p.purge()
	}
}

// sessionRacingUses uses sessions from many goroutines over two handles, more
// often than they allow.
func sessionRacingUses(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	const callers, each, sessions, left = 16, 12, 2, 61
	for i := range sessions {
		p.session(fmt.Sprint("session", i), left)
	}
	seen := make([][]int64, callers*sessions)
	errs := race(callers*sessions, func(i int) error {
		id := fmt.Sprint("session", i%sessions)
		for k := range each {
			var idem *ledger.Idempotency
			if k%4 == 3 {
				idem = &ledger.Idempotency{Scope: id, Key: fmt.Sprint(i, "-", k)}
			}
			s, err := handles[(i/sessions+k)%2].UseSession(p.ctx, id, 1, idem)
			switch {
			case err == nil:
				seen[i] = append(seen[i], s.Left)
			case !errors.Is(err, ledger.ErrExhausted):
				return err
			}
		}
		return nil
	})
	p.ok(errors.Join(errs...), "racing uses")
	for n := range sessions {
		var all []int64
		for i := n; i < len(seen); i += sessions {
			all = append(all, seen[i]...)
		}
		slices.Sort(all)
		p.must(len(all) == left, "%d of %d uses of a session of %d succeeded", len(all), callers*each, left)
		for i, l := range all {
			p.must(l == int64(i), "the uses of a session of %d returned these numbers of chunksets left: %v", left, all)
		}
		p.must(p.left(fmt.Sprint("session", n)) == 0, "session is not empty")
	}
}

// sessionLastChunkset has callers compete for one chunkset, repeatedly.
func sessionLastChunkset(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	for round := range 40 {
		id := fmt.Sprint("session", round)
		p.session(id, 1)
		errs := race(8, func(i int) error {
			_, err := handles[i%2].UseSession(p.ctx, id, 1, nil)
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				p.is(err, ledger.ErrExhausted, "use")
			}
		}
		p.must(won == 1, "round %d: %d callers got the last chunkset", round, won)
		p.must(p.left(id) == 0, "round %d: %d left", round, p.left(id))
	}
}
