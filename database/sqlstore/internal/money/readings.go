package money

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
		if !t.apply(&c, r, last.Amount) {
			return before, nil
		}
		if r.Corrects {
			if err := t.correct(before, &c); err != nil {
				return before, err
			}
		}
		c.SettleElsewhere()
		c.SellAgain(before, last)
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
	return engine.ResultOf(ctx, s.in.ReadList, func(t tx) ([]string, error) {
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

// apply is ledger.Channel.Apply with the times as they are stored.
func (t tx) apply(c *ledger.Channel, r ledger.Reading, owed int64) bool {
	r.ChainTime, r.Created, r.Expires = engine.Truncate(r.ChainTime), engine.Truncate(r.Created), engine.Truncate(r.Expires)
	return c.Apply(r, owed, t.Now)
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
