package sqlstore

import (
	"context"
	"fmt"
	"math/big"

	"sluice/database"
	"sluice/ledger"
)

// auditPage is the number of channels or sessions that an audit holds in memory.
const auditPage = 500

// Audit implements database.Maintenance on a snapshot of the database. It reads the channels
// and then the sessions in the order of their ids, a page at a time, and with each page the
// rows that belong to it. Its sentences contain only the first characters of ids, because
// ids are secret. It checks that
//
//   - for each channel, the sum of count times price over its sales and returns, including
//     the folded ones, plus the credit is the accepted amount; settled <= accepted <=
//     deposit; no amount is negative; a payment that was accepted and not settled is in the
//     settlement, unless it was withdrawn on the chain; nothing was paid out that was not accepted;
//     and payouts increase with the sequence; nothing was submitted that was not accepted;
//     collected + elsewhere <= settled; of a channel that was read from the chain, settled <=
//     withdrawn, and accepted <= deposit unless it has stopped;
//   - for each session, used + left = total and none of them is negative; a bought session
//     has exactly the chunksets that were sold to it, and a granted one at least those,
//     until its retention ends;
//   - no sale, settlement or payout belongs to a channel that does not exist;
//   - what is counted for each account is the number and the size of its blobs.
func (s *Store) Audit(ctx context.Context) ([]string, error) {
	var found []string
	err := s.snapshot(ctx, func(t *tx) (err error) {
		found, err = t.audit(auditPage)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (t *tx) audit(page int) ([]string, error) {
	a := audit{tx: t, page: int64(page)}
	for _, walk := range []func() error{a.walkChannels, a.walkSessions, a.checkAccounts} {
		if err := walk(); err != nil {
			return nil, err
		}
	}
	if a.total > len(a.findings) {
		a.findings[len(a.findings)-1] = fmt.Sprintf("%d inconsistencies in all; these are the first %d", a.total, len(a.findings)-1)
	}
	return a.findings, nil
}

// audit is a running audit.
type audit struct {
	*tx
	page     int64
	findings []string // the first MaxFindings
	total    int

	// Of the current page.
	channels map[string]*channelAccount
	order    []string
}

// channelAccount is a channel with the sums of its rows in other tables.
type channelAccount struct {
	ledger.Channel
	sales   big.Int // sum of count times price; a damaged table may hold anything
	pending bool    // the newest accepted payment is in the settlement, or was submitted
	flying  int64   // the amount of the submission in flight
	paidOut int64   // the last amount in the ledger
}

func (a *audit) report(format string, args ...any) {
	if a.total++; a.total <= database.MaxFindings {
		a.findings = append(a.findings, fmt.Sprintf(format, args...))
	}
}

// span is the range of ids greater than after and up to last, or unbounded if it is the
// final one. The spans of a walk have no gaps, so that rows without a channel are found too.
type span struct {
	after, last string
	final       bool
}

// within returns the condition that a column is in a span, with its parameters.
func (s span) within(column string) (string, args) {
	condition, in := column+" > $1", args{[]byte(s.after)}
	if s.after == "" {
		condition = column + " >= $1" // includes the empty id
	}
	if !s.final {
		condition, in = condition+" AND "+column+" <= $2", append(in, []byte(s.last))
	}
	return condition, in
}

// walk calls check for the spans of a table. read reads the next page and returns its last
// id and its number of rows.
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
	err = a.each(`SELECT `+channelColumns+`, folded FROM channels WHERE `+condition+fmt.Sprintf(` ORDER BY id LIMIT ($%d + 0)`, len(in)+1),
		append(in, a.page), append(channelFields(&c), (*integer)(&folded)), func() error {
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

// account returns the channel of a row. If there is none, that is a finding.
func (a *audit) account(id, what string) (*channelAccount, bool) {
	c, ok := a.channels[id]
	if !ok {
		a.report("%s belongs to channel %.6s, which does not exist", what, id)
	}
	return c, ok
}

func (a *audit) readSales(at span) error {
	var channel string
	var price, high, low, most, least int64
	condition, in := at.within("channel")
	// The sum of counts, some of which are negative, may exceed 64 bits on the way, so it is
	// made of two sums.
	return a.each(`SELECT channel, price, CAST(SUM(count / 4294967296) AS BIGINT), CAST(SUM(count % 4294967296) AS BIGINT),
			MAX(count), MIN(count) FROM sales WHERE `+condition+` GROUP BY channel, price ORDER BY channel, price`, in,
		args{&channel, (*integer)(&price), (*integer)(&high), (*integer)(&low), (*integer)(&most), (*integer)(&least)},
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
	return a.each(`SELECT channel, sequence, amount, proof FROM settlements WHERE `+condition+` ORDER BY channel`, in,
		args{&one.Channel, (*integer)(&one.Sequence), (*integer)(&one.Amount), &one.Proof},
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
	return a.each(`SELECT `+submissionColumns+` FROM submissions WHERE `+condition+` ORDER BY channel`, in, r.fields(), func() error {
		c, ok := a.account(r.Channel, "a submission")
		if !ok {
			return nil
		}
		s := r.submission()
		withdrawn := c.Proof == nil && s.Sequence <= c.Sequence && s.Amount <= c.Accepted // others have withdrawn more
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
	return a.each(`SELECT channel, sequence, amount FROM ledger WHERE `+condition+` ORDER BY channel, sequence`, in,
		args{&channel, (*integer)(&sequence), (*integer)(&amount)},
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
		if c.Credit < 0 || c.Settled < 0 || c.Settled > c.Accepted || c.Accepted > c.Deposit && c.Stopped == "" {
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
		page, err = collect(a.tx, `SELECT `+sessionColumns+` FROM sessions WHERE `+condition+fmt.Sprintf(` ORDER BY id LIMIT ($%d + 0)`, len(in)+1),
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

// sold returns the number of chunksets that were sold to each session of a page.
func (a *audit) sold(at span, page []ledger.Session) (map[string]int64, error) {
	sold := make(map[string]int64, len(page))
	for i := range page {
		sold[page[i].ID] = 0
	}
	var session string
	var count int64
	condition, in := at.within("session")
	err := a.each(`SELECT session, CAST(SUM(count) AS BIGINT) FROM sales WHERE session IS NOT NULL AND `+condition+`
		GROUP BY session ORDER BY session`, in,
		args{&session, (*integer)(&count)}, func() error {
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
	case a.remembered(*s, true) != nil: // some of its sales may be folded
	case s.Channel == "" && sold > s.Total:
		a.report("session %.6s: %d chunksets were sold to it, its total is %d", s.ID, sold, s.Total)
	case s.Channel != "" && sold != s.Total:
		a.report("session %.6s: %d chunksets were sold to it, but its total is %d", s.ID, sold, s.Total)
	}
}

// checkAccounts compares the counts of accounts with the blobs, in one statement, so that the
// engine sorts what does not fit in memory.
func (a *audit) checkAccounts() error {
	var account string
	var blobs, size, countedBlobs, countedSize int64
	return a.each(`SELECT c.account, CAST(SUM(c.blobs) AS BIGINT), CAST(SUM(c.size) AS BIGINT), CAST(SUM(c.counted) AS BIGINT), CAST(SUM(c.bytes) AS BIGINT)
		FROM (SELECT account, COUNT(*) AS blobs, SUM(size) AS size, 0 AS counted, 0 AS bytes FROM blobs GROUP BY account
			UNION ALL SELECT account, 0, 0, blobs, bytes FROM account_sums
			UNION ALL SELECT account, 0, 0, blobs, bytes FROM account_deltas) c
		GROUP BY c.account HAVING SUM(c.blobs) <> SUM(c.counted) OR SUM(c.size) <> SUM(c.bytes) ORDER BY c.account`, nil,
		args{&account, (*integer)(&blobs), (*integer)(&size), (*integer)(&countedBlobs), (*integer)(&countedSize)},
		func() error {
			a.report("account %q: %d blobs of %d bytes are counted, but there are %d of %d", account, countedBlobs, countedSize, blobs, size)
			return nil
		})
}
