package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func idempotencyChecks() []Check {
	return []Check{
		check("idempotency/use", idempotentUse),
		check("idempotency/create", idempotentCreate),
		check("idempotency/channel", idempotentChannel),
		check("idempotency/hash", idempotentHash),
		check("idempotency/failure", idempotentFailure),
		check("idempotency/retention", idempotentRetention),
		check("idempotency/racing", idempotentRacing),
	}
}

func idem(scope, key string) *ledger.Idempotency {
	return &ledger.Idempotency{Scope: scope, Key: key, Hash: [32]byte{1, 2, 3}}
}

func idempotentUse(p *probe) {
	p.session("session", 10)
	first, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.ok(err, "use")
	p.must(first.Left == 9, "%d left", first.Left)
	_, err = p.store.UseSession(p.ctx, "session", 1, nil)
	p.ok(err, "use without a key")
	for range 3 {
		again, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
		p.ok(err, "replay")
		p.equal(again, first, "replay")
		p.must(p.left("session") == 8, "a replay deducted a chunkset: %d left", p.left("session"))
		p.reopen()
	}
	// Scope and key are two strings, which are not concatenated.
	for i, k := range []*ledger.Idempotency{idem("s", "l"), idem("t", "k"), idem("sk", ""), idem("", "sk")} {
		got, err := p.store.UseSession(p.ctx, "session", 1, k)
		p.ok(err, "use with another key")
		p.must(got.Left == int64(7-i), "another scope or key was taken for the first: %d left", got.Left)
	}
	// The outcome is retained after the session is used up, and after it has expired.
	for range 4 {
		_, err = p.store.UseSession(p.ctx, "session", 1, nil)
		p.ok(err, "use")
	}
	p.clock.Advance(2 * time.Hour)
	again, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.ok(err, "replay on an empty and expired session")
	p.equal(again, first, "replay on an empty and expired session")
}

func idempotentCreate(p *probe) {
	s := ledger.Session{ID: "one", UserIdentity: "0x1 é", Total: 5, Left: 5, Expires: p.clock.Now().Add(time.Hour)}
	first, err := p.store.CreateSession(p.ctx, s, idem("s", "k"))
	p.ok(err, "create")
	_, err = p.store.UseSession(p.ctx, "one", 1, nil)
	p.ok(err, "use")
	p.clock.Advance(time.Minute)
	s.ID = "two" // the caller creates a new id each time
	again, err := p.store.CreateSession(p.ctx, s, idem("s", "k"))
	p.ok(err, "replay")
	p.equal(again, first, "replay")
	_, err = p.store.Session(p.ctx, "two")
	p.is(err, database.ErrNotFound, "session of a replay")
	s.ID = "three"
	other, err := p.store.CreateSession(p.ctx, s, idem("s", "other"))
	p.ok(err, "create with another key")
	p.must(other.ID == "three", "another key returned session %s", other.ID)
}

func idempotentChannel(p *probe) {
	c := ledger.Channel{ID: "one", PaymentChannelID: 3, Sender: "s", Receiver: "r", Asset: "a", Deposit: 1<<63 - 1, Expires: p.clock.Now().Add(time.Hour)}
	for range 2 { // a query is not recorded
		_, err := p.store.RecordedChannel(p.ctx, *idem("s", "k"))
		p.is(err, database.ErrNotFound, "channel that is not opened yet")
	}
	first, err := p.store.OpenChannel(p.ctx, c, idem("s", "k"))
	p.ok(err, "open")
	p.clock.Advance(time.Minute)
	_, err = p.store.AddDeposit(p.ctx, "one", 0, nil)
	p.ok(err, "deposit")
	opened, err := p.store.RecordedChannel(p.ctx, *idem("s", "k"))
	p.ok(err, "opened channel")
	p.equal(opened, first, "opened channel")
	another := *idem("s", "k")
	another.Hash[31] = 1
	_, err = p.store.RecordedChannel(p.ctx, another)
	p.is(err, ledger.ErrIdempotencyReuse, "opened channel with the key of another request")
	c.ID = "two"
	again, err := p.store.OpenChannel(p.ctx, c, idem("s", "k"))
	p.ok(err, "replay")
	p.equal(again, first, "replay")
	_, err = p.store.OpenChannel(p.ctx, c, idem("s", "other"))
	p.is(err, database.ErrExists, "second open with another key")
	_, err = p.store.RecordedChannel(p.ctx, *idem("s", "other"))
	p.is(err, database.ErrNotFound, "opened channel of a refusal")
	_, err = p.store.Channel(p.ctx, "two")
	p.is(err, database.ErrNotFound, "channel of a replay")
}

