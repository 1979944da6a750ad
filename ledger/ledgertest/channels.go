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

var channelChecks = []dbtest.Check{
	check("channels/open", channelOpen),
	check("channels/parties", channelParties),
	check("channels/racing", channelRacing),
	check("channels/find", channelFind),
	check("channels/deposit", channelDeposit),
	check("channels/racing-deposits", channelRacingDeposits),
	check("channels/close", channelClose),
	check("channels/sessions", channelSessions),
}

func channelOpen(p *probe) {
	in := ledger.Channel{
		ID: "channel", PaymentChannelID: 1<<63 - 1, Sender: "s\x00", Receiver: "r", Asset: "a\xff", Deposit: 1<<63 - 1, Owner: "o\x00",
		Created: p.Clock.Now().Add(time.Hour), Expires: p.Clock.Now().Add(time.Hour + time.Nanosecond),
	}
	want := in
	want.Created, want.Expires = p.Clock.Now(), p.Clock.Now().Add(time.Hour)
	// The store sets these, whatever the caller passes.
	in.Accepted, in.Sequence, in.Proof, in.Credit, in.Settled, in.Closed = 5, 6, []byte("proof"), 7, 8, p.Clock.Now()
	got := dbtest.Value(p.Store.OpenChannel(p.Ctx, in, nil))
	p.Equal(got, want, "opened channel")
	p.Clock.Advance(100_000 * time.Hour) // permanently
	p.Purge()
	p.Reopen()
	got = dbtest.Value(p.Store.Channel(p.Ctx, "channel"))
	p.Equal(got, want, "channel")
	p.Is(dbtest.Error(p.Store.Channel(p.Ctx, "channe")), database.ErrNotFound, "unknown channel")
	other := in
	other.Sender, other.PaymentChannelID = "t", 5
	p.Is(dbtest.Error(p.Store.OpenChannel(p.Ctx, other, nil)), database.ErrExists, "second channel with that id")
}

func channelParties(p *probe) {
	n := 0
	open := func(sender, receiver, asset string, number int64) error {
		n++
		_, err := p.Store.OpenChannel(p.Ctx, ledger.Channel{
			ID: fmt.Sprint("channel", n), PaymentChannelID: number, Sender: sender, Receiver: receiver, Asset: asset,
			Expires: p.Clock.Now().Add(time.Hour),
		}, nil)
		return err
	}
	p.OK(open("s", "r", "a", 1), "first")
	p.Is(open("s", "r", "a", 1), database.ErrExists, "the same four")
	p.Is(open("", "r", "a", 1), database.ErrExists, "no sender after a sender")
	p.OK(open("t", "r", "a", 1), "another sender")
	p.OK(open("s", "q", "a", 1), "another receiver")
	p.OK(open("s", "r", "b", 1), "another asset")
	p.OK(open("s", "r", "a", 2), "another number")
	p.OK(open("", "r", "a", 3), "no sender")
	p.Is(open("", "r", "a", 3), database.ErrExists, "no sender twice")
	p.Is(open("s", "r", "a", 3), database.ErrExists, "a sender after none")
	p.OK(open("", "q", "a", 3), "no sender, another receiver")
	p.Clock.Advance(1000 * time.Hour)
	p.Is(open("s", "r", "a", 1), database.ErrExists, "the same four after the expiry")
}

func channelRacing(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		errs := dbtest.Race(8, func(i int) error {
			sender := ""
			if i%2 == 0 {
				sender = "s"
			}
			_, err := handles[i/4].OpenChannel(p.Ctx, ledger.Channel{
				ID: fmt.Sprint(round, "-", i), PaymentChannelID: int64(round), Sender: sender, Receiver: "r", Asset: "a", Owner: "x",
			}, nil)
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, database.ErrExists) {
				p.OK(err, "open")
			}
		}
		p.Must(won == 1, "%d of 8 racing opens of one channel succeeded", won)
		used := dbtest.Value(p.Store.Usage(p.Ctx, "x"))
		p.Must(used.Channels == int64(round)+1, "%d channels count after %d were opened", used.Channels, round+1)
	}
}

func channelFind(p *probe) {
	bound := p.Channel("bound", "s", 10)
	open := p.Channel("open", "", 10)
	for _, c := range []struct {
		sender string
		of     ledger.Channel
		found  bool
	}{{"s", bound, true}, {"t", bound, false}, {"", bound, false}, {"s", open, true}, {"t", open, true}} {
		got, err := p.Store.FindChannel(p.Ctx, c.sender, c.of.Receiver, c.of.Asset, c.of.PaymentChannelID)
		if c.found {
			p.OK(err, "find the %s channel for %q", c.of.ID, c.sender)
			p.Equal(got, c.of, "channel of %q", c.sender)
		} else {
			p.Is(err, ledger.ErrNoChannel, "find the %s channel for %q", c.of.ID, c.sender)
		}
	}
	p.Is(dbtest.Error(p.Store.FindChannel(p.Ctx, "s", "other", bound.Asset, bound.PaymentChannelID)), ledger.ErrNoChannel, "another receiver")
	p.Is(dbtest.Error(p.Store.FindChannel(p.Ctx, "s", bound.Receiver, "other", bound.PaymentChannelID)), ledger.ErrNoChannel, "another asset")
	p.Is(dbtest.Error(p.Store.FindChannel(p.Ctx, "s", bound.Receiver, bound.Asset, bound.PaymentChannelID+100)), ledger.ErrNoChannel, "another number")
}

