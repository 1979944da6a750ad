package metatest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/ledger"
)

func inspectionChecks() []Check {
	return []Check{
		check("inspection/sessions", inspectSessions),
		check("inspection/channels", inspectChannels),
		check("inspection/ledger", inspectLedger),
	}
}

// listedSessions returns the ids of all sessions, read in pages of limit.
func (p *probe) listedSessions(limit int) []string {
	var ids []string
	for after := ""; ; {
		page, more, err := p.store.ListSessions(p.ctx, after, limit, 0)
		p.ok(err, "list sessions after %q", after)
		p.must(len(page) <= limit, "%d sessions in a page of %d", len(page), limit)
		for _, s := range page {
			stored, err := p.store.Session(p.ctx, s.ID)
			p.ok(err, "session %s", s.ID)
			p.equal(s, stored, "listed session")
			p.must(!slices.Contains(ids, s.ID), "session %s is listed twice", s.ID)
			ids = append(ids, s.ID)
		}
		if !more {
			return ids
		}
		p.must(len(page) == limit, "%d sessions in a page of %d before the last", len(page), limit)
		after = page[len(page)-1].ID
	}
}

func inspectSessions(p *probe) {
	list := func(want ...string) {
		for _, limit := range []int{1, 2, 100} {
			p.equal(p.listedSessions(limit), want, "sessions by %d", limit)
		}
	}
	list()
	for i, hours := range []int{2, 1, 3, 2} {
		_, err := p.store.CreateSession(p.ctx, ledger.Session{
			ID: fmt.Sprintf("s%d", i), UserIdentity: "user", Total: 9, Left: 9, Expires: p.clock.Now().Add(time.Duration(hours) * time.Hour),
		}, nil)
		p.ok(err, "create session")
	}
	list("s2", "s3", "s0", "s1")
	charge := int64(database.EntryCharge + len("user"))
	for bytes, want := range map[int64]int{1: 1, 2*charge - 1: 1, 2 * charge: 2, 4*charge - 1: 3, 4 * charge: 4} {
		page, more, err := p.store.ListSessions(p.ctx, "", 100, bytes)
		p.ok(err, "list sessions")
		p.must(len(page) == want && more == (want < 4), "%d sessions in %d bytes, want %d; more is %v", len(page), bytes, want, more)
	}
	_, err := p.store.UseSession(p.ctx, "s3", 4, nil)
	p.ok(err, "use")
	p.clock.Advance(90 * time.Minute)
	p.reopen()
	list("s2", "s3", "s0", "s1") // s1 has expired and is retained
	p.clock.Advance(ledger.SessionRetention)
	list("s2", "s3", "s0")
	for _, unknown := range []string{"s1", "s9"} {
		_, _, err = p.store.ListSessions(p.ctx, unknown, 10, 0)
		p.is(err, database.ErrNotFound, "sessions after %s", unknown)
	}
}

func inspectChannels(p *probe) {
	var want []ledger.Channel
	for _, id := range []string{"b", "a", "c"} {
		p.channel(id, "sender"+id, 100)
	}
	_, err := p.store.CloseChannel(p.ctx, "c")
	p.ok(err, "close")
	p.reads(p.getChannel("a"), 1, 10, 2, 3)
	for _, id := range []string{"a", "b", "c"} {
		want = append(want, p.getChannel(id))
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var got []ledger.Channel
		for after := ""; ; {
			page, err := p.store.ListChannels(p.ctx, after, limit)
			p.ok(err, "list channels")
			p.must(len(page) <= limit, "%d channels in a page of %d", len(page), limit)
			p.must(len(page) == 0 || page[0].ID > after, "a channel up to %s is listed after it", after)
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			after = page[len(page)-1].ID
		}
		p.equal(got, want, "channels by %d", limit)
	}
}

// sales returns all sales of a channel, read in pages of limit.
func (p *probe) sales(channel string, limit int) []ledger.Sale {
	var all []ledger.Sale
	for before := ""; ; {
		page, err := p.store.Sales(p.ctx, channel, before, limit)
		p.ok(err, "sales before %q", before)
		p.must(len(page) <= limit, "%d sales in a page of %d", len(page), limit)
		p.must(len(all)+len(page) <= 100, "more sales than were made")
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		before = page[len(page)-1].ID
	}
}

func inspectLedger(p *probe) {
	c := p.lasting("channel")
	p.reads(p.lasting("other"), 1, 50, 1, 50)
	statement := func() ledger.Statement {
		l, err := p.store.Statement(p.ctx, c.ID)
		p.ok(err, "ledger")
		p.equal(l.Channel, p.getChannel(c.ID), "channel of the ledger")
		return l
	}
	empty := statement()
	p.must(empty.Pending == nil && empty.Booked == nil && empty.Folded == 0, "the ledger of a new channel is %+v", empty)
	p.equal(len(p.sales(c.ID, 10)), 0, "sales of a new channel")

	start := p.clock.Now()
	p.buys(c, 1, 10, 5, "session")
	p.clock.Advance(time.Second)
	p.reads(c, 2, 16, 3, 2)
	p.clock.Advance(time.Second)
	_, err := p.store.ReturnCredit(p.ctx, c.ID, 1, 3, "request")
	p.ok(err, "return")
	want := []ledger.Sale{
		{Count: -1, Price: 3, Time: start.Add(2 * time.Second)},
		{Payment: true, Sequence: 2, Count: 2, Price: 3, Time: start.Add(time.Second)},
		{Payment: true, Sequence: 1, Session: "session", Count: 2, Price: 5, Time: start},
	}
	for _, limit := range []int{1, 2, 3, 100} {
		got := p.sales(c.ID, limit)
		p.must(slices.IsSortedFunc(got, func(a, b ledger.Sale) int { return strings.Compare(b.ID, a.ID) }), "sales out of order: %+v", got)
		for i := range got {
			got[i].ID = ""
		}
		p.equal(got, want, "sales by %d", limit)
	}
	pending := statement().Pending
	p.must(pending != nil && pending.Sequence == 2 && pending.Amount == 16, "the pending settlement is %+v", pending)

	p.clock.Advance(time.Second)
	p.ok(p.store.Book(p.ctx, []ledger.Settlement{*pending}), "pay out")
	p.reopen()
	l := statement()
	p.must(l.Pending == nil, "a collected settlement is pending: %+v", l.Pending)
	p.must(l.Booked != nil && l.Booked.Sequence == 2 && l.Booked.Amount == 16, "the payout is %+v", l.Booked)
	p.equal(l.BookedAt, start.Add(3*time.Second), "time of the payout")

	p.clock.Advance(ledger.SaleRetention + time.Second)
	_, err = p.store.Purge(p.ctx, 1000)
	p.ok(err, "purge")
	var retained int64
	for _, s := range p.sales(c.ID, 100) {
		retained += s.Count * s.Price
	}
	p.equal(statement().Folded+retained, int64(13), "sum of all sales")

	_, err = p.store.Statement(p.ctx, "unknown")
	p.is(err, database.ErrNotFound, "ledger of an unknown channel")
	_, err = p.store.Sales(p.ctx, c.ID, "no id", 1)
	p.is(err, database.ErrNotFound, "sales before a malformed id")
}
