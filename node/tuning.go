package node

import (
	"cmp"
	"time"

	"sluice/blob"
	"sluice/collect"
	"sluice/ledger"
	"sluice/paychan"
	"sluice/session"
)

// Tuning has the values that no setting sets. Tests choose them. A zero stands for the value that
// serves everyone.
type Tuning struct {
	SessionTTL     time.Duration // from a session's creation to its expiry
	ChannelTTL     time.Duration // from a channel's opening to its expiry by default
	PurgeEvery     time.Duration // see blob.Options
	SweepEvery     time.Duration // see blob.Options
	SettleWithin   time.Duration // see paychan.ChainOptions, as for the rest
	ChannelRefresh time.Duration
	StartingLimit  int64
	SettleAt       int64
	MaxFee         uint64
}

// withDefaults returns the values for an unsettled limit and a price of chunksets.
func (t Tuning) withDefaults(limit, price int64) Tuning {
	const purchase = 100 // chunksets that the Go client buys at once
	starting := min(limit, max(limit/100, ledger.Cost(purchase, max(1, price))))
	return Tuning{
		SessionTTL:     cmp.Or(t.SessionTTL, session.DefaultTTL),
		ChannelTTL:     cmp.Or(t.ChannelTTL, paychan.DefaultTTL),
		PurgeEvery:     cmp.Or(t.PurgeEvery, blob.DefaultPurgeEvery),
		SweepEvery:     cmp.Or(t.SweepEvery, blob.DefaultSweepEvery),
		SettleWithin:   cmp.Or(t.SettleWithin, 24*time.Hour),
		ChannelRefresh: cmp.Or(t.ChannelRefresh, 30*time.Second),
		StartingLimit:  cmp.Or(t.StartingLimit, max(1, starting)), // a small part of the final limit
		SettleAt:       cmp.Or(t.SettleAt, max(1, limit/2)),
		MaxFee:         cmp.Or(t.MaxFee, collect.DefaultMaxFee),
	}
}
