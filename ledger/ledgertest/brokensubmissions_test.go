package ledgertest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

// Invariants 164, 167.
func TestBrokenSubmissionsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "forgets submissions", Schema: dbtest.On(`AFTER INSERT ON submissions`, `DELETE FROM submissions`), Caught: []string{"submissions/outcomes", "submissions/many"}},
		{Name: "submits twice", Break: dbtest.Broken[submitsTwice], Caught: []string{"submissions/outcomes", "submissions/racing"}},
		{Name: "postpones due settlements", Break: dbtest.Broken[postpones], Caught: []string{"submissions/due"}},
		{Name: "submits each payment", Schema: dbtest.On(`AFTER INSERT ON settlements WHEN NEW.due IS NOT NULL`, `UPDATE settlements SET due = 0 WHERE channel = NEW.channel`), Caught: []string{"submissions/due", "submissions/settle-at"}},
		{Name: "offers only settlements that have not expired", Break: dbtest.Broken[offersUnexpired], Caught: []string{"submissions/due"}},
		{Name: "settles failed submissions", Break: dbtest.Broken[settlesFailed], Caught: []string{"submissions/outcomes", "model/submissions"}},
		{Name: "sells after a failure", Schema: dbtest.On(`AFTER UPDATE OF stopped ON channels`, `UPDATE channels SET stopped = NULL WHERE id = NEW.id`), Caught: []string{"submissions/newer", "model/submissions"}},
		{Name: "loses the newer payment", Schema: dbtest.On(`AFTER UPDATE OF state ON submissions`, `DELETE FROM settlements WHERE channel = NEW.channel`), Caught: []string{"submissions/newer", "model/submissions"}},
		{Name: "changes an outcome", Break: dbtest.Broken[changesOutcome], Caught: []string{"submissions/outcomes", "model/submissions"}},
		{Name: "forgets the halt", Break: outcome(func(o *ledger.Outcome) { o.Halt = "" }), Caught: []string{"submissions/halt"}},
		{Name: "believes an older version of the chain", Break: reading(func(before ledger.Channel, _ time.Time, r *ledger.Reading) {
			if r.ChainTime.Before(before.ChainTime) {
				r.ChainTime = before.ChainTime
			}
		}, ""), Caught: []string{"channels/readings", "model/submissions"}},
		{Name: "forgets the withdrawn amount", Schema: dbtest.On(`AFTER INSERT ON channels`, `UPDATE channels SET withdrawn = 0 WHERE id = NEW.id`), Caught: []string{"channels/on-chain", "model/submissions"}},
		{Name: "forgets the amount withdrawn before the end", Break: outcome(func(o *ledger.Outcome) {
			if o.Reading.Gone {
				o.Reading.Withdrawn, o.Withdrawn = 0, 0
			}
		}), Caught: []string{"submissions/gone"}},
		{Name: "counts nothing as failed", Break: unsettled(func(u *ledger.Unsettled) { u.Failed = ledger.UnsettledSum{} }), Caught: []string{"submissions/unsettled"}},
		{Name: "reports nothing as overdue", Break: unsettled(func(u *ledger.Unsettled) { u.Overdue = 0 }), Caught: []string{"submissions/overdue"}},
		{Name: "reports settlements as overdue that are not due", Break: unsettled(func(u *ledger.Unsettled) {
			if u.Waiting.Channels > 0 {
				u.Overdue = max(u.Overdue, time.Second)
			}
		}), Caught: []string{"submissions/overdue"}},
	})
}

// submitsTwice does not check that a submission is in flight.
type submitsTwice struct{ dbtest.Correct }

func (s submitsTwice) BeginSubmission(ctx context.Context, sub ledger.Submission) error {
	if err := s.Correct.BeginSubmission(ctx, sub); !errors.Is(err, database.ErrExists) {
		return err
	}
	return nil
}

// postpones lets each replacement begin the time anew.
type postpones struct{ dbtest.Correct }

func (s postpones) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	out, err := s.Correct.PayRead(ctx, r)
	half := s.Now().Add(r.Offer.Expires.Sub(s.Now()) / 2)
	return out, errors.Join(err, s.Exec(ctx, `UPDATE settlements SET due = $1 WHERE due IS NOT NULL AND channel = $2`, half.UnixMicro(), []byte(out.ID)))
}

type offersUnexpired struct{ dbtest.Correct }

func (s offersUnexpired) DueSettlements(ctx context.Context, ahead time.Duration, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	all, err := s.Correct.DueSettlements(ctx, ahead, after, limit)
	return slices.DeleteFunc(all, func(one ledger.Settlement) bool { return !one.Expires.After(s.Now()) }), err
}

type settlesFailed struct{ dbtest.Correct }

func (s settlesFailed) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	err := s.Correct.EndSubmission(ctx, channel, sequence, o)
	if o.State == ledger.Failed && err == nil {
		err = s.Exec(ctx, `UPDATE channels SET settled = accepted WHERE id = $1`, []byte(channel))
	}
	return err
}

// changesOutcome accepts a second outcome.
type changesOutcome struct{ dbtest.Correct }

func (s changesOutcome) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) error {
	err := s.Correct.EndSubmission(ctx, channel, sequence, o)
	last, err2 := s.Submission(ctx, channel)
	if err == nil || err2 != nil || last.Sequence != sequence || last.State == o.State {
		return err
	}
	return s.Exec(ctx, `UPDATE submissions SET state = $1 WHERE channel = $2`, int64(o.State), []byte(channel))
}
