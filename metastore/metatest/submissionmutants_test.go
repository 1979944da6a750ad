package metatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/metastore/metatest"
)

func TestBrokenSubmissionsAreCaught(t *testing.T) {
	catch(t, []mutant{
		{"forgets what it submits", func(h metatest.Handle, path string) metatest.Handle { return forgetsSubmission{h, path} }, []string{"submissions/outcomes", "submissions/many"}},
		{"submits twice", func(h metatest.Handle, _ string) metatest.Handle { return submitsTwice{h} }, []string{"submissions/outcomes", "submissions/racing"}},
		{"postpones what is due", func(h metatest.Handle, path string) metatest.Handle { return postpones{h, path} }, []string{"submissions/due"}},
		{"submits each payment", func(h metatest.Handle, path string) metatest.Handle { return hurries{h, path} }, []string{"submissions/due", "submissions/settle-at"}},
		{"offers only what has not expired", func(h metatest.Handle, _ string) metatest.Handle { return offersUnexpired{h} }, []string{"submissions/due"}},
		{"settles what has failed", func(h metatest.Handle, path string) metatest.Handle { return settlesFailed{h, path} }, []string{"submissions/outcomes", "model/submissions"}},
		{"sells after a failure", func(h metatest.Handle, path string) metatest.Handle { return sellsOn{h, path} }, []string{"submissions/newer", "model/submissions"}},
		{"loses the newer payment", func(h metatest.Handle, path string) metatest.Handle { return losesNewer{h, path} }, []string{"submissions/newer", "model/submissions"}},
		{"changes an outcome", func(h metatest.Handle, path string) metatest.Handle { return changesOutcome{h, path} }, []string{"submissions/outcomes", "model/submissions"}},
		{"forgets the halt", func(h metatest.Handle, _ string) metatest.Handle { return neverHalts{h} }, []string{"submissions/halt"}},
		{"believes an older ledger", func(h metatest.Handle, _ string) metatest.Handle { return believesAll{h} }, []string{"channels/readings", "model/submissions"}},
		{"forgets what was withdrawn", func(h metatest.Handle, _ string) metatest.Handle { return forgetsWithdrawn{h} }, []string{"channels/on-chain", "model/submissions"}},
		{"forgets what was withdrawn before the end", func(h metatest.Handle, _ string) metatest.Handle { return forgetsEnded{h} }, []string{"submissions/gone", "model/submissions"}},
		{"counts nothing as failed", func(h metatest.Handle, _ string) metatest.Handle { return nothingFailed{h} }, []string{"submissions/unsettled"}},
		{"reports nothing as overdue", func(h metatest.Handle, _ string) metatest.Handle { return nothingOverdue{h} }, []string{"submissions/overdue"}},
		{"reports as overdue what is not due", func(h metatest.Handle, _ string) metatest.Handle { return allOverdue{h} }, []string{"submissions/overdue"}},
	})
}

type forgetsSubmission struct {
	metatest.Handle
	path string
}

func (s forgetsSubmission) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	return errors.Join(s.Handle.BeginSubmission(ctx, sub), query(ctx, s.path, `DELETE FROM submissions`))
}

// submitsTwice does not check that a submission is in flight.
type submitsTwice struct{ metatest.Handle }

func (s submitsTwice) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	if err := s.Handle.BeginSubmission(ctx, sub); !errors.Is(err, database.ErrExists) {
		return err
	}
	return nil
}

// postpones lets each replacement begin the time anew.
type postpones struct {
	metatest.Handle
	path string
}

func (s postpones) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	half := s.Now().Add(r.Payment.Expires.Sub(s.Now()) / 2)
	return out, errors.Join(err, query(ctx, s.path, `UPDATE settlements SET due = $1 WHERE due IS NOT NULL AND channel = $2`, half.UnixMicro(), []byte(out.ID)))
}

type hurries struct {
	metatest.Handle
	path string
}

func (s hurries) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	return out, errors.Join(err, query(ctx, s.path, `UPDATE settlements SET due = $1 WHERE due IS NOT NULL`, s.Now().UnixMicro()))
}

type offersUnexpired struct{ metatest.Handle }

func (s offersUnexpired) DueSettlements(ctx context.Context, ahead time.Duration, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	all, err := s.Handle.DueSettlements(ctx, ahead, after, limit)
	var live []ledger.Settlement
	for _, one := range all {
		if one.Expires.After(s.Now()) {
			live = append(live, one)
		}
	}
	return live, err
}

type settlesFailed struct {
	metatest.Handle
	path string
}

func (s settlesFailed) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	err := s.Handle.EndSubmission(ctx, channel, sequence, o)
	if o.State == ledger.Failed && err == nil {
		err = query(ctx, s.path, `UPDATE channels SET settled = accepted WHERE id = $1`, []byte(channel))
	}
	return err
}

type sellsOn struct {
	metatest.Handle
	path string
}

func (s sellsOn) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	return errors.Join(s.Handle.EndSubmission(ctx, channel, sequence, o),
		query(ctx, s.path, `UPDATE channels SET stopped = NULL WHERE id = $1`, []byte(channel)))
}

type losesNewer struct {
	metatest.Handle
	path string
}

func (s losesNewer) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	return errors.Join(s.Handle.EndSubmission(ctx, channel, sequence, o),
		query(ctx, s.path, `DELETE FROM settlements WHERE channel = $1`, []byte(channel)))
}

// changesOutcome accepts a second outcome.
type changesOutcome struct {
	metatest.Handle
	path string
}

func (s changesOutcome) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	err := s.Handle.EndSubmission(ctx, channel, sequence, o)
	last, err2 := s.Submission(ctx, channel)
	if err == nil || err2 != nil || last.Sequence != sequence || last.State == o.State {
		return err
	}
	return query(ctx, s.path, `UPDATE submissions SET state = $1 WHERE channel = $2`, int64(o.State), []byte(channel))
}

type neverHalts struct{ metatest.Handle }

func (s neverHalts) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	o.Halt = ""
	return s.Handle.EndSubmission(ctx, channel, sequence, o)
}

type believesAll struct{ metatest.Handle }

func (s believesAll) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	if c, err := s.Channel(ctx, id); err == nil && r.ChainTime.Before(c.ChainTime) {
		r.ChainTime = c.ChainTime
	}
	return s.Handle.RecordReading(ctx, id, r)
}

type forgetsWithdrawn struct{ metatest.Handle }

func (s forgetsWithdrawn) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	c.Withdrawn = 0
	return s.Handle.OpenChannel(ctx, c, idem)
}

type nothingFailed struct{ metatest.Handle }

func (s nothingFailed) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	u.Failed = ledger.UnsettledSum{}
	return u, err
}

type forgetsEnded struct{ metatest.Handle }

func (s forgetsEnded) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	if o.Reading.Gone {
		o.Reading.Withdrawn, o.Withdrawn = 0, 0
	}
	return s.Handle.EndSubmission(ctx, channel, sequence, o)
}

type nothingOverdue struct{ metatest.Handle }

func (s nothingOverdue) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	u.Overdue = 0
	return u, err
}

type allOverdue struct{ metatest.Handle }

func (s allOverdue) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	if u.Waiting.Channels > 0 {
		u.Overdue = max(u.Overdue, time.Second)
	}
	return u, err
}
