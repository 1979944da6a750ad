package ledgertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

func TestBrokenSubmissionsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "forgets what it submits", Break: func(h dbtest.Handle, path string) dbtest.Handle { return forgetsSubmission{h, path} }, Caught: []string{"submissions/outcomes", "submissions/many"}},
		{Name: "submits twice", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return submitsTwice{h} }, Caught: []string{"submissions/outcomes", "submissions/racing"}},
		{Name: "postpones what is due", Break: func(h dbtest.Handle, path string) dbtest.Handle { return postpones{h, path} }, Caught: []string{"submissions/due"}},
		{Name: "submits each payment", Break: func(h dbtest.Handle, path string) dbtest.Handle { return hurries{h, path} }, Caught: []string{"submissions/due", "submissions/settle-at"}},
		{Name: "offers only what has not expired", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return offersUnexpired{h} }, Caught: []string{"submissions/due"}},
		{Name: "settles what has failed", Break: func(h dbtest.Handle, path string) dbtest.Handle { return settlesFailed{h, path} }, Caught: []string{"submissions/outcomes", "model/submissions"}},
		{Name: "sells after a failure", Break: func(h dbtest.Handle, path string) dbtest.Handle { return sellsOn{h, path} }, Caught: []string{"submissions/newer", "model/submissions"}},
		{Name: "loses the newer payment", Break: func(h dbtest.Handle, path string) dbtest.Handle { return losesNewer{h, path} }, Caught: []string{"submissions/newer", "model/submissions"}},
		{Name: "changes an outcome", Break: func(h dbtest.Handle, path string) dbtest.Handle { return changesOutcome{h, path} }, Caught: []string{"submissions/outcomes", "model/submissions"}},
		{Name: "forgets the halt", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return neverHalts{h} }, Caught: []string{"submissions/halt"}},
		{Name: "believes an older version of the chain", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return believesAll{h} }, Caught: []string{"channels/readings", "model/submissions"}},
		{Name: "forgets what was withdrawn", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return forgetsWithdrawn{h} }, Caught: []string{"channels/on-chain", "model/submissions"}},
		{Name: "forgets what was withdrawn before the end", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return forgetsEnded{h} }, Caught: []string{"submissions/gone"}},
		{Name: "counts nothing as failed", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return nothingFailed{h} }, Caught: []string{"submissions/unsettled"}},
		{Name: "reports nothing as overdue", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return nothingOverdue{h} }, Caught: []string{"submissions/overdue"}},
		{Name: "reports as overdue what is not due", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return allOverdue{h} }, Caught: []string{"submissions/overdue"}},
	})
}

type forgetsSubmission struct {
	dbtest.Handle
	path string
}

func (s forgetsSubmission) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	return errors.Join(s.Handle.BeginSubmission(ctx, sub), dbtest.Query(ctx, s.path, `DELETE FROM submissions`))
}

// submitsTwice does not check that a submission is in flight.
type submitsTwice struct{ dbtest.Handle }

func (s submitsTwice) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	if err := s.Handle.BeginSubmission(ctx, sub); !errors.Is(err, database.ErrExists) {
		return err
	}
	return nil
}

// postpones lets each replacement begin the time anew.
type postpones struct {
	dbtest.Handle
	path string
}

func (s postpones) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	half := s.Now().Add(r.Payment.Expires.Sub(s.Now()) / 2)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, `UPDATE settlements SET due = $1 WHERE due IS NOT NULL AND channel = $2`, half.UnixMicro(), []byte(out.ID)))
}

type hurries struct {
	dbtest.Handle
	path string
}

func (s hurries) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Handle.PayRead(ctx, r)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, `UPDATE settlements SET due = $1 WHERE due IS NOT NULL`, s.Now().UnixMicro()))
}

type offersUnexpired struct{ dbtest.Handle }

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
	dbtest.Handle
	path string
}

func (s settlesFailed) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	err := s.Handle.EndSubmission(ctx, channel, sequence, o)
	if o.State == ledger.Failed && err == nil {
		err = dbtest.Query(ctx, s.path, `UPDATE channels SET settled = accepted WHERE id = $1`, []byte(channel))
	}
	return err
}

type sellsOn struct {
	dbtest.Handle
	path string
}

func (s sellsOn) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	return errors.Join(s.Handle.EndSubmission(ctx, channel, sequence, o),
		dbtest.Query(ctx, s.path, `UPDATE channels SET stopped = NULL WHERE id = $1`, []byte(channel)))
}

type losesNewer struct {
	dbtest.Handle
	path string
}

func (s losesNewer) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	return errors.Join(s.Handle.EndSubmission(ctx, channel, sequence, o),
		dbtest.Query(ctx, s.path, `DELETE FROM settlements WHERE channel = $1`, []byte(channel)))
}

// changesOutcome accepts a second outcome.
type changesOutcome struct {
	dbtest.Handle
	path string
}

func (s changesOutcome) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	err := s.Handle.EndSubmission(ctx, channel, sequence, o)
	last, err2 := s.Submission(ctx, channel)
	if err == nil || err2 != nil || last.Sequence != sequence || last.State == o.State {
		return err
	}
	return dbtest.Query(ctx, s.path, `UPDATE submissions SET state = $1 WHERE channel = $2`, int64(o.State), []byte(channel))
}

type neverHalts struct{ dbtest.Handle }

func (s neverHalts) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	o.Halt = ""
	return s.Handle.EndSubmission(ctx, channel, sequence, o)
}

type believesAll struct{ dbtest.Handle }

func (s believesAll) RecordReading(ctx context.Context, id string, r ledger.Reading) (ledger.Channel, error) {
	if c, err := s.Channel(ctx, id); err == nil && r.ChainTime.Before(c.ChainTime) {
		r.ChainTime = c.ChainTime
	}
	return s.Handle.RecordReading(ctx, id, r)
}

type forgetsWithdrawn struct{ dbtest.Handle }

func (s forgetsWithdrawn) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	c.Withdrawn = 0
	return s.Handle.OpenChannel(ctx, c, idem)
}

type nothingFailed struct{ dbtest.Handle }

func (s nothingFailed) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	u.Failed = ledger.UnsettledSum{}
	return u, err
}

type forgetsEnded struct{ dbtest.Handle }

func (s forgetsEnded) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	if o.Reading.Gone {
		o.Reading.Withdrawn, o.Withdrawn = 0, 0
	}
	return s.Handle.EndSubmission(ctx, channel, sequence, o)
}

type nothingOverdue struct{ dbtest.Handle }

func (s nothingOverdue) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	u.Overdue = 0
	return u, err
}

type allOverdue struct{ dbtest.Handle }

func (s allOverdue) Unsettled(ctx context.Context) (ledger.Unsettled, error) {
	u, err := s.Handle.Unsettled(ctx)
	if u.Waiting.Channels > 0 {
		u.Overdue = max(u.Overdue, time.Second)
	}
	return u, err
}