func idempotentHash(p *probe) {
	p.session("session", 10)
	_, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.ok(err, "use")
	other := idem("s", "k")
	other.Hash[31] = 1
	_, err = p.store.UseSession(p.ctx, "session", 1, other)
	p.is(err, ledger.ErrIdempotencyReuse, "use with the key of another request")
	_, err = p.store.CreateSession(p.ctx, ledger.Session{ID: "x", Expires: p.clock.Now().Add(time.Hour)}, other)
	p.is(err, ledger.ErrIdempotencyReuse, "create with the key of another request")
	_, err = p.store.Session(p.ctx, "x")
	p.is(err, database.ErrNotFound, "session that was refused")
	_, err = p.store.OpenChannel(p.ctx, ledger.Channel{ID: "x", Expires: p.clock.Now().Add(time.Hour)}, other)
	p.is(err, ledger.ErrIdempotencyReuse, "open with the key of another request")
	p.must(p.left("session") == 9, "a refused use deducted a chunkset")
}

// idempotentFailure checks that only successes are recorded.
func idempotentFailure(p *probe) {
	_, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.is(err, database.ErrNotFound, "use of an unknown session")
	p.session("empty", 0)
	_, err = p.store.UseSession(p.ctx, "empty", 1, idem("s", "k"))
	p.is(err, ledger.ErrExhausted, "use of an empty session")
	_, err = p.store.CreateSession(p.ctx, ledger.Session{ID: "empty", Expires: p.clock.Now().Add(time.Hour)}, idem("s", "k"))
	p.is(err, database.ErrExists, "create of a session that exists")
	p.session("session", 2)
	got, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.ok(err, "use after failures with the same key")
	p.must(got.Left == 1, "%d left", got.Left)
}

func idempotentRetention(p *probe) {
	s, err := p.store.CreateSession(p.ctx, ledger.Session{ID: "session", Total: 9, Left: 9, Expires: p.clock.Now().Add(1000 * time.Hour)}, nil)
	p.ok(err, "create")
	for round := range 3 {
		first, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
		p.ok(err, "use")
		s.Left--
		s.Used++
		p.equal(first, s, "use in round %d", round)
		p.clock.Advance(ledger.IdempotencyRetention - time.Microsecond)
		again, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
		p.ok(err, "replay at the end of the retention")
		p.equal(again, first, "replay at the end of the retention")
		p.clock.Advance(time.Microsecond)
	}
	other := idem("s", "k")
	other.Hash[0] = 77
	got, err := p.store.UseSession(p.ctx, "session", 1, other)
	p.ok(err, "use with a key past its retention for another request")
	p.must(got.Left == s.Left-1, "%d left", got.Left)
	_, err = p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.is(err, ledger.ErrIdempotencyReuse, "the key now belongs to the other request")
}

// idempotentRacing sends the same requests concurrently over two handles.
func idempotentRacing(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	p.session("session", 1000)
	for round := range 20 {
		key := idem("s", fmt.Sprint("k", round))
		const n = 8
		uses, creates := make([]ledger.Session, n), make([]ledger.Session, n)
		before := p.left("session")
		errs := race(2*n, func(i int) (err error) {
			s := handles[i%2]
			if i < n {
				uses[i], err = s.UseSession(p.ctx, "session", 1, key)
				return err
			}
			creates[i-n], err = s.CreateSession(p.ctx, ledger.Session{
				ID: fmt.Sprint("round", round, "-", i), Total: 1, Left: 1, Expires: p.clock.Now().Add(time.Hour),
			}, idem("create", fmt.Sprint("k", round)))
			return err
		})
		p.ok(errors.Join(errs...), "racing requests")
		for i := range n {
			p.equal(uses[i], uses[0], "use %d in round %d", i, round)
			p.equal(creates[i], creates[0], "create %d in round %d", i, round)
			_, err := p.store.Session(p.ctx, fmt.Sprint("round", round, "-", n+i))
			if creates[0].ID != fmt.Sprint("round", round, "-", n+i) {
				p.is(err, database.ErrNotFound, "session of a racing create that lost")
			}
		}
		p.must(p.left("session") == before-1, "%d uses with one key deducted %d chunksets", n, before-p.left("session"))
	}
}
