package money

import (
	"fmt"
	"math/big"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// audit is a running audit over channels and sessions.
type audit struct {
	tx
	page   int64
	report func(format string, args ...any)

	// The current page's.
	channels map[string]*channelAccount
	order    []string
}

// channelAccount is a channel with the sums of its rows in other tables.
type channelAccount struct {
	ledger.Channel
	sales   big.Int // sum of count times price; a damaged table may hold anything
	pending bool    // the newest accepted payment is in the settlement, or was submitted
	flying  int64   // the amount submitted and in flight
	paidOut int64   // the last amount in the ledger
}

// AuditMoney reports inconsistencies in the channels and sessions; see Audit. It holds that many of
// them in memory.
func AuditMoney(t *engine.Tx, page int, report func(format string, args ...any)) error {
	a := audit{tx: tx{t}, page: int64(page), report: report}
	if err := a.walkChannels(); err != nil {
		return err
	}
	return a.walkSessions()
}

// span is the range of ids greater than after and up to last, or unbounded if it is the final one.
// A walk's spans have no gaps, so that rows without a channel are found too.
type span struct {
	after, last string
	final       bool
}

// within returns the condition that a column is in a span, with its parameters.
func (s span) within(column string) (string, engine.Args) {
	condition, in := column+" > $1", engine.Args{[]byte(s.after)}
	if s.after == "" {
		condition = column + " >= $1" // includes the empty id
	}
	if !s.final {
		condition, in = condition+" AND "+column+" <= $2", append(in, []byte(s.last))
	}
	return condition, in
}

// walk calls check for a table's spans. read reads the next page and returns its last id and its
// number of rows.
func (a *audit) walk(read func(span) (last string, rows int64, err error), check func(span) error) error {
	for at := (span{}); ; at.after = at.last {
		last, rows, err := read(span{after: at.after, final: true})
		if err != nil {
			return err
		}
		at.last, at.final = last, rows < a.page
		if err := check(at); err != nil || at.final {
			return err
		}
	}
}

func (a *audit) walkChannels() error {
	return a.walk(a.readChannels, func(at span) error {
		for _, read := range []func(span) error{a.readSales, a.readSettlements, a.readSubmissions, a.readLedger} {
			if err := read(at); err != nil {
				return err
			}
		}
		a.checkChannels()
		return nil
	})
}

func (a *audit) readChannels(at span) (last string, rows int64, err error) {
	a.channels, a.order = map[string]*channelAccount{}, nil
	var c ledger.Channel
	var folded int64
	condition, in := at.within("id")
	err = a.Each(`SELECT `+channelColumns+`, folded FROM channels WHERE `+condition+fmt.Sprintf(` ORDER BY id LIMIT ($%d + 0)`, len(in)+1),
		append(in, a.page), append(channelFields(&c), (*engine.Integer)(&folded)), func() error {
			account := &channelAccount{Channel: c}
			account.sales.SetInt64(folded)
			a.channels[c.ID] = account
			a.order = append(a.order, c.ID)
			last = c.ID
			rows++
			return nil
		})
	return last, rows, err
}

// account returns a row's channel. If there is none, that is a finding.
func (a *audit) account(id, row string) (*channelAccount, bool) {
	c, ok := a.channels[id]
	if !ok {
		a.report("%s belongs to channel %.6s, which does not exist", row, id)
	}
	return c, ok
}

func (a *audit) readSales(at span) error {
	var channel string
	var price, high, low, most, least int64
	condition, in := at.within("channel")
	// Counts may be negative, so a sum of them may exceed 64 bits on the way. It is therefore made
	// of two sums.
	return a.Each(`SELECT channel, price, CAST(SUM(count / 4294967296) AS BIGINT), CAST(SUM(count % 4294967296) AS BIGINT),
			MAX(count), MIN(count) FROM sales WHERE `+condition+` GROUP BY channel, price ORDER BY channel, price`, in,
		engine.Args{&channel, (*engine.Integer)(&price), (*engine.Integer)(&high), (*engine.Integer)(&low), (*engine.Integer)(&most), (*engine.Integer)(&least)},
		func() error {
			if c, ok := a.account(channel, "a sale"); ok {
				if !worth(most, price).IsInt64() || !worth(least, price).IsInt64() {
					a.report("channel %.6s: sales of %d and %d at a price of %d exceed the greatest amount", channel, most, least, price)
				}
				count := new(big.Int).Lsh(big.NewInt(high), 32)
				count.Add(count, big.NewInt(low))
				c.sales.Add(&c.sales, count.Mul(count, big.NewInt(price)))
			}
			return nil
		})
}

func (a *audit) readSettlements(at span) error {
	var one ledger.Settlement
	condition, in := at.within("channel")
	return a.Each(`SELECT channel, sequence, amount, proof FROM settlements WHERE `+condition+` ORDER BY channel`, in,
		engine.Args{&one.Channel, (*engine.Integer)(&one.Sequence), (*engine.Integer)(&one.Amount), &one.Proof},
		func() error {
			c, ok := a.account(one.Channel, "a settlement")
			if !ok {
				return nil
			}
			c.pending = true
			if one.Amount != c.Accepted || one.Sequence != c.Sequence || string(one.Proof) != string(c.Proof) {
				a.report("the settlement of channel %.6s is for %d at sequence %d, but %d was accepted at %d",
					c.ID, one.Amount, one.Sequence, c.Accepted, c.Sequence)
			}
			return nil
		})
}

func (a *audit) readSubmissions(at span) error {
	var r submissionRow
	condition, in := at.within("channel")
	return a.Each(`SELECT `+submissionColumns+` FROM submissions WHERE `+condition+` ORDER BY channel`, in, r.fields(), func() error {
		c, ok := a.account(r.Channel, "a submission")
		if !ok {
			return nil
		}
		s := r.submission()
		withdrawn := c.Proof == nil && s.Sequence <= c.Sequence && s.Amount <= c.Accepted // a third party withdrew more
		if !withdrawn && !accepted(c.Channel, s.Sequence, s.Amount) {
			a.report("channel %.6s: %d was submitted at sequence %d, but %d was accepted at %d", c.ID, s.Amount, s.Sequence, c.Accepted, c.Sequence)
		}
		c.pending = c.pending || s.Sequence == c.Sequence
		if s.State == ledger.InFlight {
			c.flying = s.Amount
		}
		return nil
	})
}

func (a *audit) readLedger(at span) error {
	var channel string
	var sequence, amount int64
	condition, in := at.within("channel")
	return a.Each(`SELECT channel, sequence, amount FROM ledger WHERE `+condition+` ORDER BY channel, sequence`, in,
		engine.Args{&channel, (*engine.Integer)(&sequence), (*engine.Integer)(&amount)},
		func() error {
			c, ok := a.account(channel, "a payout")
			if !ok {
				return nil
			}
			if amount <= c.paidOut {
				a.report("channel %.6s was paid out %d at sequence %d, after %d", c.ID, amount, sequence, c.paidOut)
			}
			if amount > c.Accepted || sequence > c.Sequence {
				a.report("channel %.6s was paid out %d at sequence %d, but %d was accepted at %d",
					c.ID, amount, sequence, c.Accepted, c.Sequence)
			}
			c.paidOut = amount
			return nil
		})
}

func (a *audit) checkChannels() {
	for _, id := range a.order {
		c := a.channels[id]
		sum := new(big.Int).Add(&c.sales, big.NewInt(c.Credit))
		if wrapped(sum) != c.Accepted { // see addFolded
			a.report("channel %.6s: sales of %v and a credit of %d do not add up to the accepted %d", id, &c.sales, c.Credit, c.Accepted)
		}
		if c.Credit < 0 || c.Settled < 0 || c.Settled > max(c.Accepted, c.Withdrawn) || c.Accepted > c.Deposit && c.Stopped == "" {
			a.report("channel %.6s: credit %d, settled %d, accepted %d and deposit %d are inconsistent",
				id, c.Credit, c.Settled, c.Accepted, c.Deposit)
		}
		if !c.ChainTime.IsZero() && c.Settled > c.Withdrawn {
			a.report("channel %.6s: %d was settled, but %d withdrawn on the chain", id, c.Settled, c.Withdrawn)
		}
		if c.Collected < 0 || c.Elsewhere < 0 || c.Collected > c.Settled-c.Elsewhere {
			a.report("channel %.6s: %d was collected, %d elsewhere, but %d is settled", id, c.Collected, c.Elsewhere, c.Settled)
		}
		if c.Submitted != c.flying {
			a.report("channel %.6s: %d was submitted, but the submission in flight is of %d", id, c.Submitted, c.flying)
		}
		read := !c.ChainTime.IsZero() && c.Accepted <= c.Withdrawn // then no payment needs to prove it
		if (!read || c.Proof != nil) && (c.Proof == nil) != (c.Accepted == 0) || (c.Accepted > 0 && c.Sender == "") {
			a.report("channel %.6s: %d was accepted from sender %.6s with a proof of %d bytes", id, c.Accepted, c.Sender, len(c.Proof))
		}
		if c.Settled < c.Accepted && !read && !c.pending {
			a.report("channel %.6s: %d was accepted, %d settled, and no settlement is pending", id, c.Accepted, c.Settled)
		}
	}
}

func (a *audit) walkSessions() error {
	var page []ledger.Session
	read := func(at span) (last string, rows int64, err error) {
		var s ledger.Session
		condition, in := at.within("id")
		page, err = engine.Collect(a.Tx, `SELECT `+sessionColumns+` FROM sessions WHERE `+condition+fmt.Sprintf(` ORDER BY id LIMIT ($%d + 0)`, len(in)+1),
			append(in, a.page), sessionFields(&s), &s)
		return s.ID, int64(len(page)), err
	}
	return a.walk(read, func(at span) error {
		sold, err := a.sold(at, page)
		if err != nil {
			return err
		}
		for i := range page {
			a.checkSession(&page[i], sold[page[i].ID])
		}
		return nil
	})
}

// sold returns how many chunksets were sold to each session on a page.
func (a *audit) sold(at span, page []ledger.Session) (map[string]int64, error) {
	sold := make(map[string]int64, len(page))
	for i := range page {
		sold[page[i].ID] = 0
	}
	var session string
	var count int64
	condition, in := at.within("session")
	err := a.Each(`SELECT session, CAST(SUM(count) AS BIGINT) FROM sales WHERE session IS NOT NULL AND `+condition+`
		GROUP BY session ORDER BY session`, in,
		engine.Args{&session, (*engine.Integer)(&count)}, func() error {
			if _, ok := sold[session]; ok { // otherwise it was purged, and its sales are not folded yet
				sold[session] = count
			}
			return nil
		})
	return sold, err
}

func (a *audit) checkSession(s *ledger.Session, sold int64) {
	if s.Used < 0 || s.Left < 0 || s.Total < s.Left || s.Total-s.Left != s.Used {
		a.report("session %.6s: used %d and left %d do not add up to the total of %d", s.ID, s.Used, s.Left, s.Total)
	}
	switch {
	case a.remembered(s.ID, *s, true) != nil: // some of its sales may be folded
	case s.Channel == "" && sold > s.Total:
		a.report("session %.6s: %d chunksets were sold to it, its total is %d", s.ID, sold, s.Total)
	case s.Channel != "" && sold != s.Total:
		a.report("session %.6s: %d chunksets were sold to it, but its total is %d", s.ID, sold, s.Total)
	}
}