func channelDeposit(p *probe) {
	want := p.Channel("channel", "s", 10)
	want.Deposit = 15
	first := dbtest.Value(p.Store.AddDeposit(p.Ctx, "channel", 5, dbtest.Idem("deposit", "k")))
	p.Equal(first, want, "channel after a deposit")
	want.Deposit = 1<<63 - 1
	p.Equal(dbtest.Value(p.Store.AddDeposit(p.Ctx, "channel", 1<<63-1-15, nil)), want, "channel after a deposit of the maximum")
	p.Equal(dbtest.Value(p.Store.AddDeposit(p.Ctx, "channel", 5, dbtest.Idem("deposit", "k"))), first, "replay")
	p.refused("channel", ledger.ErrAmountOverflow, "one more unit", func() error {
		return dbtest.Error(p.Store.AddDeposit(p.Ctx, "channel", 1, nil))
	})
	p.refused("channel", dbtest.ErrAny, "a negative deposit", func() error { return dbtest.Error(p.Store.AddDeposit(p.Ctx, "channel", -1, nil)) })
	p.Is(dbtest.Error(p.Store.AddDeposit(p.Ctx, "channe", 1, nil)), database.ErrNotFound, "deposit to an unknown channel")
	p.Reopen()
	p.Equal(p.getChannel("channel"), want, "channel after a reopen")

	p.Channel("expires", "s", 10)
	p.Channel("closed", "s", 10)
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "closed"))
	p.Clock.Advance(dbtest.ChannelLife)
	for id, want := range map[string]error{"expires": ledger.ErrChannelExpired, "closed": ledger.ErrChannelClosed} {
		p.refused(id, want, "deposit to a closed or expired channel", func() error { return dbtest.Error(p.Store.AddDeposit(p.Ctx, id, 1, nil)) })
	}
}

// channelRacingDeposits adds nearly half the maximum concurrently.
func channelRacingDeposits(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Channel("channel", "s", 1)
	const amount = (1<<63 - 2) / 2
	errs := dbtest.Race(8, func(i int) error { return dbtest.Error(handles[i%2].AddDeposit(p.Ctx, "channel", amount, nil)) })
	p.Won(errs, 2, ledger.ErrAmountOverflow)
	p.Must(p.getChannel("channel").Deposit == 1+2*amount, "the deposit is %d", p.getChannel("channel").Deposit)
}

func channelClose(p *probe) {
	want := p.Channel("channel", "s", 10)
	late := p.Channel("late", "s", 10)
	p.Clock.Advance(time.Minute)
	want.Closed = p.Clock.Now()
	for range 3 {
		got := dbtest.Value(p.Store.CloseChannel(p.Ctx, "channel"))
		p.Equal(got, want, "closed channel")
		p.Clock.Advance(time.Minute)
		p.Reopen()
	}
	p.Clock.Advance(dbtest.ChannelLife)
	got := p.getChannel("channel")
	p.Must(got.State(p.Clock.Now()) == ledger.ChannelClosed, "a closed channel became %s", got.State(p.Clock.Now()))
	p.Must(late.State(p.Clock.Now()) == ledger.ChannelExpired, "the other channel is %s", late.State(p.Clock.Now()))
	late.Closed = p.Clock.Now()
	got = dbtest.Value(p.Store.CloseChannel(p.Ctx, "late"))
	p.Equal(got, late, "closed after its expiry")
	p.Is(dbtest.Error(p.Store.CloseChannel(p.Ctx, "channe")), database.ErrNotFound, "close of an unknown channel")
}

func channelSessions(p *probe) {
	c, other := p.Channel("channel", "s", 1000), p.Channel("other", "s", 1000)
	p.Session("granted", 5)
	var want []ledger.Session
	for i := range int64(5) {
		want = append([]ledger.Session{p.buys(c, i, 10*(i+1), 1, fmt.Sprint("session", i))}, want...)
		p.buys(other, i, 10*(i+1), 1, fmt.Sprint("other", i))
		p.Clock.Advance(time.Second)
	}
	p.buysMore(other, 9, 60, 1, "session0")
	p.buysMore(c, 9, 60, 1, "granted")
	want[4].Total, want[4].Left = 20, 20
	list := func(limit int, want []ledger.Session) {
		p.Equal(dbtest.Value(p.Store.ChannelSessions(p.Ctx, "channel", limit)), want, "the newest %d sessions of a channel", limit)
	}
	list(100, want)
	list(5, want)
	list(2, want[:2])
	p.Clock.Advance(sessionLife + ledger.SessionRetention - 4*time.Second) // two of them are past their retention
	list(100, want[:3])
	p.Purge()
	list(100, want[:3])
	p.Audited()
}
