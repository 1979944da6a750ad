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

func idempotencyChecks() []dbtest.Check {
	return []dbtest.Check{
		check("idempotency/use", idempotentUse),
		check("idempotency/create", idempotentCreate),
		check("idempotency/channel", idempotentChannel),
		check("idempotency/hash", idempotentHash),
		check("idempotency/failure", idempotentFailure),
		check("idempotency/retention", idempotentRetention),
		check("idempotency/racing", idempotentRacing),
	}
}

func idempotentUse(p *probe) {
	p.Session("session", 10)
	first, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
	p.OK(err, "use")
	p.Must(first.Left == 9, "%d left", first.Left)
	_, err = p.Store.UseSession(p.Ctx, "session", 1, nil)
	p.OK(err, "use without a key")
	for range 3 {
		again, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
		p.OK(err, "replay")
		p.Equal(again, first, "replay")
		p.Must(p.left("session") == 8, "a replay deducted a chunkset: %d left", p.left("session"))
		p.Reopen()
	}
	// Scope and key are two strings, which are not concatenated.
	for i, k := range []*ledger.Idempotency{dbtest.Idem("s", "l"), dbtest.Idem("t", "k"), dbtest.Idem("sk", ""), dbtest.Idem("", "sk")} {
		got, err := p.Store.UseSession(p.Ctx, "session", 1, k)
		p.OK(err, "use with another key")
		p.Must(got.Left == int64(7-i), "another scope or key was taken for the first: %d left", got.Left)
	}
	// The outcome is retained after the session is used up, and after it has expired.
	for range 4 {
		_, err = p.Store.UseSession(p.Ctx, "session", 1, nil)
		p.OK(err, "use")
	}
	p.Clock.Advance(2 * time.Hour)
	again, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
	p.OK(err, "replay on an empty and expired session")
	p.Equal(again, first, "replay on an empty and expired session")
}

func idempotentCreate(p *probe) {
	s := ledger.Session{ID: "one", UserIdentity: "0x1 é", Total: 5, Left: 5, Expires: p.Clock.Now().Add(time.Hour)}
	first, err := p.Store.CreateSession(p.Ctx, s, dbtest.Idem("s", "k"))
	p.OK(err, "create")
	_, err = p.Store.UseSession(p.Ctx, "one", 1, nil)
	p.OK(err, "use")
	p.Clock.Advance(time.Minute)
	s.ID = "two" // the caller creates a new id each time
	again, err := p.Store.CreateSession(p.Ctx, s, dbtest.Idem("s", "k"))
	p.OK(err, "replay")
	p.Equal(again, first, "replay")
	_, err = p.Store.Session(p.Ctx, "two")
	p.Is(err, database.ErrNotFound, "session of a replay")
	s.ID = "three"
	other, err := p.Store.CreateSession(p.Ctx, s, dbtest.Idem("s", "other"))
	p.OK(err, "create with another key")
	p.Must(other.ID == "three", "another key returned session %s", other.ID)
}

func idempotentChannel(p *probe) {
	c := ledger.Channel{ID: "one", PaymentChannelID: 3, Sender: "s", Receiver: "r", Asset: "a", Deposit: 1<<63 - 1, Expires: p.Clock.Now().Add(time.Hour)}
	for range 2 { // a query is not recorded
		_, err := p.Store.RecordedChannel(p.Ctx, *dbtest.Idem("s", "k"))
		p.Is(err, database.ErrNotFound, "channel that is not opened yet")
	}
	first, err := p.Store.OpenChannel(p.Ctx, c, dbtest.Idem("s", "k"))
	p.OK(err, "open")
	p.Clock.Advance(time.Minute)
	_, err = p.Store.AddDeposit(p.Ctx, "one", 0, nil)
	p.OK(err, "deposit")
	opened, err := p.Store.RecordedChannel(p.Ctx, *dbtest.Idem("s", "k"))
	p.OK(err, "opened channel")
	p.Equal(opened, first, "opened channel")
	another := *dbtest.Idem("s", "k")
	another.Hash[31] = 1
	_, err = p.Store.RecordedChannel(p.Ctx, another)
	p.Is(err, ledger.ErrIdempotencyReuse, "opened channel with the key of another request")
	c.ID = "two"
	again, err := p.Store.OpenChannel(p.Ctx, c, dbtest.Idem("s", "k"))
	p.OK(err, "replay")
	p.Equal(again, first, "replay")
	_, err = p.Store.OpenChannel(p.Ctx, c, dbtest.Idem("s", "other"))
	p.Is(err, database.ErrExists, "second open with another key")
	_, err = p.Store.RecordedChannel(p.Ctx, *dbtest.Idem("s", "other"))
	p.Is(err, database.ErrNotFound, "opened channel of a refusal")
	_, err = p.Store.Channel(p.Ctx, "two")
	p.Is(err, database.ErrNotFound, "channel of a replay")
}

