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

var idempotencyChecks = []dbtest.Check{
	check("idempotency/use", idempotentUse),
	check("idempotency/create", idempotentCreate),
	check("idempotency/channel", idempotentChannel),
	check("idempotency/hash", idempotentHash),
	check("idempotency/failure", idempotentFailure),
	check("idempotency/retention", idempotentRetention),
	check("idempotency/racing", idempotentRacing),
}

func idempotentUse(p *probe) {
	p.Session("session", 10)
	first := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
	p.Must(first.Left == 9, "%d left", first.Left)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, nil))
	for range 3 {
		again := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
		p.Equal(again, first, "replay")
		p.Must(p.left("session") == 8, "a replay deducted a chunkset: %d left", p.left("session"))
		p.Reopen()
	}
	// Scope and key are two strings, which are not concatenated.
	for i, k := range []*database.Idempotency{dbtest.Idem("s", "l"), dbtest.Idem("t", "k"), dbtest.Idem("sk", ""), dbtest.Idem("", "sk")} {
		got := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, k))
		p.Must(got.Left == int64(7-i), "another scope or key was taken for the first: %d left", got.Left)
	}
	// The outcome is retained after the session is used up, and after it has expired.
	for range 4 {
		dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, nil))
	}
	p.Clock.Advance(2 * time.Hour)
	again := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
	p.Equal(again, first, "replay on an empty and expired session")
}

func idempotentCreate(p *probe) {
	s := ledger.Session{ID: "one", UserIdentity: "0x1 é", Total: 5, Left: 5, Expires: p.Clock.Now().Add(time.Hour)}
	first := dbtest.Value(p.Store.CreateSession(p.Ctx, s, dbtest.Idem("s", "k")))
	dbtest.Value(p.Store.UseSession(p.Ctx, "one", 1, nil))
	p.Clock.Advance(time.Minute)
	s.ID = "two" // the caller creates a new id each time
	p.Equal(dbtest.Value(p.Store.CreateSession(p.Ctx, s, dbtest.Idem("s", "k"))), first, "replay")
	p.Is(dbtest.Error(p.Store.Session(p.Ctx, "two")), database.ErrNotFound, "session of a replay")
	s.ID = "three"
	other := dbtest.Value(p.Store.CreateSession(p.Ctx, s, dbtest.Idem("s", "other")))
	p.Must(other.ID == "three", "another key returned session %s", other.ID)
}

func idempotentChannel(p *probe) {
	c := ledger.Channel{ID: "one", PaymentChannelID: 3, Sender: "s", Receiver: "r", Asset: "a", Deposit: 1<<63 - 1, Expires: p.Clock.Now().Add(time.Hour)}
	for range 2 { // a query is not recorded
		p.Is(dbtest.Error(p.Store.RecordedChannel(p.Ctx, *dbtest.Idem("s", "k"))), database.ErrNotFound, "channel that is not opened yet")
	}
	first := dbtest.Value(p.Store.OpenChannel(p.Ctx, c, dbtest.Idem("s", "k")))
	p.Clock.Advance(time.Minute)
	dbtest.Value(p.Store.AddDeposit(p.Ctx, "one", 0, nil))
	opened := dbtest.Value(p.Store.RecordedChannel(p.Ctx, *dbtest.Idem("s", "k")))
	p.Equal(opened, first, "opened channel")
	another := *dbtest.Idem("s", "k")
	another.Hash[31] = 1
	p.Is(dbtest.Error(p.Store.RecordedChannel(p.Ctx, another)), database.ErrIdempotencyReuse, "opened channel with the key of another request")
	c.ID = "two"
	p.Equal(dbtest.Value(p.Store.OpenChannel(p.Ctx, c, dbtest.Idem("s", "k"))), first, "replay")
	p.Is(dbtest.Error(p.Store.OpenChannel(p.Ctx, c, dbtest.Idem("s", "other"))), database.ErrExists, "second open with another key")
	p.Is(dbtest.Error(p.Store.RecordedChannel(p.Ctx, *dbtest.Idem("s", "other"))), database.ErrNotFound, "opened channel of a refusal")
	p.Is(dbtest.Error(p.Store.Channel(p.Ctx, "two")), database.ErrNotFound, "channel of a replay")
}

func idempotentHash(p *probe) {
	p.Session("session", 10)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
	other := dbtest.Idem("s", "k")
	other.Hash[31] = 1
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "session", 1, other)), database.ErrIdempotencyReuse, "use with the key of another request")
	p.Is(dbtest.Error(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "x", Expires: p.Clock.Now().Add(time.Hour)}, other)), database.ErrIdempotencyReuse, "create with the key of another request")
	p.Is(dbtest.Error(p.Store.Session(p.Ctx, "x")), database.ErrNotFound, "session that was refused")
	p.Is(dbtest.Error(p.Store.OpenChannel(p.Ctx, ledger.Channel{ID: "x", Expires: p.Clock.Now().Add(time.Hour)}, other)), database.ErrIdempotencyReuse, "open with the key of another request")
	p.Must(p.left("session") == 9, "a refused use deducted a chunkset")
}

// idempotentFailure checks that only successes are recorded.
func idempotentFailure(p *probe) {
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))), database.ErrNotFound, "use of an unknown session")
	p.Session("empty", 0)
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "empty", 1, dbtest.Idem("s", "k"))), ledger.ErrExhausted, "use of an empty session")
	p.Is(dbtest.Error(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "empty", Expires: p.Clock.Now().Add(time.Hour)}, dbtest.Idem("s", "k"))), database.ErrExists, "create of a session that exists")
	p.Session("session", 2)
	got := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
	p.Must(got.Left == 1, "%d left", got.Left)
}

func idempotentRetention(p *probe) {
	s := dbtest.Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 9, Left: 9, Expires: p.Clock.Now().Add(1000 * time.Hour)}, nil))
	for round := range 3 {
		first := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
		s.Left--
		s.Used++
		p.Equal(first, s, "use in round %d", round)
		p.Clock.Advance(database.IdempotencyRetention - time.Microsecond)
		p.Equal(dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))), first, "replay at the end of the retention")
		p.Clock.Advance(time.Microsecond)
	}
	other := dbtest.Idem("s", "k")
	other.Hash[0] = 77
	got := dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, other))
	p.Must(got.Left == s.Left-1, "%d left", got.Left)
	p.Is(dbtest.Error(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k"))), database.ErrIdempotencyReuse, "the key now belongs to the other request")
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
