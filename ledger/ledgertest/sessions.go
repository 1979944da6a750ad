package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

var sessionChecks = []dbtest.Check{
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

func (p *probe) left(id string) int64 {
	s := dbtest.Value(p.Store.Session(p.Ctx, id))
	return s.Left
}

func sessionCreate(p *probe) {
	in := ledger.Session{
		ID: "session", UserIdentity: "0xab", Total: 1<<63 - 1, Left: 1<<63 - 1,
		Created: p.Clock.Now().Add(time.Hour), Expires: p.Clock.Now().Add(time.Hour + time.Nanosecond),
	}
	want := in
	want.Created, want.Expires = p.Clock.Now(), p.Clock.Now().Add(time.Hour)
	got := dbtest.Value(p.Store.CreateSession(p.Ctx, in, nil))
	p.Equal(got, want, "created session")
	p.Is(dbtest.Error(p.Store.CreateSession(p.Ctx, in, nil)), database.ErrExists, "second session with that id")
	p.Reopen()
	got = dbtest.Value(p.Store.Session(p.Ctx, "session"))
	p.Equal(got, want, "session")
	p.Is(dbtest.Error(p.Store.Session(p.Ctx, "sessio")), database.ErrNotFound, "unknown session")
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "sessio", 1, nil)), database.ErrNotFound, "use of an unknown session")
}

// sessionUse uses a session until it is exhausted, one chunkset at a time.
func sessionUse(p *probe) {
	want := p.Session("session", 7)
	p.Session("other", 3)
	for i := range 7 {
		want.Left--
		want.Used++
		got, err := p.Store.UseSession(p.Ctx, "session", 1, nil)
		p.OK(err, "use %d", i)
		p.Equal(got, want, "session after use %d", i)
		p.Must(p.left("session") == want.Left, "%d left after use %d, want %d", p.left("session"), i, want.Left)
	}
	for range 3 {
		got, err := p.Store.UseSession(p.Ctx, "session", 1, nil)
		p.Is(err, ledger.ErrExhausted, "use of an empty session")
		p.Equal(got, want, "session returned with the error")
		p.Must(p.left("session") == 0, "an empty session has %d left", p.left("session"))
	}
	p.Must(p.left("other") == 3, "another session was charged")
	p.Reopen()
	p.Must(p.left("session") == 0 && p.left("other") == 3, "charges after a reopen")
}

func sessionExpiry(p *probe) {
	p.Session("session", 5)
	p.Session("empty", 0)
	p.Clock.Advance(time.Hour - time.Microsecond)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, nil))
	p.Clock.Advance(time.Microsecond)
	for _, id := range []string{"session", "empty"} {
		p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, id, 1, nil)), database.ErrExpired, "use of %s at the expiry", id)
		p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, id, 1, &database.Idempotency{Scope: id, Key: "k"})), database.ErrExpired, "use of %s at the expiry, with a key", id)
	}
	p.Must(p.left("session") == 4, "an expired session was charged")
	p.Clock.Advance(ledger.SessionRetention - time.Microsecond)
	p.left("session")
	p.Clock.Advance(time.Microsecond)
	for range 2 {
		p.Is(dbtest.Error(p.Store.Session(p.Ctx, "session")), database.ErrNotFound, "session after its retention")
		p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "session", 1, nil)), database.ErrNotFound, "use of a session after its retention")
		p.Purge()
	}
}

// sessionRacingUses uses sessions from many goroutines over two handles, more
// often than they allow.
func sessionRacingUses(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const callers, each, sessions, left = 16, 12, 2, 61
	for i := range sessions {
		p.Session(fmt.Sprint("session", i), left)
	}
	seen := make([][]int64, callers*sessions)
	errs := dbtest.Race(callers*sessions, func(i int) error {
		id := fmt.Sprint("session", i%sessions)
		for k := range each {
			var idem *database.Idempotency
			if k%4 == 3 {
				idem = &database.Idempotency{Scope: id, Key: fmt.Sprint(i, "-", k)}
			}
			s, err := handles[(i/sessions+k)%2].UseSession(p.Ctx, id, 1, idem)
			switch {
			case err == nil:
				seen[i] = append(seen[i], s.Left)
			case !errors.Is(err, ledger.ErrExhausted):
				return err
			}
		}
		return nil
	})
	p.OK(errors.Join(errs...), "racing uses")
	for n := range sessions {
		var all []int64
		for i := n; i < len(seen); i += sessions {
			all = append(all, seen[i]...)
		}
		slices.Sort(all)
		p.Must(len(all) == left, "%d of %d uses of a session of %d succeeded", len(all), callers*each, left)
		for i, l := range all {
			p.Must(l == int64(i), "the uses of a session of %d returned these numbers of chunksets left: %v", left, all)
		}
		p.Must(p.left(fmt.Sprint("session", n)) == 0, "session is not empty")
	}
}

// sessionLastChunkset has callers compete for one chunkset, repeatedly.
func sessionLastChunkset(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 40 {
		id := fmt.Sprint("session", round)
		p.Session(id, 1)
		errs := dbtest.Race(8, func(i int) error { return dbtest.Error(handles[i%2].UseSession(p.Ctx, id, 1, nil)) })
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				p.Is(err, ledger.ErrExhausted, "use")
			}
		}
		p.Must(won == 1, "round %d: %d callers got the last chunkset", round, won)
		p.Must(p.left(id) == 0, "round %d: %d left", round, p.left(id))
	}
}
