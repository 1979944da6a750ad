package money

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

const submissionColumns = `channel, sequence, amount, hash, body, expires, state, status, begun, ended, form`

// submissionRow is a row of submissions.
type submissionRow struct {
	ledger.Submission
	hash  []byte
	state engine.Integer
}

func (r *submissionRow) fields() engine.Args {
	return engine.Args{
		&r.Channel, (*engine.Integer)(&r.Sequence), (*engine.Integer)(&r.Amount), &r.hash, &r.Body, (*engine.Instant)(&r.Expires),
		&r.state, (*engine.OptionalText)(&r.Status), (*engine.Instant)(&r.Begun), (*engine.Instant)(&r.Ended), (*engine.OptionalText)(&r.Form),
	}
}

func (r *submissionRow) submission() ledger.Submission {
	copy(r.Hash[:], r.hash)
	r.State = ledger.SubmissionState(r.state)
	return r.Submission
}

// DueSettlements implements ledger.Submissions.
func (s *Ledger) DueSettlements(ctx context.Context, ahead time.Duration, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	var since int64
	if after.Channel != "" {
		since = after.Expires.UnixMicro()
	}
	return engine.ResultOf(ctx, s.in.Read, func(t tx) ([]ledger.Settlement, error) {
		var one ledger.Settlement
		return engine.Collect(t.Tx, `SELECT channel, sequence, amount, proof, expires FROM settlements
			WHERE due <= $1 AND (expires, channel) > ($2, $3)
			AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.channel = settlements.channel AND s.state = 0)
			ORDER BY expires, channel LIMIT ($4 + 0)`,
			engine.Args{t.Now.Add(ahead).UnixMicro(), since, []byte(after.Channel), int64(limit)},
			engine.Args{&one.Channel, (*engine.Integer)(&one.Sequence), (*engine.Integer)(&one.Amount), &one.Proof, (*engine.Instant)(&one.Expires)}, &one)
	})
}

// BeginSubmission implements ledger.Submissions.
func (s *Ledger) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		if err := t.halted(); err != nil {
			return err
		}
		c, err := t.channel(sub.Channel)
		if err != nil {
			return err
		}
		last, err := t.submission(c.ID)
		if err != nil && !errors.Is(err, database.ErrNotFound) {
			return err
		}
		if err == nil && last.State == ledger.InFlight {
			return fmt.Errorf("submission: %w", database.ErrExists)
		}
		id := []byte(c.ID)
		n, err := t.Exec(`DELETE FROM settlements WHERE channel = $1 AND sequence = $2 AND amount = $3`, id, sub.Sequence, sub.Amount)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("settlement: %w", database.ErrNotFound)
		}
		if _, err := t.Exec(`INSERT INTO submissions (`+submissionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, 0, NULL, $7, NULL, $8)
			ON CONFLICT (channel) DO UPDATE SET sequence = excluded.sequence, amount = excluded.amount, hash = excluded.hash,
			body = excluded.body, expires = excluded.expires, state = 0, status = NULL, begun = excluded.begun, ended = NULL, form = excluded.form`,
			id, sub.Sequence, sub.Amount, sub.Hash[:], sub.Body, sub.Expires.UnixMicro(), engine.Micros(t.Now), engine.OptionalColumn(sub.Form)); err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE channels SET submitted = $2 WHERE id = $1`, id, sub.Amount)
		return err
	})
}

// submission returns a channel's newest submission, or database.ErrNotFound.
func (t tx) submission(channel string) (ledger.Submission, error) {
	var r submissionRow
	found, err := t.Row(`SELECT `+submissionColumns+` FROM submissions WHERE channel = $1`, engine.Args{[]byte(channel)}, r.fields()...)
	if err == nil && !found {
		err = fmt.Errorf("submission: %w", database.ErrNotFound)
	}
	if err != nil {
		return ledger.Submission{}, err
	}
	return r.submission(), nil
}

