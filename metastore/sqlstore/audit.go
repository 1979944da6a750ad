package sqlstore

import (
	"context"
	"fmt"
	"math/big"

	"sluice/metastore"
)

// Audit implements metastore.Channels, on one state of the database. It reads
// every channel, sale and session. Its sentences name them by the first
// characters of their ids, which are secret. It checks that
//
//   - of each channel: count times price over its sales and returns, plus the
//     credit, is what was accepted; settled <= accepted <= deposit, and nothing
//     is negative; whatever was accepted and not settled waits to be collected
//     as it was accepted; nothing was paid out that was not accepted, and what
//     was paid out grows with the sequence;
//   - of each session: used + left = total, and none of them is negative; a
//     bought one holds exactly what was sold to it, a granted one at least that;
//   - no sale, settlement or payout belongs to a channel that is not there.
func (s *Store) Audit(ctx context.Context) ([]string, error) {
	var found []string
	err := s.snapshot(ctx, func(t *tx) (err error) {
		found, err = t.audit()
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (t *tx) audit() ([]string, error) {
	a := audit{tx: t, channels: map[string]*channelAccount{}, sold: map[string]int64{}}
	for _, read := range []func() error{a.readChannels, a.readSales, a.readSettlements, a.readLedger, a.readSessions} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	a.checkChannels()
	return a.findings, nil
}

// audit is an audit at work.
type audit struct {
	*tx
	channels map[string]*channelAccount
	order    []string // of the channels
	sold     map[string]int64
	findings []string
}

// channelAccount is what the tables tell of a channel.
type channelAccount struct {
	metastore.Channel
	sales   big.Int // sum of count times price; a damaged table may hold anything
	pending bool    // the newest accepted payment waits to be collected
	paidOut int64   // the last amount in the ledger
}

func (a *audit) find(format string, args ...any) {
	a.findings = append(a.findings, fmt.Sprintf(format, args...))
}

func (a *audit) readChannels() error {
	var c metastore.Channel
	return a.each(`SELECT `+channelColumns+` FROM channels ORDER BY id`, nil, channelFields(&c), func() (bool, error) {
		a.channels[c.ID] = &channelAccount{Channel: c}
		a.order = append(a.order, c.ID)
		return true, nil
	})
}

// account finds the channel that a row speaks of.
func (a *audit) account(id, what string) (*channelAccount, bool) {
	c, ok := a.channels[id]
	if !ok {
		a.find("%s belongs to channel %.6s, which is not there", what, id)
	}
	return c, ok
}

func (a *audit) readSales() error {
	var channel, session string
	var price, count int64
	return a.each(`SELECT channel, session, price, CAST(SUM(count) AS BIGINT) FROM sales
		GROUP BY channel, session, price ORDER BY channel, session, price`, nil,
		args{&channel, (*optionalText)(&session), (*integer)(&price), (*integer)(&count)},
		func() (bool, error) {
			if session != "" {
				a.sold[session] += count
			}
			if c, ok := a.account(channel, "a sale"); ok {
				sum := new(big.Int).Mul(big.NewInt(count), big.NewInt(price))
				c.sales.Add(&c.sales, sum)
			}
			return true, nil
		})
}

func (a *audit) readSettlements() error {
	var one metastore.Settlement
	return a.each(`SELECT channel, sequence, amount, proof FROM settlements ORDER BY channel`, nil,
		args{&one.Channel, (*integer)(&one.Sequence), (*integer)(&one.Amount), &one.Proof},
		func() (bool, error) {
			c, ok := a.account(one.Channel, "a settlement")
			if !ok {
				return true, nil
			}
			c.pending = true
			if one.Amount != c.Accepted || one.Sequence != c.Sequence || string(one.Proof) != string(c.Proof) {
				a.find("the settlement of channel %.6s is for %d at sequence %d, but accepted is %d at %d",
					c.ID, one.Amount, one.Sequence, c.Accepted, c.Sequence)
			}
			return true, nil
		})
}

func (a *audit) readLedger() error {
	var channel string
	var sequence, amount int64
	return a.each(`SELECT channel, sequence, amount FROM ledger ORDER BY channel, sequence`, nil,
		args{&channel, (*integer)(&sequence), (*integer)(&amount)},
		func() (bool, error) {
			c, ok := a.account(channel, "a payout")
			if !ok {
				return true, nil
			}
			if amount <= c.paidOut {
				a.find("channel %.6s was paid out %d at sequence %d, after %d", c.ID, amount, sequence, c.paidOut)
			}
			if amount > c.Accepted || sequence > c.Sequence {
				a.find("channel %.6s was paid out %d at sequence %d, but accepted is %d at %d",
					c.ID, amount, sequence, c.Accepted, c.Sequence)
			}
			c.paidOut = amount
			return true, nil
		})
}

func (a *audit) checkChannels() {
	for _, id := range a.order {
		c := a.channels[id]
		if sum := new(big.Int).Add(&c.sales, big.NewInt(c.Credit)); sum.Cmp(big.NewInt(c.Accepted)) != 0 {
			a.find("channel %.6s: sales of %v and a credit of %d are not the %d that was accepted", id, &c.sales, c.Credit, c.Accepted)
		}
		if c.Credit < 0 || c.Settled < 0 || c.Settled > c.Accepted || c.Accepted > c.Deposit {
			a.find("channel %.6s: credit %d, settled %d, accepted %d and deposit %d do not go together",
				id, c.Credit, c.Settled, c.Accepted, c.Deposit)
		}
		if (c.Proof == nil) != (c.Accepted == 0) || (c.Accepted > 0 && c.Sender == "") {
			a.find("channel %.6s: %d was accepted from sender %.6s with a proof of %d bytes", id, c.Accepted, c.Sender, len(c.Proof))
		}
		if c.Settled < c.Accepted && !c.pending {
			a.find("channel %.6s: %d was accepted, %d settled, and nothing waits to be collected", id, c.Accepted, c.Settled)
		}
	}
}

func (a *audit) readSessions() error {
	var s metastore.Session
	return a.each(`SELECT `+sessionColumns+` FROM sessions ORDER BY id`, nil, sessionFields(&s), func() (bool, error) {
		if s.Used < 0 || s.Left < 0 || s.Total < s.Left || s.Total-s.Left != s.Used {
			a.find("session %.6s: used %d and left %d are not the total of %d", s.ID, s.Used, s.Left, s.Total)
		}
		sold := a.sold[s.ID]
		switch {
		case s.Channel == "" && sold > s.Total:
			a.find("session %.6s: %d chunksets were sold to it, its total is %d", s.ID, sold, s.Total)
		case s.Channel != "" && sold != s.Total:
			a.find("session %.6s: %d chunksets were sold to it, but its total is %d", s.ID, sold, s.Total)
		}
		return true, nil
	})
}
