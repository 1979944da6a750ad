package metatest

import (
	"errors"
	"fmt"
	"time"

	"sluice/metastore"
)

func channelChecks() []Check {
	return []Check{
		check("channels/open", channelOpen),
		check("channels/parties", channelParties),
		check("channels/racing", channelRacing),
	}
}

func channelOpen(p *probe) {
	in := metastore.Channel{
		ID: "channel", PaymentChannelID: 1<<63 - 1, Sender: "s\x00", Receiver: "r", Asset: "a\xff", Deposit: 1<<63 - 1,
		Created: p.clock.Now().Add(time.Hour), Expires: p.clock.Now().Add(time.Hour + time.Nanosecond),
	}
	want := in
	want.Created, want.Expires = p.clock.Now(), p.clock.Now().Add(time.Hour)
	got, err := p.store.OpenChannel(p.ctx, in, nil)
	p.ok(err, "open")
	p.equal(got, want, "opened channel")
	p.clock.Advance(100_000 * time.Hour) // for ever
	p.purge()
	p.reopen()
	got, err = p.store.Channel(p.ctx, "channel")
	p.ok(err, "channel")
	p.equal(got, want, "channel")
	_, err = p.store.Channel(p.ctx, "channe")
	p.is(err, metastore.ErrNotFound, "unknown channel")
	other := in
	other.Sender, other.PaymentChannelID = "t", 5
	_, err = p.store.OpenChannel(p.ctx, other, nil)
	p.is(err, metastore.ErrExists, "second channel of that id")
}

func channelParties(p *probe) {
	n := 0
	open := func(sender, receiver, asset string, number int64) error {
		n++
		_, err := p.store.OpenChannel(p.ctx, metastore.Channel{
			ID: fmt.Sprint("channel", n), PaymentChannelID: number, Sender: sender, Receiver: receiver, Asset: asset,
			Expires: p.clock.Now().Add(time.Hour),
		}, nil)
		return err
	}
	p.ok(open("s", "r", "a", 1), "first")
	p.is(open("s", "r", "a", 1), metastore.ErrExists, "the same four")
	p.is(open("", "r", "a", 1), metastore.ErrExists, "no sender beside a sender")
	p.ok(open("t", "r", "a", 1), "another sender")
	p.ok(open("s", "q", "a", 1), "another receiver")
	p.ok(open("s", "r", "b", 1), "another asset")
	p.ok(open("s", "r", "a", 2), "another number")
	p.ok(open("", "r", "a", 3), "no sender")
	p.is(open("", "r", "a", 3), metastore.ErrExists, "no sender twice")
	p.is(open("s", "r", "a", 3), metastore.ErrExists, "a sender beside none")
	p.ok(open("", "q", "a", 3), "no sender, another receiver")
	p.clock.Advance(1000 * time.Hour)
	p.is(open("s", "r", "a", 1), metastore.ErrExists, "the same four after the expiry")
}

func channelRacing(p *probe) {
	handles := []metastore.Store{p.store, p.open()}
	for round := range 10 {
		errs := race(8, func(i int) error {
			sender := ""
			if i%2 == 0 {
				sender = "s"
			}
			_, err := handles[i/4].OpenChannel(p.ctx, metastore.Channel{
				ID: fmt.Sprint(round, "-", i), PaymentChannelID: int64(round), Sender: sender, Receiver: "r", Asset: "a",
			}, nil)
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, metastore.ErrExists) {
				p.ok(err, "open")
			}
		}
		p.must(won == 1, "%d of 8 racing opens of one channel succeeded", won)
	}
}