// submissions returns the submissions in a state after a channel.
func (t tx) submissions(state ledger.SubmissionState, after string, limit int) ([]ledger.Submission, error) {
	var r submissionRow
	var list []ledger.Submission
	err := t.Each(`SELECT `+submissionColumns+` FROM submissions WHERE state <> 1 AND state = $1 AND channel > $2 ORDER BY channel LIMIT ($3 + 0)`,
		engine.Args{int64(state), []byte(after), int64(limit)}, r.fields(), func() error {
			list = append(list, r.submission())
			return nil
		})
	return list, err
}

// SubmissionsInFlight implements ledger.Submissions.
func (s *Ledger) SubmissionsInFlight(ctx context.Context, after string, limit int) ([]ledger.Submission, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) ([]ledger.Submission, error) {
		return t.submissions(ledger.InFlight, after, limit)
	})
}

// FailedSubmissions implements ledger.Submissions.
func (s *Ledger) FailedSubmissions(ctx context.Context, limit int) ([]ledger.Submission, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) ([]ledger.Submission, error) {
		return t.submissions(ledger.Failed, "", limit)
	})
}

// Submission implements ledger.Submissions.
func (s *Ledger) Submission(ctx context.Context, channel string) (ledger.Submission, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (ledger.Submission, error) { return t.submission(channel) })
}

// errOtherOutcome is the error for a submission's second, different outcome.
var errOtherOutcome = errors.New("sqlstore: the submission has ended differently")

// EndSubmission implements ledger.Submissions.
func (s *Ledger) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		c, err := t.channel(channel)
		if err != nil {
			return err
		}
		sub, err := t.submission(channel)
		switch {
		case err != nil:
			return err
		case sub.Sequence != sequence:
			return fmt.Errorf("submission: %w", database.ErrNotFound)
		case sub.State == ledger.InFlight && o.State != ledger.InFlight:
			return t.endSubmission(c, sub, o)
		case sub.State != o.State:
			return errOtherOutcome
		}
		return nil
	})
}

func (t tx) endSubmission(before ledger.Channel, sub ledger.Submission, o ledger.Outcome) error {
	id := []byte(before.ID)
	if _, err := t.Exec(`UPDATE submissions SET state = $2, status = $3, ended = $4, body = $5 WHERE channel = $1`,
		id, int64(o.State), engine.OptionalColumn(o.Status), engine.Micros(t.Now), []byte{}); err != nil {
		return err
	}
	c := before
	c.Submitted = 0
	if o.State == ledger.Collected {
		c.Collect(sub, max(o.Withdrawn, o.Reading.Withdrawn))
	}
	t.apply(&c, o.Reading, sub.Amount)
	c.SettleElsewhere()
	c.SellAgain(before, sub)
	uncollected := o.State != ledger.Collected && sub.Amount > c.Settled
	switch {
	case uncollected && o.State == ledger.Failed:
		c.Stopped, c.Form = o.Status, "" // its form is to be simulated again
	case uncollected:
		c.Stopped = fmt.Sprintf("a payment of %d units has expired before it was collected: renew it, unless a newer one is pending", sub.Amount)
	}
	if o.Stop != "" {
		c.Stopped = o.Stop
	}
	if err := t.saveSettled(before, c); err != nil {
		return err
	}
	if o.State != ledger.Collected {
		if _, err := t.Exec(`UPDATE settlements SET due = $2 WHERE channel = $1 AND due > $2`, id, engine.Micros(t.Now)); err != nil {
			return err
		}
	}
	if o.Halt == "" {
		return nil
	}
	_, err := t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, []byte(haltFact), []byte(o.Halt))
	return err
}

// haltFact names the property with the reason why settling has halted.
const haltFact = "settling halted"

// halted returns a *ledger.StoppedError if settling has halted.
func (t tx) halted() error {
	var reason string
	found, err := t.Row(`SELECT value FROM facts WHERE name = $1`, engine.Args{[]byte(haltFact)}, &reason)
	if err == nil && found {
		err = &ledger.StoppedError{Reason: reason}
	}
	return err
}

// Halted implements ledger.Submissions.
func (s *Ledger) Halted(ctx context.Context) (string, error) {
	err := s.in.Read(ctx, tx.halted)
	if stopped, ok := errors.AsType[*ledger.StoppedError](err); ok {
		return stopped.Reason, nil
	}
	return "", err
}

