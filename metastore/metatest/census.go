package metatest

import (
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/metastore"
)

func censusChecks() []Check {
	return []Check{
		check("census/states", censusStates),
		check("census/amounts", censusAmounts),
		check("census/pages", censusPages),
	}
}

// counts ends the check unless this is the census.
func (p *probe) counts(want database.Census, after string) {
	got, err := p.store.Census(p.ctx)
	p.ok(err, "census")
	p.equal(got, want, "census after %s", after)
}

// censusStates counts sessions, channels, uploads and extents in all states.
func censusStates(p *probe) {
	var want database.Census
	p.counts(want, "nothing")

	p.begin("upload", "a", "uploaded")
	p.ok(p.store.PutPart(p.ctx, "upload", metastore.Part{Size: 7}, []metastore.Extent{p.extent(0, 0, 4), p.inline(0, 4, []byte("abc"))}), "part")
	p.begin("aborted", "a", "aborted")
	_, err := p.store.AbortUpload(p.ctx, "aborted")
	p.ok(err, "abort")
	p.put("a", "blob")
	p.put("a", "blob") // the first is garbage
	want.Uploads = 1
	want.Inline = database.ExtentCensus{Extents: 1, Bytes: 3}
	want.Objects = database.ExtentCensus{Extents: 3, Bytes: 204}
	p.counts(want, "writes")
	p.complete("upload")
	want.Uploads = 0
	p.counts(want, "a complete")

	p.session("active", 3)
	p.session("exhausted", 1)
	_, err = p.store.UseSession(p.ctx, "exhausted", 1, nil)
	p.ok(err, "use")
	want.Sessions = database.SessionCensus{Active: 1, Exhausted: 1}
	p.counts(want, "two sessions")
	p.clock.Advance(time.Hour)
	p.session("later", 1)
	want.Sessions = database.SessionCensus{Active: 1, Expired: 2}
	p.counts(want, "the expiry of two sessions")

	p.channel("open", "s", 10)
	closed := p.channel("closed", "s", 20)
	_, err = p.store.CloseChannel(p.ctx, closed.ID)
	p.ok(err, "close")
	want.Channels = database.ChannelCensus{Open: 1, Closed: 1, Deposited: 30}
	p.counts(want, "two channels")
	p.clock.Advance(channelLife)
	want.Channels.Open, want.Channels.Expired = 0, 1
	want.Sessions = database.SessionCensus{Expired: 3}
	p.counts(want, "the expiry of a channel")
	p.reopen()
	p.counts(want, "a reopen")
}

// censusAmounts adds up what was deposited, accepted and settled, beyond what an int64 holds.
func censusAmounts(p *probe) {
	c := p.channel("one", "s", 100)
	p.buys(c, 1, 35, 10, "session") // 3 chunksets, and 5 of credit
	p.ok(p.paysOut(c.ID, 1, 35), "pay out")
	p.reads(c, 2, 50, 10, 2) // of 20 that can be spent
	want := database.ChannelCensus{Open: 1, Deposited: 100, Accepted: 50, Settled: 35}
	amounts := func(after string) {
		got, err := p.store.Census(p.ctx)
		p.ok(err, "census")
		p.equal(got.Channels, want, "channels after %s", after)
	}
	amounts("payments")
	d := p.channel("two", "t", 100)
	p.buys(d, 1, 19, 10, "another")
	want.Open, want.Deposited, want.Accepted, want.Credit = 2, 200, 69, 9
	amounts("a payment with a credit")
	for i := range 3 {
		p.channel(fmt.Sprint("rich", i), fmt.Sprint("rich", i), math.MaxInt64)
		want.Open++
		want.Deposited.Add(math.MaxInt64)
	}
	p.must(want.Deposited == math.MaxUint64, "the sum is %d", want.Deposited)
	amounts("deposits of more than 2^64-1")
}

// censusPages counts more rows than an implementation reads at a time.
func censusPages(p *probe) {
	const contents, extentsOf, sessions = 4, 2_600, 40
	var want database.Census
	for i := range contents {
		var extents []metastore.Extent
		for k := range extentsOf {
			if k%2 == 0 {
				extents = append(extents, p.inline(0, int64(k), []byte("x")))
			} else {
				extents = append(extents, p.extent(0, int64(k), 1))
			}
		}
		_, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: fmt.Sprint(i), Content: p.content(), Size: extentsOf}, extents, nil)
		p.ok(err, "commit")
	}
	for i := range sessions {
		p.session(fmt.Sprint("session", i), 1)
	}
	const each = contents * extentsOf / 2
	want.Inline = database.ExtentCensus{Extents: each, Bytes: each}
	want.Objects = want.Inline
	want.Sessions.Active = sessions
	p.counts(want, "many extents")
}
