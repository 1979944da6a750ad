package database

import "math"

// Census counts the things that a store holds.
type Census struct {
	Sessions SessionCensus
	Channels ChannelCensus
	Inline   ExtentCensus // extents in the metadata, garbage included
	Objects  ExtentCensus // extents that are objects in the byte store, garbage included
	Uploads  int64        // open uploads
}

// SessionCensus are numbers of sessions. Expired ones are counted for as long as they are retained.
type SessionCensus struct {
	Active    int64 // with chunksets left, and not expired
	Exhausted int64 // without chunksets left, and not expired
	Expired   int64
}

// ChannelCensus are numbers of channels, and the sums of their amounts in asset units. Several
// assets' amounts are added up as if they were one asset's.
type ChannelCensus struct {
	Open, Closed, Expired int64
	Deposited             Sum
	Accepted              Sum
	Credit                Sum
	Settled               Sum
}

// ExtentCensus are the number of extents, and the sum of their sizes.
type ExtentCensus struct {
	Extents int64
	Bytes   int64
}

// Sum is a sum of amounts, or 2^64-1 if it would be greater.
type Sum uint64

// Add adds an amount, which must not be negative.
func (s *Sum) Add(amount int64) {
	if uint64(amount) > math.MaxUint64-uint64(*s) {
		*s = math.MaxUint64
		return
	}
	*s += Sum(amount)
}
