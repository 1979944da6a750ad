package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func sessionUseMany(p *probe) {
	want := p.session("session", 10)
	for _, step := range []struct{ n, left int64 }{{3, 7}, {8, -1}, {7, 0}, {1, -1}, {1<<63 - 1, -1}} {
		for i, key := range []*ledger.Idempotency{nil, idem("s", fmt.Sprint(step))} {
			if step.left >= 0 && i > 0 {
				continue
			}
			got, err := p.store.UseSession(p.ctx, "session", step.n, key)
			if step.left < 0 {
				p.is(err, ledger.ErrExhausted, "use of %d with %d left", step.n, want.Left)
			} else {
				p.ok(err, "use of %d with %d left", step.n, want.Left)
				want.Left, want.Used = step.left, want.Total-step.left
			}
			p.equal(got, want, "session after a use of %d", step.n)
		}
		p.must(p.left("session") == want.Left, "%d left, want %d", p.left("session"), want.Left)
	}
	p.session("keyed", 10)
	first, err := p.store.UseSession(p.ctx, "keyed", 4, idem("s", "k"))
	p.ok(err, "use of 4")
	again, err := p.store.UseSession(p.ctx, "keyed", 4, idem("s", "k"))
	p.ok(err, "replay")
	p.equal(again, first, "replay")
	p.must(p.left("keyed") == 6, "%d left", p.left("keyed"))
	_, err = p.store.UseSession(p.ctx, "unknown", 3, nil)
	p.is(err, database.ErrNotFound, "use of an unknown session")
	p.audited()
}

// sessionRacingMany has concurrent callers use several chunksets per call: what was used must equal
// what is missing, and each refused call must report how much was left.
func sessionRacingMany(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	const callers, each, total = 24, 8, 331
	p.session("session", total)
	taken := make([]int64, callers)
	errs := race(callers, func(i int) error {
		for k := range each {
			n := int64(1 + (i*7+k*3)%5)
			s, err := handles[(i+k)%2].UseSession(p.ctx, "session", n, nil)
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
	p.ok(errors.Join(errs...), "racing uses")
	sum := int64(0)
	for _, n := range taken {
		sum += n
	}
	s, err := p.store.Session(p.ctx, "session")
	p.ok(err, "session")
	p.must(s.Used == sum && s.Left == total-sum, "%d were used: %+v", sum, s)
	p.must(s.Left < 5, "%d are left although each of them was requested", s.Left)
	p.audited()
}

func sessionReturn(p *probe) {
	want := p.session("session", 10)
	_, err := p.store.UseSession(p.ctx, "session", 6, nil)
	p.ok(err, "use")
	back := func(n int64, request string, left int64) {
		got, err := p.store.ReturnChunksets(p.ctx, "session", n, request)
		p.ok(err, "return %s", request)
		want.Left, want.Used = left, 10-left
		p.equal(got, want, "session after return %s", request)
		p.must(p.left("session") == left, "%d left, want %d", p.left("session"), left)
		p.audited()
	}
	tooMuch := func(n int64, request string) {
		_, err := p.store.ReturnChunksets(p.ctx, "session", n, request)
		p.must(err != nil, "%d were returned although %d were used", n, want.Used)
		p.must(p.left("session") == want.Left, "a refused return left %d", p.left("session"))
	}
	back(2, "r", 6)
	back(2, "r", 6)
	p.reopen()
	back(2, "r", 6)
	tooMuch(5, "q")
	tooMuch(1<<63-1, "q")
	back(1, "q", 7) // a refusal is not recorded
	p.session("other", 10)
	_, err = p.store.UseSession(p.ctx, "other", 2, nil)
	p.ok(err, "use")
	got, err := p.store.ReturnChunksets(p.ctx, "other", 2, "r")
	p.ok(err, "return of the same name to another session")
	p.must(got.Left == 10, "%d left", got.Left)
	p.clock.Advance(time.Hour)
	back(1, "late", 8)
	_, err = p.store.UseSession(p.ctx, "session", 1, nil)
	p.is(err, database.ErrExpired, "use after the expiry")
	p.clock.Advance(ledger.SessionRetention)
	_, err = p.store.ReturnChunksets(p.ctx, "session", 1, "forgotten")
	p.is(err, database.ErrNotFound, "return to a session past its retention")
	_, err = p.store.ReturnChunksets(p.ctx, "unknown", 1, "r")
	p.is(err, database.ErrNotFound, "return to an unknown session")
}

// sessionRacingReturns repeats one return concurrently, and makes more different returns than there
// were uses.
func sessionRacingReturns(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	p.session("session", 100)
	_, err := p.store.UseSession(p.ctx, "session", 17, nil)
	p.ok(err, "use")
	for _, err := range race(8, func(i int) error {
		_, err := handles[i%2].ReturnChunksets(p.ctx, "session", 5, "one")
		return err
	}) {
		p.ok(err, "return")
	}
	p.must(p.left("session") == 88, "%d left after one return of 5", p.left("session"))
	p.won(race(8, func(i int) error {
		_, err := handles[i%2].ReturnChunksets(p.ctx, "session", 5, fmt.Sprint(i))
		return err
	}), 2, errAny)
	p.must(p.left("session") == 98, "%d left", p.left("session"))
	p.audited()
}
