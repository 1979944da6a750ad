package metatest

import (
	"time"

	"sluice/metastore"
)

func clockChecks() []Check {
	return []Check{check("clock/one-time", clockOneTime)}
}

// clockOneTime checks that Now is the time that the store records, and with which it decides about
// expiry.
func clockOneTime(p *probe) {
	for range 3 {
		now := p.store.Now()
		p.must(now.Equal(p.clock.Now()), "the store's time is %v, want %v", now, p.clock.Now())
		p.ok(p.store.ClockErr(), "the clock")
		p.ok(p.store.DeletionErr(), "deletions")
		b, err := p.store.CommitBlob(p.ctx, metastore.Blob{
			Account: "a", Name: "n", Content: metastore.NewContentID(now), Expires: now.Add(time.Microsecond),
		}, nil, nil)
		p.ok(err, "commit")
		p.must(b.Modified.Equal(now), "a blob modified at %v is dated %v", now, b.Modified)
		p.clock.Advance(time.Hour)
	}
}
