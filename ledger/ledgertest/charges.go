package ledgertest

import (
	"errors"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
)

var chargeChecks = []dbtest.Check{
	check("sessions/charge", sessionCharge),
	check("sessions/racing-charge-returns", racingChargeReturns),
	check("payments/return-read", returnRead),
}

// charged charges a session and checks how many chunksets are left.
func (p *probe) charged(store whole.Database, id string, n int64, charge string, left int64) {
	got, err := store.ChargeSession(p.Ctx, id, n, charge)
	p.OK(err, "charge %s of %d", charge, n)
	p.Must(got.Left == left, "%d left after the charge %s of %d, want %d", got.Left, charge, n, left)
}

// returned returns a charge and checks how many chunksets are left.
func (p *probe) returned(store whole.Database, id, charge string, left int64) {
	got, err := store.ReturnCharge(p.Ctx, id, charge)
	p.OK(err, "return of the charge %s", charge)
	p.Must(got.Left == left && got.Used+got.Left == got.Total, "%+v after the return of the charge %s, want %d left", got, charge, left)
}

// sessionCharge returns charges, as if their outcome were not known.
func sessionCharge(p *probe) {
	dbtest.Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 20, Left: 20, Expires: p.Clock.Now().Add(sessionLife)}, nil))
	p.returned(p.Store, "session", "a", 20) // before it was made
	p.charged(p.Store, "session", 3, "a", 17)
	p.returned(p.Store, "session", "b", 17)
	p.returned(p.Store, "session", "a", 20)
	p.returned(p.Store, "session", "a", 20)
	got, err := p.Store.ChargeSession(p.Ctx, "session", 21, "c")
	p.Is(err, ledger.ErrExhausted, "a charge of too much")
	p.Must(got.Left == 20, "with the error %+v is returned", got)
	p.returned(p.Store, "session", "c", 20)
	for _, err := range []error{
		second(p.Store.ChargeSession(p.Ctx, "unknown", 1, "d")), second(p.Store.ReturnCharge(p.Ctx, "unknown", "d")),
	} {
		p.Is(err, database.ErrNotFound, "of an unknown session")
	}
	// A charge is found whatever else is charged, and after a restart.
	other := p.Open()
	p.charged(p.Store, "session", 4, "e", 16)
	p.charged(other, "session", 2, "f", 14)
	p.charged(other, "session", 1, "g", 13)
	p.Reopen()
	p.charged(p.Store, "session", 1, "h", 12)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, nil))
	p.returned(p.Store, "session", "e", 15)
	p.Reopen()
	p.returned(p.Store, "session", "e", 15)
	dbtest.Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "short", Total: 5, Left: 5, Expires: p.Clock.Now().Add(dbtest.ChannelLife / 1000)}, nil))
	p.charged(p.Store, "short", 5, "a", 0)
	p.Clock.Advance(dbtest.ChannelLife / 1000)
	p.Is(second(p.Store.ChargeSession(p.Ctx, "short", 1, "b")), database.ErrExpired, "a charge of an expired session")
	p.returned(p.Store, "short", "a", 5)
}

func second[T any](_ T, err error) error { return err }

// racingChargeReturns returns charges concurrently on several handles.
func racingChargeReturns(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	dbtest.Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 100, Left: 100, Expires: p.Clock.Now().Add(sessionLife)}, nil))
	p.charged(handles[0], "session", 7, "a", 93)
	for _, err := range dbtest.Race(8, func(i int) error {
		store := handles[i%2]
		if i < 6 {
			return second(store.ReturnCharge(p.Ctx, "session", "a"))
		}
		return second(store.UseSession(p.Ctx, "session", 1, nil))
	}) {
		p.OK(err, "concurrent returns and uses")
	}
	got := dbtest.Value(p.Store.Session(p.Ctx, "session"))
	p.Must(got.Left == 98, "%d left, want 98: the charge was returned once, and two uses", got.Left)
}

// returnRead returns reads' chunksets, as if it were not known whether the sale was made.
func returnRead(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	c := p.Channel("channel", "s", 1000)
	credit := func(charge string, pay ledger.Offer, want int64) {
		got, err := handles[1].ReturnRead(p.Ctx, pay.Payment, charge)
		p.OK(err, "return of the read %s", charge)
		p.Must(got.Credit == want, "the credit is %d after the return of the read %s, want %d", got.Credit, charge, want)
		p.Audited()
	}
	first, next := p.pay(c, 1, 100), p.pay(c, 2, 110)
	credit("a", first, 0) // before it was made
	dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: first, Price: 10, Count: 9, Charge: "a"}))
	credit("b", first, 10)
	credit("a", next, 10)
	dbtest.Value(p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: next, Price: 5, Count: 4, Charge: "b"}))
	for _, err := range dbtest.Race(6, func(i int) error { return second(handles[i%2].ReturnRead(p.Ctx, first.Payment, "a")) }) {
		p.OK(err, "concurrent returns")
	}
	credit("a", first, 90)
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "channel"))
	p.Reopen()
	handles[1] = p.Store
	credit("b", next, 110)
	credit("b", next, 110)
	stranger := first
	stranger.Sender = "stranger"
	_, err := p.Store.ReturnRead(p.Ctx, stranger.Payment, "a")
	p.Must(errors.Is(err, ledger.ErrNoChannel), "of an unknown channel: %v", err)
}
