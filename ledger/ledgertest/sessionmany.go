package ledgertest

import (
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

func sessionUseMany(p *probe) {
	want := p.Session("session", 10)
	for _, step := range []struct{ n, left int64 }{{3, 7}, {8, -1}, {7, 0}, {1, -1}, {1<<63 - 1, -1}} {
		for i, key := range []*database.Idempotency{nil, dbtest.Idem("s", fmt.Sprint(step))} {
			if step.left >= 0 && i > 0 {
				continue
			}
			got, err := p.Store.UseSession(p.Ctx, "session", step.n, key)
			if step.left < 0 {
				p.Is(err, ledger.ErrExhausted, "use of %d with %d left", step.n, want.Left)
			} else {
				p.OK(err, "use of %d with %d left", step.n, want.Left)
				want.Left, want.Used = step.left, want.Total-step.left
			}
			p.Equal(got, want, "session after a use of %d", step.n)
		}
		p.Must(p.left("session") == want.Left, "%d left, want %d", p.left("session"), want.Left)
	}
	p.Session("keyed", 10)
	first := dbtest.Value(p.Store.UseSession(p.Ctx, "keyed", 4, dbtest.Idem("s", "k")))
	p.Equal(dbtest.Value(p.Store.UseSession(p.Ctx, "keyed", 4, dbtest.Idem("s", "k"))), first, "replay")
	p.Must(p.left("keyed") == 6, "%d left", p.left("keyed"))
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "unknown", 3, nil)), database.ErrNotFound, "use of an unknown session")
	p.Audited()
}

// sessionRacingMany has concurrent callers use several chunksets per call: their sum must equal the
// session's decrease, and each refused call must report how much was left.
func sessionRacingMany(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const callers, each, total = 24, 8, 331
	p.Session("session", total)
	taken := make([]int64, callers)
	errs := dbtest.Race(callers, func(i int) error {
		for k := range each {
			n := int64(1 + (i*7+k*3)%5)
			s, err := handles[(i+k)%2].UseSession(p.Ctx, "session", n, nil)
			switch {
			case err == nil:
				taken[i] += n
			case !errors.Is(err, ledger.ErrExhausted):
				return err
			case s.Left >= n || s.ID != "session":
				return fmt.Errorf("refused %d with %+v", n, s)
			}
			if s.Used+s.Left != total {
				return fmt.Errorf("used %d and left %d of %d", s.Used, s.Left, total)
			}
		}
		return nil
	})
	p.OK(errors.Join(errs...), "racing uses")
	sum := int64(0)
	for _, n := range taken {
		sum += n
	}
	s := dbtest.Value(p.Store.Session(p.Ctx, "session"))
	p.Must(s.Used == sum && s.Left == total-sum, "%d were used: %+v", sum, s)
	p.Must(s.Left < 5, "%d are left although each of them was requested", s.Left)
	p.Audited()
}

func sessionReturn(p *probe) {
	want := p.Session("session", 10)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 6, nil))
	back := func(n int64, request string, left int64) {
		got, err := p.Store.ReturnChunksets(p.Ctx, "session", n, request)
		p.OK(err, "return %s", request)
		want.Left, want.Used = left, 10-left
		p.Equal(got, want, "session after return %s", request)
		p.Must(p.left("session") == left, "%d left, want %d", p.left("session"), left)
		p.Audited()
	}
	tooMuch := func(n int64, request string) {
		_, err := p.Store.ReturnChunksets(p.Ctx, "session", n, request)
		p.Must(err != nil, "%d were returned although %d were used", n, want.Used)
		p.Must(p.left("session") == want.Left, "a refused return left %d", p.left("session"))
	}
	back(2, "r", 6)
	back(2, "r", 6)
	p.Reopen()
	back(2, "r", 6)
	tooMuch(5, "q")
	tooMuch(1<<63-1, "q")
	back(1, "q", 7) // a refusal is not recorded
	p.Session("other", 10)
	dbtest.Value(p.Store.UseSession(p.Ctx, "other", 2, nil))
	got := dbtest.Value(p.Store.ReturnChunksets(p.Ctx, "other", 2, "r"))
	p.Must(got.Left == 10, "%d left", got.Left)
	p.Clock.Advance(time.Hour)
	back(1, "late", 8)
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "session", 1, nil)), database.ErrExpired, "use after the expiry")
	p.Clock.Advance(ledger.SessionRetention)
	p.Is(dbtest.Error(p.Store.ReturnChunksets(p.Ctx, "session", 1, "forgotten")), database.ErrNotFound, "return to a session past its retention")
	p.Is(dbtest.Error(p.Store.ReturnChunksets(p.Ctx, "unknown", 1, "r")), database.ErrNotFound, "return to an unknown session")
}

// sessionRacingReturns repeats one return concurrently, and makes more different returns than there
// were uses.
func sessionRacingReturns(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Session("session", 100)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 17, nil))
	for _, err := range dbtest.Race(8, func(i int) error { return dbtest.Error(handles[i%2].ReturnChunksets(p.Ctx, "session", 5, "one")) }) {
		p.OK(err, "return")
	}
	p.Must(p.left("session") == 88, "%d left after one return of 5", p.left("session"))
	p.Won(dbtest.Race(8, func(i int) error {
		return dbtest.Error(handles[i%2].ReturnChunksets(p.Ctx, "session", 5, fmt.Sprint(i)))
	}), 2, dbtest.ErrAny)
	p.Must(p.left("session") == 98, "%d left", p.left("session"))
	p.Audited()
}
