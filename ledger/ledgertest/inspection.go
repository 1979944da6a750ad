package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

var inspectionChecks = []dbtest.Check{
	check("inspection/sessions", inspectSessions),
	check("inspection/channels", inspectChannels),
	check("inspection/ledger", inspectLedger),
}

// listedSessions returns the ids of all sessions, read in pages of limit.
func (p *probe) listedSessions(limit int) []string {
	var ids []string
	for after := ""; ; {
		page, more, err := p.Store.ListSessions(p.Ctx, after, limit, 0)
		p.OK(err, "list sessions after %q", after)
		p.Must(len(page) <= limit, "%d sessions in a page of %d", len(page), limit)
		for _, s := range page {
			stored, err := p.Store.Session(p.Ctx, s.ID)
			p.OK(err, "session %s", s.ID)
			p.Equal(s, stored, "listed session")
			p.Must(!slices.Contains(ids, s.ID), "session %s is listed twice", s.ID)
			ids = append(ids, s.ID)
		}
		if !more {
			return ids
		}
		p.Must(len(page) == limit, "%d sessions in a page of %d before the last", len(page), limit)
		after = page[len(page)-1].ID
	}
}

func inspectSessions(p *probe) {
	list := func(want ...string) {
		for _, limit := range []int{1, 2, 100} {
			p.Equal(p.listedSessions(limit), want, "sessions by %d", limit)
		}
	}
	list()
	for i, hours := range []int{2, 1, 3, 2} {
		dbtest.Value(p.Store.CreateSession(p.Ctx, ledger.Session{
			ID: fmt.Sprintf("s%d", i), UserIdentity: "user", Total: 9, Left: 9, Expires: p.Clock.Now().Add(time.Duration(hours) * time.Hour),
		}, nil))
	}
	list("s2", "s3", "s0", "s1")
	charge := int64(database.EntryCharge + len("user"))
	for bytes, want := range map[int64]int{1: 1, 2*charge - 1: 1, 2 * charge: 2, 4*charge - 1: 3, 4 * charge: 4} {
		page, more, err := p.Store.ListSessions(p.Ctx, "", 100, bytes)
		p.OK(err, "list sessions")
		p.Must(len(page) == want && more == (want < 4), "%d sessions in %d bytes, want %d; more is %v", len(page), bytes, want, more)
	}
	dbtest.Value(p.Store.UseSession(p.Ctx, "s3", 4, nil))
	p.Clock.Advance(90 * time.Minute)
	p.Reopen()
	list("s2", "s3", "s0", "s1") // s1 has expired and is retained
	p.Clock.Advance(ledger.SessionRetention)
	list("s2", "s3", "s0")
	for _, unknown := range []string{"s1", "s9"} {
		_, _, err := p.Store.ListSessions(p.Ctx, unknown, 10, 0)
		p.Is(err, database.ErrNotFound, "sessions after %s", unknown)
	}
}

func inspectChannels(p *probe) {
	var want []ledger.Channel
	for _, id := range []string{"b", "a", "c"} {
		p.Channel(id, "sender"+id, 100)
	}
	dbtest.Value(p.Store.CloseChannel(p.Ctx, "c"))
	p.reads(p.getChannel("a"), 1, 10, 2, 3)
	for _, id := range []string{"a", "b", "c"} {
		want = append(want, p.getChannel(id))
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var got []ledger.Channel
		for after := ""; ; {
			page := dbtest.Value(p.Store.ListChannels(p.Ctx, after, limit))
			p.Must(len(page) <= limit, "%d channels in a page of %d", len(page), limit)
			p.Must(len(page) == 0 || page[0].ID > after, "a channel up to %s is listed after it", after)
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			after = page[len(page)-1].ID
		}
		p.Equal(got, want, "channels by %d", limit)
	}
}

// sales returns a channel's sales, read in pages of limit.
func (p *probe) sales(channel string, limit int) []ledger.Sale {
	var all []ledger.Sale
	for before := ""; ; {
		page, err := p.Store.Sales(p.Ctx, channel, before, limit)
		p.OK(err, "sales before %q", before)
		p.Must(len(page) <= limit, "%d sales in a page of %d", len(page), limit)
		p.Must(len(all)+len(page) <= 100, "more sales than were made")
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
		l := dbtest.Value(p.Store.Statement(p.Ctx, c.ID))
		p.Equal(l.Channel, p.getChannel(c.ID), "channel of the statement")
		return l
	}
	empty := statement()
	p.Must(empty.Pending == nil && empty.Booked == nil && empty.Folded == 0, "the statement of a new channel is %+v", empty)
	p.Equal(len(p.sales(c.ID, 10)), 0, "sales of a new channel")

	start := p.Clock.Now()
	p.buys(c, 1, 10, 5, "session")
	p.Clock.Advance(time.Second)
	p.reads(c, 2, 16, 3, 2)
	p.Clock.Advance(time.Second)
	dbtest.Value(p.Store.ReturnCredit(p.Ctx, c.ID, 1, 3, "request"))
	want := []ledger.Sale{
		{Count: -1, Price: 3, Time: start.Add(2 * time.Second)},
		{Payment: true, Sequence: 2, Count: 2, Price: 3, Time: start.Add(time.Second)},
		{Payment: true, Sequence: 1, Session: "session", Count: 2, Price: 5, Time: start},
	}
	for _, limit := range []int{1, 2, 3, 100} {
		got := p.sales(c.ID, limit)
		p.Must(slices.IsSortedFunc(got, func(a, b ledger.Sale) int { return strings.Compare(b.ID, a.ID) }), "sales out of order: %+v", got)
		for i := range got {
			got[i].ID = ""
		}
		p.Equal(got, want, "sales by %d", limit)
	}
	pending := statement().Pending
	p.Must(pending != nil && pending.Sequence == 2 && pending.Amount == 16, "the pending settlement is %+v", pending)

	p.Clock.Advance(time.Second)
	p.OK(p.Store.Book(p.Ctx, []ledger.Settlement{*pending}), "book")
	p.Reopen()
	l := statement()
	p.Must(l.Pending == nil, "a collected settlement is pending: %+v", l.Pending)
	p.Must(l.Booked != nil && l.Booked.Sequence == 2 && l.Booked.Amount == 16, "the booked settlement is %+v", l.Booked)
	p.Equal(l.BookedAt, start.Add(3*time.Second), "time of the booking")

	p.Clock.Advance(ledger.SaleRetention + time.Second)
	dbtest.Value(p.Store.Purge(p.Ctx, 1000))
	var retained int64
	for _, s := range p.sales(c.ID, 100) {
		retained += s.Count * s.Price
	}
	p.Equal(statement().Folded+retained, int64(13), "sum of all sales")

	p.Is(dbtest.Error(p.Store.Statement(p.Ctx, "unknown")), database.ErrNotFound, "statement of an unknown channel")
	p.Is(dbtest.Error(p.Store.Sales(p.Ctx, c.ID, "no id", 1)), database.ErrNotFound, "sales before a malformed id")
}
