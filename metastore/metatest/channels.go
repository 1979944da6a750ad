package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func channelChecks() []Check {
	return []Check{
		check("channels/open", channelOpen),
		check("channels/parties", channelParties),
		check("channels/racing", channelRacing),
		check("channels/find", channelFind),
		check("channels/deposit", channelDeposit),
		check("channels/racing-deposits", channelRacingDeposits),
		check("channels/close", channelClose),
		check("channels/sessions", channelSessions),
	}
}

func channelOpen(p *probe) {
	in := ledger.Channel{
		ID: "channel", PaymentChannelID: 1<<63 - 1, Sender: "s\x00", Receiver: "r", Asset: "a\xff", Deposit: 1<<63 - 1, Owner: "o\x00",
		Created: p.clock.Now().Add(time.Hour), Expires: p.clock.Now().Add(time.Hour + time.Nanosecond),
	}
	want := in
	want.Created, want.Expires = p.clock.Now(), p.clock.Now().Add(time.Hour)
	// The store sets these, whatever the caller passes.
	in.Accepted, in.Sequence, in.Proof, in.Credit, in.Settled, in.Closed = 5, 6, []byte("proof"), 7, 8, p.clock.Now()
	got, err := p.store.OpenChannel(p.ctx, in, nil)
	p.ok(err, "open")
	p.equal(got, want, "opened channel")
	p.clock.Advance(100_000 * time.Hour) // permanently
	p.purge()
	p.reopen()
	got, err = p.store.Channel(p.ctx, "channel")
	p.ok(err, "channel")
	p.equal(got, want, "channel")
	_, err = p.store.Channel(p.ctx, "channe")
	p.is(err, database.ErrNotFound, "unknown channel")
	other := in
	other.Sender, other.PaymentChannelID = "t", 5
	_, err = p.store.OpenChannel(p.ctx, other, nil)
	p.is(err, database.ErrExists, "second channel with that id")
}

func channelParties(p *probe) {
	n := 0
	open := func(sender, receiver, asset string, number int64) error {
		n++
		_, err := p.store.OpenChannel(p.ctx, ledger.Channel{
			ID: fmt.Sprint("channel", n), PaymentChannelID: number, Sender: sender, Receiver: receiver, Asset: asset,
			Expires: p.clock.Now().Add(time.Hour),
		}, nil)
		return err
	}
	p.ok(open("s", "r", "a", 1), "first")
	p.is(open("s", "r", "a", 1), database.ErrExists, "the same four")
	p.is(open("", "r", "a", 1), database.ErrExists, "no sender after a sender")
	p.ok(open("t", "r", "a", 1), "another sender")
	p.ok(open("s", "q", "a", 1), "another receiver")
	p.ok(open("s", "r", "b", 1), "another asset")
	p.ok(open("s", "r", "a", 2), "another number")
	p.ok(open("", "r", "a", 3), "no sender")
	p.is(open("", "r", "a", 3), database.ErrExists, "no sender twice")
	p.is(open("s", "r", "a", 3), database.ErrExists, "a sender after none")
	p.ok(open("", "q", "a", 3), "no sender, another receiver")
	p.clock.Advance(1000 * time.Hour)
	p.is(open("s", "r", "a", 1), database.ErrExists, "the same four after the expiry")
}

func channelRacing(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	for round := range 10 {
		errs := race(8, func(i int) error {
			sender := ""
			if i%2 == 0 {
				sender = "s"
			}
			_, err := handles[i/4].OpenChannel(p.ctx, ledger.Channel{
				ID: fmt.Sprint(round, "-", i), PaymentChannelID: int64(round), Sender: sender, Receiver: "r", Asset: "a", Owner: "x",
			}, nil)
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, database.ErrExists) {
				p.ok(err, "open")
			}
		}
		p.must(won == 1, "%d of 8 racing opens of one channel succeeded", won)
		used, err := p.store.Usage(p.ctx, "x")
		p.ok(err, "usage")
		p.must(used.Channels == int64(round)+1, "%d channels count after %d were opened", used.Channels, round+1)
	}
}

func channelFind(p *probe) {
	bound := p.channel("bound", "s", 10)
	open := p.channel("open", "", 10)
	for _, c := range []struct {
		sender string
		of     ledger.Channel
		found  bool
	}{{"s", bound, true}, {"t", bound, false}, {"", bound, false}, {"s", open, true}, {"t", open, true}} {
		got, err := p.store.FindChannel(p.ctx, c.sender, c.of.Receiver, c.of.Asset, c.of.PaymentChannelID)
		if c.found {
			p.ok(err, "find the %s channel for %q", c.of.ID, c.sender)
			p.equal(got, c.of, "channel of %q", c.sender)
		} else {
			p.is(err, ledger.ErrNoChannel, "find the %s channel for %q", c.of.ID, c.sender)
		}
	}
	_, err := p.store.FindChannel(p.ctx, "s", "other", bound.Asset, bound.PaymentChannelID)
	p.is(err, ledger.ErrNoChannel, "another receiver")
	_, err = p.store.FindChannel(p.ctx, "s", bound.Receiver, "other", bound.PaymentChannelID)
	p.is(err, ledger.ErrNoChannel, "another asset")
	_, err = p.store.FindChannel(p.ctx, "s", bound.Receiver, bound.Asset, bound.PaymentChannelID+100)
	p.is(err, ledger.ErrNoChannel, "another number")
}

