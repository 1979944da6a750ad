package dbtest

import (
	"time"

	"sluice/metastore"
)

func clockChecks() []Check {
	return []Check{NewCheck("clock/one-time", clockOneTime)}
}

// clockOneTime checks that Now is the time that the store records, and with which it decides about
// expiry.
func clockOneTime(p *Probe) {
	for range 3 {
		now := p.Store.Now()
		p.Must(now.Equal(p.Clock.Now()), "the store's time is %v, want %v", now, p.Clock.Now())
		p.OK(p.Store.ClockErr(), "the clock")
		p.OK(p.Store.DeletionErr(), "deletions")
		p.OK(p.Store.KeepTime(p.Ctx), "the time to keep")
		p.OK(p.Open().DeletionErr(), "deletions by a store that is opened when the time was kept")
		b := Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
			Account: "a", Name: "n", Content: metastore.NewContentID(now), Expires: now.Add(time.Microsecond),
		}, nil, nil))
		p.Must(b.Modified.Equal(now), "a blob modified at %v is dated %v", now, b.Modified)
		p.Clock.Advance(time.Hour)
	}
}
