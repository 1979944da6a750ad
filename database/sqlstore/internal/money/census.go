package money

import (
	"context"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// CountSessions counts the sessions by state.
func CountSessions(ctx context.Context, db *engine.DB, c *database.Census) error {
	after := []byte{}
	return db.Pages(ctx, func(t *engine.Tx, limit int64) (rows int64, err error) {
		next, counted := after, database.SessionCensus{}
		var left, expires engine.Integer
		err = t.Each(`SELECT id, remaining, expires FROM sessions WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`,
			engine.Args{after, limit}, engine.Args{&next, &left, &expires}, func() error {
				rows++
				switch {
				case int64(expires) <= t.Now.UnixMicro():
					counted.Expired++
				case left == 0:
					counted.Exhausted++
				default:
					counted.Active++
				}
				return nil
			})
		if err == nil { // otherwise the page may be read again
			after = next
			c.Sessions.Active += counted.Active
			c.Sessions.Exhausted += counted.Exhausted
			c.Sessions.Expired += counted.Expired
		}
		return rows, err
	})
}

// CountChannels counts the channels by state, and adds up their amounts.
func CountChannels(ctx context.Context, db *engine.DB, c *database.Census) error {
	after := []byte{}
	return db.Pages(ctx, func(t *engine.Tx, limit int64) (rows int64, err error) {
		next, counted := after, c.Channels
		var one ledger.Channel
		err = t.Each(`SELECT id, deposit, accepted, credit, settled, closed, expires FROM channels WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`,
			engine.Args{after, limit}, engine.Args{&next, (*engine.Integer)(&one.Deposit), (*engine.Integer)(&one.Accepted), (*engine.Integer)(&one.Credit),
				(*engine.Integer)(&one.Settled), (*engine.Instant)(&one.Closed), (*engine.Instant)(&one.Expires)}, func() error {
				rows++
				switch one.State(t.Now) {
				case ledger.ChannelClosed:
					counted.Closed++
				case ledger.ChannelExpired:
					counted.Expired++
				default:
					counted.Open++
				}
				counted.Deposited.Add(one.Deposit)
				counted.Accepted.Add(one.Accepted)
				counted.Credit.Add(one.Credit)
				counted.Settled.Add(one.Settled)
				return nil
			})
		if err == nil {
			after, c.Channels = next, counted
		}
		return rows, err
	})
}
