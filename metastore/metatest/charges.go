package metatest

import (
	"errors"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func chargeChecks() []Check {
	return []Check{
		check("sessions/charge", sessionCharge),
		check("sessions/racing-charge-returns", racingChargeReturns),
		check("payments/return-read", returnRead),
	}
}

// charged charges a session and checks how many chunksets are left.
func (p *probe) charged(store whole.Database, id string, n int64, charge string, left int64) {
	got, err := store.ChargeSession(p.ctx, id, n, charge)
	p.ok(err, "charge %s of %d", charge, n)
	p.must(got.Left == left, "%d left after the charge %s of %d, want %d", got.Left, charge, n, left)
}

// returned returns a charge and checks how many chunksets are left.
func (p *probe) returned(store whole.Database, id, charge string, left int64) {
	got, err := store.ReturnCharge(p.ctx, id, charge)
	p.ok(err, "return of the charge %s", charge)
	p.must(got.Left == left && got.Used+got.Left == got.Total, "%+v after the return of the charge %s, want %d left", got, charge, left)
}

// sessionCharge returns charges, as if their outcome were not known.
func sessionCharge(p *probe) {
	_, err := p.store.CreateSession(p.ctx, ledger.Session{ID: "session", Total: 20, Left: 20, Expires: p.clock.Now().Add(sessionLife)}, nil)
	p.ok(err, "create session")
	p.returned(p.store, "session", "a", 20) // before it was made
	p.charged(p.store, "session", 3, "a", 17)
	p.returned(p.store, "session", "b", 17)
	p.returned(p.store, "session", "a", 20)
	p.returned(p.store, "session", "a", 20)
	got, err := p.store.ChargeSession(p.ctx, "session", 21, "c")
	p.is(err, ledger.ErrExhausted, "a charge of too much")
	p.must(got.Left == 20, "with the error %+v is returned", got)
	p.returned(p.store, "session", "c", 20)
	for _, err := range []error{
		second(p.store.ChargeSession(p.ctx, "unknown", 1, "d")), second(p.store.ReturnCharge(p.ctx, "unknown", "d")),
	} {
		p.is(err, database.ErrNotFound, "of an unknown session")
	}
	// A charge is found whatever else is charged, and after a restart.
	other := p.open()
	p.charged(p.store, "session", 4, "e", 16)
	p.charged(other, "session", 2, "f", 14)
	p.charged(other, "session", 1, "g", 13)
	p.reopen()
	p.charged(p.store, "session", 1, "h", 12)
	_, err = p.store.UseSession(p.ctx, "session", 1, nil)
	p.ok(err, "use")
	p.returned(p.store, "session", "e", 15)
	p.reopen()
	p.returned(p.store, "session", "e", 15)
	_, err = p.store.CreateSession(p.ctx, ledger.Session{ID: "short", Total: 5, Left: 5, Expires: p.clock.Now().Add(channelLife / 1000)}, nil)
	p.ok(err, "create session")
	p.charged(p.store, "short", 5, "a", 0)
	p.clock.Advance(channelLife / 1000)
	p.is(second(p.store.ChargeSession(p.ctx, "short", 1, "b")), database.ErrExpired, "a charge of an expired session")
	p.returned(p.store, "short", "a", 5)
}

func second[T any](_ T, err error) error { return err }

// racingChargeReturns returns charges concurrently on several handles.
func racingChargeReturns(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	_, err := p.store.CreateSession(p.ctx, ledger.Session{ID: "session", Total: 100, Left: 100, Expires: p.clock.Now().Add(sessionLife)}, nil)
	p.ok(err, "create session")
	p.charged(handles[0], "session", 7, "a", 93)
	for _, err := range race(8, func(i int) error {
		store := handles[i%2]
		if i < 6 {
			return second(store.ReturnCharge(p.ctx, "session", "a"))
		}
		return second(store.UseSession(p.ctx, "session", 1, nil))
	}) {
		p.ok(err, "concurrent returns and uses")
	}
	got, err := p.store.Session(p.ctx, "session")
	p.ok(err, "session")
	p.must(got.Left == 98, "%d left, want 98: the charge was returned once, and two uses", got.Left)
}

// returnRead returns what was sold to reads, as if the outcome of the sale were not known.
func returnRead(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	c := p.channel("channel", "s", 1000)
	credit := func(charge string, pay ledger.Payment, want int64) {
		got, err := handles[1].ReturnRead(p.ctx, pay, charge)
		p.ok(err, "return of the read %s", charge)
		p.must(got.Credit == want, "the credit is %d after the return of the read %s, want %d", got.Credit, charge, want)
		p.audited()
	}
	first, next := p.pay(c, 1, 100), p.pay(c, 2, 110)
	credit("a", first, 0) // before it was made
	_, err := p.store.PayRead(p.ctx, ledger.ReadPurchase{Payment: first, Price: 10, Count: 9, Charge: "a"})
	p.ok(err, "read")
	credit("b", first, 10)
	credit("a", next, 10)
	_, err = p.store.PayRead(p.ctx, ledger.ReadPurchase{Payment: next, Price: 5, Count: 4, Charge: "b"})
	p.ok(err, "read")
	for _, err := range race(6, func(i int) error { return second(handles[i%2].ReturnRead(p.ctx, first, "a")) }) {
		p.ok(err, "concurrent returns")
	}
	credit("a", first, 90)
	_, err = p.store.CloseChannel(p.ctx, "channel")
	p.ok(err, "close")
	p.reopen()
	handles[1] = p.store
	credit("b", next, 110)
	credit("b", next, 110)
	stranger := first
	stranger.Sender = "stranger"
	_, err = p.store.ReturnRead(p.ctx, stranger, "a")
	p.must(errors.Is(err, ledger.ErrNoChannel), "of an unknown channel: %v", err)
}
