package sqlstore

import (
	"errors"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
	"sluice/test/testenv"
)

// TestAuditOfDebts damages a channel's collected amount: the audit finds it.
// Invariant 169.
func TestAuditOfDebts(t *testing.T) {
	for _, damage := range []string{
		`UPDATE channels SET collected = 11`,
		`UPDATE channels SET collected = -1`,
		`UPDATE channels SET elsewhere = 1`,
		`UPDATE channels SET collected = 0, elsewhere = -1`,
		`UPDATE channels SET accepted = 9, folded = 9, sequence = 0`,
		`UPDATE submissions SET amount = 21`,
		`UPDATE submissions SET sequence = 2`,
		`DELETE FROM settlements`,
		`UPDATE settlements SET amount = 10`,
	} {
		s := openAt(t, databasePath(t), Options{})
		now := s.Now()
		pay := func(sequence, amount int64) {
			t.Helper()
			p := ledger.Offer{Payment: ledger.Payment{
				Sender: "s", Receiver: "r", Asset: "a", PaymentChannelID: 1, Sequence: sequence, Amount: amount, Proof: []byte("proof"),
				Expires: now.Add(time.Hour),
			}, Policy: ledger.Policy{UnsettledLimit: 100, SettleAt: 1}}
			testenv.Must(s.PayRead(t.Context(), ledger.ReadPurchase{Offer: p, Price: 1, Count: 1}))(t)
		}
		_, err := s.OpenChannel(t.Context(), ledger.Channel{
			ID: "c", PaymentChannelID: 1, Sender: "s", Receiver: "r", Asset: "a", Deposit: 100, Expires: now.Add(time.Hour), NextSequence: 1, ChainTime: now,
		}, nil)
		testenv.OK(t, err)
		pay(1, 10)
		testenv.OK(t, errors.Join(
			s.BeginSubmission(t.Context(), ledger.Submission{Channel: "c", Sequence: 1, Amount: 10, Expires: now.Add(time.Hour), Body: []byte{1}}),
			s.EndSubmission(t.Context(), "c", 1, ledger.Outcome{State: ledger.Collected, Withdrawn: 10}),
		))
		pay(2, 20)
		audited(t, s)
		testenv.OK(t, s.db.Write(t.Context(), func(tx *engine.Tx) error { _, err := tx.Exec(damage); return err }))
		if found, err := s.Audit(t.Context()); err != nil || len(found) == 0 {
			t.Errorf("%s: the audit found nothing, %v", damage, err)
		}
	}
}