func channelDeposit(p *probe) {
	want := p.channel("channel", "s", 10)
	want.Deposit = 15
	first, err := p.store.AddDeposit(p.ctx, "channel", 5, idem("deposit", "k"))
	p.ok(err, "deposit")
	p.equal(first, want, "channel after a deposit")
	want.Deposit = 1<<63 - 1
	got, err := p.store.AddDeposit(p.ctx, "channel", 1<<63-1-15, nil)
	p.ok(err, "deposit of the maximum")
	p.equal(got, want, "channel after a deposit of the maximum")
	again, err := p.store.AddDeposit(p.ctx, "channel", 5, idem("deposit", "k"))
	p.ok(err, "replay")
	p.equal(again, first, "replay")
	p.refused("channel", ledger.ErrAmountOverflow, "one more unit", func() error {
		_, err := p.store.AddDeposit(p.ctx, "channel", 1, nil)
		return err
	})
	p.refused("channel", errAny, "a negative deposit", func() error {
		_, err := p.store.AddDeposit(p.ctx, "channel", -1, nil)
		return err
	})
	_, err = p.store.AddDeposit(p.ctx, "channe", 1, nil)
	p.is(err, database.ErrNotFound, "deposit to an unknown channel")
	p.reopen()
	p.equal(p.getChannel("channel"), want, "channel after a reopen")

	p.channel("expires", "s", 10)
	p.channel("closed", "s", 10)
	_, err = p.store.CloseChannel(p.ctx, "closed")
	p.ok(err, "close")
	p.clock.Advance(channelLife)
	for id, want := range map[string]error{"expires": ledger.ErrChannelExpired, "closed": ledger.ErrChannelClosed} {
		p.refused(id, want, "deposit to a closed or expired channel", func() error {
			_, err := p.store.AddDeposit(p.ctx, id, 1, nil)
			return err
		})
	}
}

// channelRacingDeposits adds nearly half of the maximum concurrently.
func channelRacingDeposits(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	p.channel("channel", "s", 1)
	const amount = (1<<63 - 2) / 2
	errs := race(8, func(i int) error {
		_, err := handles[i%2].AddDeposit(p.ctx, "channel", amount, nil)
		return err
	})
	p.won(errs, 2, ledger.ErrAmountOverflow)
	p.must(p.getChannel("channel").Deposit == 1+2*amount, "the deposit is %d", p.getChannel("channel").Deposit)
}

func channelClose(p *probe) {
	want := p.channel("channel", "s", 10)
	late := p.channel("late", "s", 10)
	p.clock.Advance(time.Minute)
	want.Closed = p.clock.Now()
	for range 3 {
		got, err := p.store.CloseChannel(p.ctx, "channel")
		p.ok(err, "close")
		p.equal(got, want, "closed channel")
		p.clock.Advance(time.Minute)
		p.reopen()
	}
	p.clock.Advance(channelLife)
	got := p.getChannel("channel")
	p.must(got.State(p.clock.Now()) == ledger.ChannelClosed, "a closed channel became %s", got.State(p.clock.Now()))
	p.must(late.State(p.clock.Now()) == ledger.ChannelExpired, "the other channel is %s", late.State(p.clock.Now()))
	late.Closed = p.clock.Now()
	got, err := p.store.CloseChannel(p.ctx, "late")
	p.ok(err, "close of an expired channel")
	p.equal(got, late, "closed after its expiry")
	_, err = p.store.CloseChannel(p.ctx, "channe")
	p.is(err, database.ErrNotFound, "close of an unknown channel")
}

func channelSessions(p *probe) {
	c, other := p.channel("channel", "s", 1000), p.channel("other", "s", 1000)
	p.session("granted", 5)
	var want []ledger.Session
	for i := range int64(5) {
		want = append([]ledger.Session{p.buys(c, i, 10*(i+1), 1, fmt.Sprint("session", i))}, want...)
		p.buys(other, i, 10*(i+1), 1, fmt.Sprint("other", i))
		p.clock.Advance(time.Second)
	}
	p.buysMore(other, 9, 60, 1, "session0")
	p.buysMore(c, 9, 60, 1, "granted")
	want[4].Total, want[4].Left = 20, 20
	list := func(limit int, want []ledger.Session) {
		got, err := p.store.ChannelSessions(p.ctx, "channel", limit)
		p.ok(err, "sessions")
		p.equal(got, want, "the newest %d sessions of a channel", limit)
	}
	list(100, want)
	list(5, want)
	list(2, want[:2])
	p.clock.Advance(sessionLife + ledger.SessionRetention - 4*time.Second) // two of them are past their retention
	list(100, want[:3])
	p.purge()
	list(100, want[:3])
	p.audited()
}
