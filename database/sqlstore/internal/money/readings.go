package money

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// RecordReading implements ledger.Channels.
func (s *Ledger) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		before, err := t.channel(id)
		if err != nil {
			return before, err
		}
		var last ledger.Submission
		if before.Stopped != "" {
			if last, err = t.submission(id); err != nil && !errors.Is(err, database.ErrNotFound) {
				return before, err
			}
		}
		c := before
		if !applyReading(&c, r, last.Amount, t.Now) {
			return before, nil
		}
		if r.Corrects {
			if err := t.correct(before, &c); err != nil {
				return before, err
			}
		}
		settleElsewhere(&c)
		sellAgain(before, &c, last)
		return c, t.saveSettled(before, c)
	})
}

// correct lowers the amount that a channel's earlier readings have settled to the amount withdrawn,
// and records that. An earlier version counted withdrawals as accepted, so that nothing proves
// them.
func (t tx) correct(before ledger.Channel, c *ledger.Channel) error {
	if c.Withdrawn >= before.Withdrawn {
		return nil
	}
	c.Settled = min(c.Settled, c.Withdrawn)
	c.Collected = min(c.Collected, c.Settled)
	c.Elsewhere = min(c.Elsewhere, c.Settled-c.Collected)
	id := []byte(c.ID)
	if c.Proof == nil && c.Accepted > c.Withdrawn {
		var folded int64
		if _, err := t.Row(`SELECT folded FROM channels WHERE id = $1`, engine.Args{id}, (*engine.Integer)(&folded)); err != nil {
			return err
		}
		unproven := min(c.Accepted-c.Withdrawn, max(0, folded))
		c.Accepted -= unproven
		if _, err := t.Exec(`UPDATE channels SET accepted = $2, folded = $3 WHERE id = $1`, id, c.Accepted, folded-unproven); err != nil {
			return err
		}
	}
	if c.Proof != nil && c.Accepted > max(c.Settled, c.Submitted) {
		// It is pending again, until it is renewed: when it expires is not known any more.
		if _, err := t.Exec(`INSERT INTO settlements (channel, sequence, amount, proof, expires) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (channel) DO NOTHING`,
			id, c.Sequence, c.Accepted, c.Proof, t.Now.UnixMicro()); err != nil {
			return err
		}
	}
	_, err := t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`,
		[]byte(correctionFact+t.Now.UTC().Format("2006-01-02T15:04:05.000000Z ")+c.ID),
		[]byte(fmt.Sprintf("channel %s: withdrawn %d, not %d; settled %d, not %d; accepted %d, not %d",
			c.ID, c.Withdrawn, before.Withdrawn, c.Settled, before.Settled, c.Accepted, before.Accepted)))
	return err
}

// correctionFact begins the name of each property that records a correction.
const correctionFact = "corrected "

// Corrections implements ledger.Inspection.
func (s *Ledger) Corrections(ctx context.Context) ([]string, error) {
	return engine.ResultOf(ctx, s.readList, func(t tx) ([]string, error) {
		var list []string
		var name, value string
		err := t.Each(`SELECT name, value FROM facts WHERE name > $1 AND name < $2 ORDER BY name LIMIT 1000`,
			engine.Args{[]byte(correctionFact), []byte("corrected!")}, engine.Args{&name, &value}, func() error {
				at, _, _ := strings.Cut(strings.TrimPrefix(name, correctionFact), " ")
				list = append(list, at+" "+value)
				return nil
			})
		return list, err
	})
}

// applyReading applies a reading to a channel, except that it settles nothing. It reports whether
// the reading has an effect. owed is the newest submission's amount: until it is settled, a deposit
// cannot make a stopped channel sell again, because the payer still owes it.
func applyReading(c *ledger.Channel, r ledger.Reading, owed int64, now time.Time) bool {
	chainTime, created, latest := engine.Truncate(r.ChainTime), engine.Truncate(r.Created), now.Add(ledger.MaxChainAhead)
	if chainTime.IsZero() || chainTime.After(latest) || chainTime.Before(c.ChainTime) && !c.ChainTime.After(latest) && !r.Corrects {
		return false
	}
	again := r.Withdrawn < c.Withdrawn && !r.Corrects
	if !r.Gone && !created.IsZero() && !c.ChainCreated.IsZero() {
		if created.Before(c.ChainCreated) && !r.Corrects || again && created.Equal(c.ChainCreated) {
			return false // whatever the chain's time, it does not show what is known
		}
		again = created.After(c.ChainCreated)
	}
	c.ChainTime, c.Read = chainTime, now
	switch {
	case r.Gone:
		c.Stopped, c.Deposit = "the channel does not exist on the chain", 0
		return true
	case again:
		c.Stopped, c.Deposit = "the channel was ended on the chain, and opened again under its number: open one with another number", 0
		return true
	case r.Deposit < c.Deposit:
		c.Stopped = fmt.Sprintf("the deposit of the channel on the chain has shrunk from %d to %d units", c.Deposit, r.Deposit)
	case r.Deposit > c.Deposit && r.Deposit >= c.Accepted && owed <= c.Settled, r.Withdrawn > max(c.Accepted, c.Settled) && r.Withdrawn <= r.Deposit:
		c.Stopped = ""
	}
	c.Deposit, c.Withdrawn, c.NextSequence, c.Expires = r.Deposit, r.Withdrawn, r.NextSequence, engine.Truncate(r.Expires)
	if !created.IsZero() {
		c.ChainCreated = created
	}
	return true
}

// countCollected settles a collected submission. withdrawn is what was withdrawn over the channel
// then.
func countCollected(c *ledger.Channel, sub ledger.Submission, withdrawn int64) {
	settled := max(c.Settled, min(sub.Amount, max(c.Withdrawn, withdrawn)))
	c.Collected += settled - c.Settled
	c.Settled, c.Withdrawn = settled, max(c.Withdrawn, settled)
	if sub.Form != "" { // an earlier version's node records none
		c.Form = sub.Form
	}
	if c.Accepted <= c.Deposit {
		c.Stopped = ""
	}
}

// settleElsewhere settles what was withdrawn. What this service has collected is settled already,
// unless a submission is in flight: its outcome shows how much it has withdrawn itself.
func settleElsewhere(c *ledger.Channel) {
	if c.Submitted == 0 && c.Withdrawn > c.Settled {
		c.Elsewhere += c.Withdrawn - c.Settled
		c.Settled = c.Withdrawn
	}
}

// sellAgain lets a channel sell that has stopped because its last submission was not collected,
// once others have withdrawn its amount.
func sellAgain(before ledger.Channel, c *ledger.Channel, last ledger.Submission) {
	if last.Amount > before.Settled && last.Amount <= c.Settled && c.Stopped == before.Stopped && c.Accepted <= c.Deposit {
		c.Stopped = ""
	}
}

// saveSettled stores a channel after a reading or an outcome has changed it. A pending settlement
// of no more than the amount withdrawn is removed.
func (t tx) saveSettled(before, c ledger.Channel) error {
	id := []byte(c.ID)
	if _, err := t.Exec(`UPDATE channels SET deposit = $2, withdrawn = $3, next_sequence = $4, expires = $5, ledger = $6, read_at = $7, stopped = $8,
		settled = $9, collected = $10, elsewhere = $11, submitted = $12, form = $13, chain_created = $14 WHERE id = $1`,
		id, c.Deposit, c.Withdrawn, c.NextSequence, c.Expires.UnixMicro(), engine.Micros(c.ChainTime), engine.Micros(c.Read), engine.OptionalColumn(c.Stopped),
		c.Settled, c.Collected, c.Elsewhere, c.Submitted, engine.OptionalColumn(c.Form), engine.Micros(c.ChainCreated)); err != nil {
		return err
	}
	if c.Withdrawn == before.Withdrawn && c.Settled == before.Settled {
		return nil
	}
	_, err := t.Exec(`DELETE FROM settlements WHERE channel = $1 AND amount <= $2`, id, c.Withdrawn)
	return err
}
