package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/ledger"
)

const submissionColumns = `channel, sequence, amount, hash, body, expires, state, status, begun, ended, form`

// submissionRow is a row of submissions.
type submissionRow struct {
	ledger.Submission
	hash  []byte
	state integer
}

func (r *submissionRow) fields() args {
	return args{
		&r.Channel, (*integer)(&r.Sequence), (*integer)(&r.Amount), &r.hash, &r.Body, (*instant)(&r.Expires),
		&r.state, (*optionalText)(&r.Status), (*instant)(&r.Begun), (*instant)(&r.Ended), (*optionalText)(&r.Form),
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
	return resultOf(ctx, s.read, func(t moneyTx) ([]ledger.Settlement, error) {
		var one ledger.Settlement
		return collect(t.tx, `SELECT channel, sequence, amount, proof, expires FROM settlements
			WHERE due <= $1 AND (expires, channel) > ($2, $3)
			AND NOT EXISTS (SELECT 1 FROM submissions s WHERE s.channel = settlements.channel AND s.state = 0)
			ORDER BY expires, channel LIMIT ($4 + 0)`,
			args{t.now.Add(ahead).UnixMicro(), since, []byte(after.Channel), int64(limit)},
			args{&one.Channel, (*integer)(&one.Sequence), (*integer)(&one.Amount), &one.Proof, (*instant)(&one.Expires)}, &one)
	})
}

// BeginSubmission implements ledger.Submissions.
func (s *Ledger) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	return s.writeLocked(ctx, func(t moneyTx) error {
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
		n, err := t.exec(`DELETE FROM settlements WHERE channel = $1 AND sequence = $2 AND amount = $3`, id, sub.Sequence, sub.Amount)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("settlement: %w", database.ErrNotFound)
		}
		if _, err := t.exec(`INSERT INTO submissions (`+submissionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, 0, NULL, $7, NULL, $8)
			ON CONFLICT (channel) DO UPDATE SET sequence = excluded.sequence, amount = excluded.amount, hash = excluded.hash,
			body = excluded.body, expires = excluded.expires, state = 0, status = NULL, begun = excluded.begun, ended = NULL, form = excluded.form`,
			id, sub.Sequence, sub.Amount, sub.Hash[:], sub.Body, sub.Expires.UnixMicro(), micros(t.now), optionalColumn(sub.Form)); err != nil {
			return err
		}
		_, err = t.exec(`UPDATE channels SET submitted = $2 WHERE id = $1`, id, sub.Amount)
		return err
	})
}

// submission returns the newest submission of a channel, or database.ErrNotFound.
func (t moneyTx) submission(channel string) (ledger.Submission, error) {
	var r submissionRow
	found, err := t.row(`SELECT `+submissionColumns+` FROM submissions WHERE channel = $1`, args{[]byte(channel)}, r.fields()...)
	if err == nil && !found {
		err = fmt.Errorf("submission: %w", database.ErrNotFound)
	}
	if err != nil {
		return ledger.Submission{}, err
	}
	return r.submission(), nil
}

// submissions returns the submissions in a state after a channel.
func (t moneyTx) submissions(state ledger.SubmissionState, after string, limit int) ([]ledger.Submission, error) {
	var r submissionRow
	var list []ledger.Submission
	err := t.each(`SELECT `+submissionColumns+` FROM submissions WHERE state <> 1 AND state = $1 AND channel > $2 ORDER BY channel LIMIT ($3 + 0)`,
		args{int64(state), []byte(after), int64(limit)}, r.fields(), func() error {
			list = append(list, r.submission())
			return nil
		})
	return list, err
}

// SubmissionsInFlight implements ledger.Submissions.
func (s *Ledger) SubmissionsInFlight(ctx context.Context, after string, limit int) ([]ledger.Submission, error) {
	return resultOf(ctx, s.read, func(t moneyTx) ([]ledger.Submission, error) {
		return t.submissions(ledger.InFlight, after, limit)
	})
}

// FailedSubmissions implements ledger.Submissions.
func (s *Ledger) FailedSubmissions(ctx context.Context, limit int) ([]ledger.Submission, error) {
	return resultOf(ctx, s.read, func(t moneyTx) ([]ledger.Submission, error) {
		return t.submissions(ledger.Failed, "", limit)
	})
}

// Submission implements ledger.Submissions.
func (s *Ledger) Submission(ctx context.Context, channel string) (ledger.Submission, error) {
	return resultOf(ctx, s.read, func(t moneyTx) (ledger.Submission, error) { return t.submission(channel) })
}

// errOtherOutcome is the error of a second outcome of a submission.
var errOtherOutcome = errors.New("sqlstore: the submission has ended differently")

// EndSubmission implements ledger.Submissions.
func (s *Ledger) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	return s.writeLocked(ctx, func(t moneyTx) error {
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

func (t moneyTx) endSubmission(before ledger.Channel, sub ledger.Submission, o ledger.Outcome) error {
	id := []byte(before.ID)
	if _, err := t.exec(`UPDATE submissions SET state = $2, status = $3, ended = $4, body = $5 WHERE channel = $1`,
		id, int64(o.State), optionalColumn(o.Status), micros(t.now), []byte{}); err != nil {
		return err
	}
	c := before
	c.Submitted = 0
	if o.State == ledger.Collected {
		countCollected(&c, sub, max(o.Withdrawn, o.Reading.Withdrawn))
	}
	applyReading(&c, o.Reading, sub.Amount, t.now)
	settleElsewhere(&c)
	sellAgain(before, &c, sub)
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
		if _, err := t.exec(`UPDATE settlements SET due = $2 WHERE channel = $1 AND due > $2`, id, micros(t.now)); err != nil {
			return err
		}
	}
	if o.Halt == "" {
		return nil
	}
	_, err := t.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, []byte(haltFact), []byte(o.Halt))
	return err
}

// haltFact is the name of the property with the reason why settling has halted.
const haltFact = "settling halted"

// halted returns a *ledger.StoppedError if settling has halted.
func (t moneyTx) halted() error {
	var reason string
	found, err := t.row(`SELECT value FROM facts WHERE name = $1`, args{[]byte(haltFact)}, &reason)
	if err == nil && found {
		err = &ledger.StoppedError{Reason: reason}
	}
	return err
}

// Halted implements ledger.Submissions.
func (s *Ledger) Halted(ctx context.Context) (string, error) {
	err := s.read(ctx, moneyTx.halted)
	if stopped, ok := errors.AsType[*ledger.StoppedError](err); ok {
		return stopped.Reason, nil
	}
	return "", err
}

// Resume implements ledger.Submissions.
func (s *Ledger) Resume(ctx context.Context) error {
	return s.write(ctx, func(t moneyTx) error {
		t.free = true
		n, err := t.exec(`DELETE FROM facts WHERE name = $1`, []byte(haltFact))
		if err == nil && n == 0 {
			err = fmt.Errorf("halt: %w", database.ErrNotFound)
		}
		return err
	})
}

// StopSelling implements ledger.Submissions.
func (s *Ledger) StopSelling(ctx context.Context, channel string, sequence int64, reason string) error {
	return s.writeLocked(ctx, func(t moneyTx) error {
		// The channel first: its lock excludes that the submission ends meanwhile.
		c, err := t.channel(channel)
		if err != nil {
			return ignoreNotFound(err)
		}
		sub, err := t.submission(channel)
		if err != nil || sub.Sequence != sequence || sub.State != ledger.InFlight || c.Stopped == reason {
			return ignoreNotFound(err)
		}
		_, err = t.exec(`UPDATE channels SET stopped = $2 WHERE id = $1`, []byte(channel), optionalColumn(reason))
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
	return s.writeLocked(ctx, func(t moneyTx) error {
		_, err := t.exec(`UPDATE settlements SET due = $3 WHERE channel = $1 AND sequence = $2 AND due IS NOT NULL`, []byte(channel), sequence, micros(due))
		return err
	})
}

// Unsettled implements ledger.Channels. A payment that is pending or in flight includes the amounts of
// those before it.
func (s *Ledger) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	var u ledger.Unsettled
	err := s.read(ctx, func(t moneyTx) error {
		var err error
		if u.Overdue, err = t.overdue(); err != nil {
			return err
		}
		if _, err := t.row(`SELECT COUNT(*), CAST(COALESCE(SUM(elsewhere), 0) AS BIGINT) FROM channels WHERE elsewhere > 0`, nil,
			(*integer)(&u.Elsewhere.Channels), (*integer)(&u.Elsewhere.Amount)); err != nil {
			return err
		}
		var channels, amount, kind int64
		sums := []*ledger.UnsettledSum{&u.Expired, &u.Failed, &u.Waiting}
		return t.each(`SELECT k.kind, COUNT(*), CAST(SUM(c.accepted - c.settled) AS BIGINT) FROM (
				SELECT n.channel, MAX(n.kind) AS kind FROM (
					SELECT channel, CASE WHEN expires > $1 THEN 2 ELSE 0 END AS kind FROM settlements
					UNION ALL SELECT channel, CASE WHEN state = 0 THEN 2 WHEN state = 2 THEN 1 ELSE 0 END FROM submissions WHERE state <> 1
				) n GROUP BY n.channel) k
			JOIN channels c ON c.id = k.channel WHERE c.accepted > c.settled GROUP BY k.kind`,
			args{t.now.UnixMicro()}, args{(*integer)(&kind), (*integer)(&channels), (*integer)(&amount)}, func() error {
				*sums[kind] = ledger.UnsettledSum{Channels: channels, Amount: amount}
				return nil
			})
	})
	return u, err
}

// overdue returns ledger.Unsettled.Overdue.
func (t moneyTx) overdue() (time.Duration, error) {
	var since time.Time
	_, err := t.row(`SELECT MIN(w.since) FROM (
			SELECT MIN(due) AS since FROM settlements WHERE due IS NOT NULL
			UNION ALL SELECT MIN(begun) FROM submissions WHERE state <> 1 AND state = 0
		) w`, nil, (*instant)(&since))
	if err != nil || since.IsZero() {
		return 0, err
	}
	return max(0, t.now.Sub(since)), nil
}