func idempotentHash(p *probe) {
	p.Session("session", 10)
	_, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
	p.OK(err, "use")
	other := dbtest.Idem("s", "k")
	other.Hash[31] = 1
	_, err = p.Store.UseSession(p.Ctx, "session", 1, other)
	p.Is(err, ledger.ErrIdempotencyReuse, "use with the key of another request")
	_, err = p.Store.CreateSession(p.Ctx, ledger.Session{ID: "x", Expires: p.Clock.Now().Add(time.Hour)}, other)
	p.Is(err, ledger.ErrIdempotencyReuse, "create with the key of another request")
	_, err = p.Store.Session(p.Ctx, "x")
	p.Is(err, database.ErrNotFound, "session that was refused")
	_, err = p.Store.OpenChannel(p.Ctx, ledger.Channel{ID: "x", Expires: p.Clock.Now().Add(time.Hour)}, other)
	p.Is(err, ledger.ErrIdempotencyReuse, "open with the key of another request")
	p.Must(p.left("session") == 9, "a refused use deducted a chunkset")
}

// idempotentFailure checks that only successes are recorded.
func idempotentFailure(p *probe) {
	_, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
	p.Is(err, database.ErrNotFound, "use of an unknown session")
	p.Session("empty", 0)
	_, err = p.Store.UseSession(p.Ctx, "empty", 1, dbtest.Idem("s", "k"))
	p.Is(err, ledger.ErrExhausted, "use of an empty session")
	_, err = p.Store.CreateSession(p.Ctx, ledger.Session{ID: "empty", Expires: p.Clock.Now().Add(time.Hour)}, dbtest.Idem("s", "k"))
	p.Is(err, database.ErrExists, "create of a session that exists")
	p.Session("session", 2)
	got, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
	p.OK(err, "use after failures with the same key")
	p.Must(got.Left == 1, "%d left", got.Left)
}

func idempotentRetention(p *probe) {
	s, err := p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 9, Left: 9, Expires: p.Clock.Now().Add(1000 * time.Hour)}, nil)
	p.OK(err, "create")
	for round := range 3 {
		first, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
		p.OK(err, "use")
		s.Left--
		s.Used++
		p.Equal(first, s, "use in round %d", round)
		p.Clock.Advance(ledger.IdempotencyRetention - time.Microsecond)
		again, err := p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
		p.OK(err, "replay at the end of the retention")
		p.Equal(again, first, "replay at the end of the retention")
		p.Clock.Advance(time.Microsecond)
	}
	other := dbtest.Idem("s", "k")
	other.Hash[0] = 77
	got, err := p.Store.UseSession(p.Ctx, "session", 1, other)
	p.OK(err, "use with a key past its retention for another request")
	p.Must(got.Left == s.Left-1, "%d left", got.Left)
	_, err = p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))
	p.Is(err, ledger.ErrIdempotencyReuse, "the key now belongs to the other request")
}

// idempotentRacing sends the same requests concurrently over two handles.
func idempotentRacing(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Session("session", 1000)
	for round := range 20 {
		key := dbtest.Idem("s", fmt.Sprint("k", round))
		const n = 8
		uses, creates := make([]ledger.Session, n), make([]ledger.Session, n)
		before := p.left("session")
		errs := dbtest.Race(2*n, func(i int) (err error) {
			s := handles[i%2]
			if i < n {
				uses[i], err = s.UseSession(p.Ctx, "session", 1, key)
				return err
			}
			creates[i-n], err = s.CreateSession(p.Ctx, ledger.Session{
				ID: fmt.Sprint("round", round, "-", i), Total: 1, Left: 1, Expires: p.Clock.Now().Add(time.Hour),
			}, dbtest.Idem("create", fmt.Sprint("k", round)))
			return err
		})
		p.OK(errors.Join(errs...), "racing requests")
		for i := range n {
			p.Equal(uses[i], uses[0], "use %d in round %d", i, round)
			p.Equal(creates[i], creates[0], "create %d in round %d", i, round)
			_, err := p.Store.Session(p.Ctx, fmt.Sprint("round", round, "-", n+i))
			if creates[0].ID != fmt.Sprint("round", round, "-", n+i) {
				p.Is(err, database.ErrNotFound, "session of a racing create that lost")
			}
		}
		p.Must(p.left("session") == before-1, "%d uses with one key deducted %d chunksets", n, before-p.left("session"))
	}
}
