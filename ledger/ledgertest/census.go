package ledgertest

import (
	"fmt"
	"math"

	"sluice/database"
	"sluice/database/dbtest"
)

// censusAmounts adds up deposited, accepted and settled amounts beyond int64's range.
func censusAmounts(p *probe) {
	c := p.Channel("one", "s", 100)
	p.buys(c, 1, 35, 10, "session") // 3 chunksets, and 5 of credit
	p.OK(p.book(c.ID, 1, 35), "book")
	p.reads(c, 2, 50, 10, 2) // of 20 that can be spent
	want := database.ChannelCensus{Open: 1, Deposited: 100, Accepted: 50, Settled: 35}
	amounts := func(after string) {
		got := dbtest.Value(p.Store.Census(p.Ctx))
		p.Equal(got.Channels, want, "channels after %s", after)
	}
	amounts("payments")
	d := p.Channel("two", "t", 100)
	p.buys(d, 1, 19, 10, "another")
	want.Open, want.Deposited, want.Accepted, want.Credit = 2, 200, 69, 9
	amounts("a payment with a credit")
	for i := range 3 {
		p.Channel(fmt.Sprint("rich", i), fmt.Sprint("rich", i), math.MaxInt64)
		want.Open++
		want.Deposited.Add(math.MaxInt64)
	}
	p.Must(want.Deposited == math.MaxUint64, "the sum is %d", want.Deposited)
	amounts("deposits of more than 2^64-1")
}
