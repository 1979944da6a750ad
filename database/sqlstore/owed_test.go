package sqlstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/internal/testenv"
	"sluice/ledger"
)

// owedVersion is the schema version before channels knew what was collected over them.
const owedVersion = 17

// TestMigratesDebts opens databases from the version before debts could be renewed, on both
// engines: what was settled over a channel that submitted something counts as collected; what has
// expired can be renewed; a channel that had stopped, because more was withdrawn than accepted,
// sells again after a reading. The database stays consistent while that version's node submits and
// collects.
func TestMigratesDebts(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	number := 0
	channel := func(id string, accepted, settled, withdrawn int, ledger, stopped string) string {
		number++
		return fmt.Sprintf(`
			INSERT INTO channels (id, payment_channel_id, sender, receiver, asset, deposit, created, expires, accepted, sequence, proof, settled, folded, withdrawn, next_sequence, ledger, read_at, stopped)
			VALUES (%s, %d, %s, %s, %s, 100, 1, 4000000000000000, %d, 1, %s, %d, %d, %d, 1, %s, %s, %s);`,
			b(id), number, b("s"), b("r"), b("a"), accepted, b("proof"), settled, accepted, withdrawn, ledger, ledger, stopped)
	}
	submission := func(id string, amount, state int) string {
		return fmt.Sprintf(`
			INSERT INTO submissions (channel, sequence, amount, hash, body, expires, state, begun) VALUES (%s, 1, %d, %s, %s, 1, %d, 1);`,
			b(id), amount, b("hash"), b(""), state)
	}
	rows := channel("collected", 50, 50, 50, "1", "NULL") + submission("collected", 50, 1) +
		channel("embedded", 20, 20, 0, "NULL", "NULL") +
		channel("restored", 10, 0, 60, "1", b("60 units were withdrawn from the channel on the chain, and 10 were accepted here")) + `
			INSERT INTO settlements (channel, sequence, amount, proof, expires, due) VALUES (` + b("restored") + `, 1, 10, ` + b("proof") + `, 1, 1);` +
		channel("expired", 40, 0, 0, "1", "NULL") + submission("expired", 40, 3)
	onOlder(t, owedVersion, rows, func(t *testing.T, s *Store) {
		older := func(statement string) {
			t.Helper()
			executeOlder(t, s, statement)
		}
		look := func(id string, want func(c ledger.Channel) bool) {
			t.Helper()
			c, err := s.Channel(t.Context(), id)
			if err != nil || !want(c) {
				t.Errorf("the channel %s is %+v, %v", id, c, err)
			}
			audited(t, s)
		}
		look("collected", func(c ledger.Channel) bool {
			return c.Collected == 50 && c.Elsewhere == 0 && c.Form == "" && c.ChainCreated.IsZero()
		})
		look("embedded", func(c ledger.Channel) bool { return c.Collected == 0 && c.Settled == 20 })
		look("expired", func(c ledger.Channel) bool { return c.Expired == 40 })
		list := testenv.Must(s.Settlements(t.Context(), ledger.Settlement{}, 10))(t)
		if len(list) != 1 || list[0].Channel != "restored" {
			t.Errorf("the settlements are %+v", list)
		}
		read := ledger.Reading{Deposit: 100, Withdrawn: 60, NextSequence: 9, Expires: s.Now().Add(time.Hour), Created: s.Now().Add(-time.Hour), ChainTime: s.Now()}
		testenv.Must(s.RecordReading(t.Context(), "restored", read))(t)
		look("restored", func(c ledger.Channel) bool {
			return c.Accepted == 10 && c.Settled == 60 && c.Elsewhere == 60 && c.Sequence == 1 && c.NextSequence == 9 && c.Credit == 0 && c.State(s.Now()) == ledger.ChannelOpen
		})
		renewal := ledger.Offer{Payment: ledger.Payment{
			Sender: "s", Receiver: "r", Asset: "a", PaymentChannelID: 4, Sequence: 2, Amount: 40, Proof: []byte("renewal"), Expires: s.Now().Add(time.Hour),
		}, Policy: ledger.Policy{SettleAt: 1}}
		testenv.Must(s.Renew(t.Context(), renewal))(t)
		look("expired", func(c ledger.Channel) bool { return c.Expired == 0 && c.Sequence == 2 })

		older(`DELETE FROM settlements WHERE channel = ` + b("expired"))
		older(`UPDATE submissions SET sequence = 2, amount = 40, state = 0 WHERE channel = ` + b("expired"))
		older(`UPDATE channels SET submitted = 40 WHERE id = ` + b("expired"))
		look("expired", func(c ledger.Channel) bool { return c.Expired == 0 })
		read.Withdrawn = 40
		testenv.Must(s.RecordReading(t.Context(), "expired", read))(t)
		look("expired", func(c ledger.Channel) bool { return c.Settled == 0 && c.Withdrawn == 40 })
		older(`UPDATE submissions SET state = 1 WHERE channel = ` + b("expired"))
		older(`UPDATE channels SET submitted = 0, settled = 40 WHERE id = ` + b("expired"))
		testenv.Must(s.RecordReading(t.Context(), "expired", read))(t)
		look("expired", func(c ledger.Channel) bool { return c.Settled == 40 && c.Elsewhere == 0 && c.Collected == 0 })
	})
}

// TestAuditOfDebts damages what was collected over a channel: the audit finds it.
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