// Resume implements ledger.Submissions.
func (s *Ledger) Resume(ctx context.Context, reason string) error {
	return s.in.Write(ctx, func(t tx) error {
		t.Free = true
		n, err := t.Exec(`DELETE FROM facts WHERE name = $1 AND value = $2`, []byte(haltFact), []byte(reason))
		if err == nil && n == 0 {
			err = fmt.Errorf("halt: %w", database.ErrNotFound)
		}
		return err
	})
}

// StopSelling implements ledger.Submissions.
func (s *Ledger) StopSelling(ctx context.Context, channel string, sequence int64, reason string) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		// The channel first: its lock excludes that the submission ends meanwhile.
		c, err := t.channel(channel)
		if err != nil {
			return ignoreNotFound(err)
		}
		sub, err := t.submission(channel)
		if err != nil || sub.Sequence != sequence || sub.State != ledger.InFlight || c.Stopped == reason {
			return ignoreNotFound(err)
		}
		_, err = t.Exec(`UPDATE channels SET stopped = $2 WHERE id = $1`, []byte(channel), engine.OptionalColumn(reason))
		return err
	})
}

// ignoreNotFound returns err unless it is database.ErrNotFound.
func ignoreNotFound(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return nil
	}
	return err
}

// Postpone implements ledger.Submissions.
func (s *Ledger) Postpone(ctx context.Context, channel string, sequence int64, due time.Time) error {
	return s.in.WriteLocked(ctx, func(t tx) error {
		_, err := t.Exec(`UPDATE settlements SET due = $3 WHERE channel = $1 AND sequence = $2 AND due IS NOT NULL`, []byte(channel), sequence, engine.Micros(due))
		return err
	})
}

// Unsettled implements ledger.Settlements. A payment that is pending or in flight includes the
// amounts of those before it.
func (s *Ledger) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	var u ledger.Unsettled
	err := s.in.Read(ctx, func(t tx) error {
		var err error
		if u.Overdue, err = t.overdue(); err != nil {
			return err
		}
		if _, err := t.Row(`SELECT COUNT(*), CAST(COALESCE(SUM(elsewhere), 0) AS BIGINT) FROM channels WHERE elsewhere > 0`, nil,
			(*engine.Integer)(&u.Elsewhere.Channels), (*engine.Integer)(&u.Elsewhere.Amount)); err != nil {
			return err
		}
		var channels, amount, kind int64
		sums := []*ledger.UnsettledSum{&u.Expired, &u.Failed, &u.Waiting}
		return t.Each(`SELECT k.kind, COUNT(*), CAST(SUM(c.accepted - c.settled) AS BIGINT) FROM (
				SELECT n.channel, MAX(n.kind) AS kind FROM (
					SELECT channel, CASE WHEN expires > $1 THEN 2 ELSE 0 END AS kind FROM settlements
					UNION ALL SELECT channel, CASE WHEN state = 0 THEN 2 WHEN state = 2 THEN 1 ELSE 0 END FROM submissions WHERE state <> 1
				) n GROUP BY n.channel) k
			JOIN channels c ON c.id = k.channel WHERE c.accepted > c.settled GROUP BY k.kind`,
			engine.Args{t.Now.UnixMicro()}, engine.Args{(*engine.Integer)(&kind), (*engine.Integer)(&channels), (*engine.Integer)(&amount)}, func() error {
				*sums[kind] = ledger.UnsettledSum{Channels: channels, Amount: amount}
				return nil
			})
	})
	return u, err
}

// overdue returns ledger.Unsettled.Overdue.
func (t tx) overdue() (time.Duration, error) {
	var since time.Time
	_, err := t.Row(`SELECT MIN(w.since) FROM (
			SELECT MIN(due) AS since FROM settlements WHERE due IS NOT NULL
			UNION ALL SELECT MIN(begun) FROM submissions WHERE state <> 1 AND state = 0
		) w`, nil, (*engine.Instant)(&since))
	if err != nil || since.IsZero() {
		return 0, err
	}
	return max(0, t.Now.Sub(since)), nil
}
