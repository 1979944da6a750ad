package dbtest

import (
	"fmt"
	"time"

	"sluice/database"
	"sluice/metastore"
)

var censusChecks = []Check{
	NewCheck("census/states", censusStates),
	NewCheck("census/pages", censusPages),
}

// counts ends the check unless this is the census.
func (p *Probe) counts(want database.Census, after string) {
	p.Equal(Value(p.Store.Census(p.Ctx)), want, "census after %s", after)
}

// censusStates counts sessions, channels, uploads and extents in all states.
func censusStates(p *Probe) {
	var want database.Census
	p.counts(want, "nothing")

	p.Begin("upload", "a", "uploaded")
	p.OK(p.Store.PutPart(p.Ctx, "upload", metastore.Part{Size: 7}, []metastore.Extent{p.Extent(0, 0, 4), p.Inline(0, 4, []byte("abc"))}), "part")
	p.Begin("aborted", "a", "aborted")
	Value(p.Store.AbortUpload(p.Ctx, "aborted"))
	p.Put("a", "blob")
	p.Put("a", "blob") // the first is garbage
	want.Uploads = 1
	want.Inline = database.ExtentCensus{Extents: 1, Bytes: 3}
	want.Objects = database.ExtentCensus{Extents: 3, Bytes: 204}
	p.counts(want, "writes")
	p.Complete("upload")
	want.Uploads = 0
	p.counts(want, "a complete")

	p.Session("active", 3)
	p.Session("exhausted", 1)
	Value(p.Store.UseSession(p.Ctx, "exhausted", 1, nil))
	want.Sessions = database.SessionCensus{Active: 1, Exhausted: 1}
	p.counts(want, "two sessions")
	p.Clock.Advance(time.Hour)
	p.Session("later", 1)
	want.Sessions = database.SessionCensus{Active: 1, Expired: 2}
	p.counts(want, "the expiry of two sessions")

	p.Channel("open", "s", 10)
	closed := p.Channel("closed", "s", 20)
	Value(p.Store.CloseChannel(p.Ctx, closed.ID))
	want.Channels = database.ChannelCensus{Open: 1, Closed: 1, Deposited: 30}
	p.counts(want, "two channels")
	p.Clock.Advance(ChannelLife)
	want.Channels.Open, want.Channels.Expired = 0, 1
	want.Sessions = database.SessionCensus{Expired: 3}
	p.counts(want, "the expiry of a channel")
	p.Reopen()
	p.counts(want, "a reopen")
}

// censusPages counts more rows than an implementation reads at a time.
func censusPages(p *Probe) {
	const contents, extentsOf, sessions = 4, 2_600, 40
	var want database.Census
	for i := range contents {
		var extents []metastore.Extent
		for k := range extentsOf {
			if k%2 == 0 {
				extents = append(extents, p.Inline(0, int64(k), []byte("x")))
			} else {
				extents = append(extents, p.Extent(0, int64(k), 1))
			}
		}
		Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: fmt.Sprint(i), Content: p.Content(), Size: extentsOf}, extents, nil))
	}
	for i := range sessions {
		p.Session(fmt.Sprint("session", i), 1)
	}
	const each = contents * extentsOf / 2
	want.Inline = database.ExtentCensus{Extents: each, Bytes: each}
	want.Objects = want.Inline
	want.Sessions.Active = sessions
	p.counts(want, "many extents")
}
