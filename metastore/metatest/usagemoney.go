package metatest

import (
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
	"sluice/metastore"
)

// usageChannels counts the opened channels, once and permanently.
func usageChannels(p *probe) {
	const owner = "x\x00\xff"
	uses := func(owner string, channels int64, format string, a ...any) {
		got, err := p.Store.Usage(p.Ctx, owner)
		p.OK(err, "usage of %q", owner)
		p.Equal(got, metastore.Used{Channels: channels}, "usage of %q after %s", owner, fmt.Sprintf(format, a...))
	}
	open := func(id, owner string, number int64, idem *database.Idempotency) (ledger.Channel, error) {
		return p.Store.OpenChannel(p.Ctx, ledger.Channel{
			ID: id, PaymentChannelID: number, Sender: "s", Receiver: "r", Asset: "a", Deposit: 10, Owner: owner, Expires: p.Clock.Now().Add(time.Hour),
		}, idem)
	}
	uses(owner, 0, "nothing")
	first := dbtest.Value(open("first", owner, 1, nil))
	p.Must(first.Owner == owner, "the channel belongs to %q", first.Owner)
	uses(owner, 1, "an open")
	_, err := open("same parties", owner, 1, nil)
	p.Is(err, database.ErrExists, "a second channel of the same parties")
	p.Is(dbtest.Error(open("first", owner, 2, nil)), database.ErrExists, "a second channel with that id")
	uses(owner, 1, "refusals")
	second := dbtest.Value(open("second", "y", 2, dbtest.Idem("s", "k")))
	again := dbtest.Value(open("again", "y", 3, dbtest.Idem("s", "k")))
	p.Equal(again, second, "replay")
	uses("y", 1, "an open and its replay")
	dbtest.Value(open("ownerless", "", 4, nil))
	uses("", 0, "an open without an owner")
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "first"))
	p.Purge()
	dbtest.Value(open("third", owner, 5, nil))
	uses(owner, 2, "an open after a purge")
	p.Clock.Advance(100_000 * time.Hour) // permanently
	p.Purge()
	p.Reopen()
	uses(owner, 2, "everything")
	uses("y", 1, "everything")
	for id, want := range map[string]string{"first": owner, "second": "y", "ownerless": ""} {
		c, err := p.Store.Channel(p.Ctx, id)
		p.OK(err, "channel %s", id)
		p.Must(c.Owner == want, "the channel %s belongs to %q, want %q", id, c.Owner, want)
	}
}

// usageOfRecords checks the usage of recorded requests.
func usageOfRecords(p *probe) {
	const row = metastore.RowCharge
	record := func(key, owner string) {
		i := dbtest.Idem("scope", key)
		i.Owner = owner
		dbtest.Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
			ID: "channel " + key, PaymentChannelID: int64(key[0]), Receiver: "r", Asset: "a", Expires: p.Clock.Now().Add(time.Hour),
		}, i))
		dbtest.Value(p.Store.AddDeposit(p.Ctx, "channel "+key, 1, &database.Idempotency{Scope: "deposit", Key: key, Owner: owner}))
	}
	for range 3 { // once, and two repeats
		record("k", "x")
	}
	p.retains("x", 2*row, "two requests")
	record("l", "")
	p.retains("", 0, "requests without an owner")
	p.Is(dbtest.Error(p.Store.AddDeposit(p.Ctx, "unknown", 1, &database.Idempotency{Scope: "deposit", Key: "refused", Owner: "x"})), database.ErrNotFound, "deposit")
	dbtest.Value(p.Store.AddDeposit(p.Ctx, "channel k", 1, nil))
	p.retains("x", 2*row, "requests that are not recorded")
	p.Clock.Advance(database.IdempotencyRetention)
	session := ledger.Session{ID: "session", Total: 5, Left: 5, Expires: p.Clock.Now().Add(100 * 24 * time.Hour)}
	dbtest.Value(p.Store.CreateSession(p.Ctx, session, nil))
	for _, owner := range []string{"x", "x", "y"} { // the record expires, and is replaced before it is purged
		dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, &database.Idempotency{Scope: "use", Key: "k", Owner: owner}))
		p.Clock.Advance(database.IdempotencyRetention)
	}
	p.retains("x", 2*row, "replacing the record of another owner")
	p.retains("y", row, "a use that is recorded")
	p.Purge()
	p.retains("x", 0, "purging the records")
	p.retains("y", 0, "purging the records")
}
