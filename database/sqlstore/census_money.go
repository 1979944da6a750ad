package sqlstore

import (
	"context"

	"sluice/database"
	"sluice/ledger"
)

func (s *Ledger) CountSessions(ctx context.Context, c *database.Census) error {
	after := []byte{}
	return s.db.pages(ctx, func(t *tx, limit int64) (rows int64, err error) {
		next, counted := after, database.SessionCensus{}
		var left, expires integer
		err = t.each(`SELECT id, remaining, expires FROM sessions WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`,
			args{after, limit}, args{&next, &left, &expires}, func() error {
				rows++
				switch {
				case int64(expires) <= t.now.UnixMicro():
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

func (s *Ledger) CountChannels(ctx context.Context, c *database.Census) error {
	after := []byte{}
	return s.db.pages(ctx, func(t *tx, limit int64) (rows int64, err error) {
		next, counted := after, c.Channels
		var one ledger.Channel
		err = t.each(`SELECT id, deposit, accepted, credit, settled, closed, expires FROM channels WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`,
			args{after, limit}, args{&next, (*integer)(&one.Deposit), (*integer)(&one.Accepted), (*integer)(&one.Credit),
				(*integer)(&one.Settled), (*instant)(&one.Closed), (*instant)(&one.Expires)}, func() error {
				rows++
				switch one.State(t.now) {
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
