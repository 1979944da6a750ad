package sqlstore

import (
	"context"
	"math"

	"sluice/database"
	"sluice/ledger"
)

// censusPage is the number of rows that a census reads at a time.
const censusPage = 5_000

// Census implements database.Maintenance.
func (s *Store) Census(ctx context.Context) (database.Census, error) {
	var c database.Census
	for _, count := range []func(context.Context, *database.Census) error{
		s.countSessions, s.countChannels, s.countExtents, s.countUploads,
	} {
		if err := count(ctx, &c); err != nil {
			return database.Census{}, err
		}
	}
	return c, nil
}

// pages calls page, which reads up to limit rows and returns their number, in transactions of its own
// until there are fewer.
func (s *Store) pages(ctx context.Context, page func(t *tx, limit int64) (rows int64, err error)) error {
	for {
		var rows int64
		err := s.read(ctx, func(t *tx) (err error) {
			rows, err = page(t, censusPage)
			return err
		})
		if err != nil || rows < censusPage {
			return err
		}
	}
}

func (s *Store) countSessions(ctx context.Context, c *database.Census) error {
	after := []byte{}
	return s.pages(ctx, func(t *tx, limit int64) (rows int64, err error) {
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

func (s *Store) countChannels(ctx context.Context, c *database.Census) error {
	after := []byte{}
	return s.pages(ctx, func(t *tx, limit int64) (rows int64, err error) {
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

func (s *Store) countExtents(ctx context.Context, c *database.Census) error {
	content, part, off := []byte{}, int64(math.MinInt64), int64(0)
	return s.pages(ctx, func(t *tx, limit int64) (rows int64, err error) {
		nextContent, nextPart, nextOff := content, integer(part), integer(off)
		inline, objects := c.Inline, c.Objects
		var size, stored integer
		err = t.each(`SELECT content, part, off, size, CASE WHEN object IS NULL THEN 0 ELSE 1 END FROM extents
			WHERE (content, part, off) > ($1, $2, $3) ORDER BY content, part, off LIMIT ($4 + 0)`,
			args{content, part, off, limit}, args{&nextContent, &nextPart, &nextOff, &size, &stored}, func() error {
				rows++
				of := &inline
				if stored == 1 {
					of = &objects
				}
				of.Extents++
				of.Bytes += int64(size)
				return nil
			})
		if err == nil {
			content, part, off = nextContent, int64(nextPart), int64(nextOff)
			c.Inline, c.Objects = inline, objects
		}
		return rows, err
	})
}

// countUploads reads the index of open uploads.
func (s *Store) countUploads(ctx context.Context, c *database.Census) error {
	return s.read(ctx, func(t *tx) error {
		_, err := t.row(`SELECT COUNT(*) FROM uploads WHERE state = 0`, nil, (*integer)(&c.Uploads))
		return err
	})
}
