package main

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/cli"
	"sluice/internal/datadir"
	"sluice/ledger"
	"sluice/session"
	"sluice/storage"
	"sluice/test/testenv"
)

// TestAudit audits consistent ledgers while a server runs, and then ledgers that
// were changed.
func TestAudit(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	if r := sluice("check", "--books", "--data", data); r.code != cli.ExitNotFound || !strings.Contains(r.stderr, "there is no data") {
		t.Errorf("without data: %+v", r)
	}
	s := opened(t, data)
	sessions := session.New(s.Meta, session.Options{Grant: 10})
	granted := testenv.Must(sessions.Grant(t.Context(), "", nil))(t)
	testenv.OK(t, testenv.Error(sessions.Use(t.Context(), granted.ID, 3, nil)))
	if r := must(t, "check", "--books", "--data", data); r.stdout != "The ledgers and the counts of accounts are consistent.\n" {
		t.Errorf("in order: %+v", r)
	}
	payOver(t, s, "c", time.Now().Add(-time.Second))
	const expired = "Expired before they were collected: payments over 1 channels, 5 units in all.\n"
	if r := must(t, "check", "--books", "--data", data); r.stdout != expired+"The ledgers and the counts of accounts are consistent.\n" {
		t.Errorf("with a payment that expired: %+v", r)
	}
	testenv.OK(t, s.Meta.Book(t.Context(), []ledger.Settlement{{Channel: "c", Sequence: 1, Amount: 5}}))
	change(t, data, `UPDATE sessions SET used = used + 1`)
	r := sluice("check", "--books", "--data", data)
	if r.code != cli.ExitDamaged || strings.Count(r.stdout, "\n") != 1 || !strings.Contains(r.stderr, "inconsistencies in the metadata: 1") {
		t.Errorf("changed: %+v", r)
	}
	if r := sluice("check", "--books", "--json", "--data", data); r.code != cli.ExitDamaged || !strings.HasPrefix(r.stdout, `{"consistent":false,"faults":["`) {
		t.Errorf("changed, in JSON: %+v", r)
	}
	if strings.Contains(r.stdout, granted.ID) {
		t.Errorf("the audit prints the id of a session: %s", r.stdout)
	}
}

// TestAuditPrintsWhatIsNotCollected audits an instance after its chain has refused a payment
// and contradicted the contract.
// Invariant 166.
func TestAuditPrintsWhatIsNotCollected(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	s := opened(t, data)
	for i, o := range []ledger.Outcome{
		{State: ledger.Failed, Status: "Move abort: EFROZEN\n\x1b[2J"},
		{State: ledger.Collected, Halt: "5 units are withdrawn, not 4"},
	} {
		id := []string{"refused", "contradicted"}[i]
		expires := time.Now().Add(time.Hour)
		payOver(t, s, id, expires)
		sent := ledger.Submission{Channel: id, Sequence: 1, Amount: 5, Hash: [32]byte{0xab}, Body: []byte("b"), Expires: expires}
		testenv.OK(t, s.Meta.BeginSubmission(t.Context(), sent))
		o.Reading = ledger.Reading{Deposit: 9, Withdrawn: 5, NextSequence: 2, Expires: expires, ChainTime: time.Now()}
		testenv.OK(t, s.Meta.EndSubmission(t.Context(), id, 1, o))
	}
	r := sluice("check", "--books", "--data", data)
	for _, want := range []string{
		"Settling has halted, and nothing is sold until sluice resume settling: 5 units are withdrawn, not 4\n",
		"The chain refused payment 1 of channel refuse, 5 units in all: Move abort: EFROZEN\\n\\x1b[2J (transaction 0xab0000",
		"The ledgers and the counts of accounts are consistent.\n",
	} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("audit: %+v, want %q", r, want)
		}
	}
	testenv.OK(t, s.Meta.Resume(t.Context(), "5 units are withdrawn, not 4"))
	if r := sluice("check", "--books", "--data", data); strings.Contains(r.stdout, "halted") {
		t.Errorf("after the halt: %+v", r)
	}
}

// payOver opens a channel and makes a payment of 5 over it, which expires at a time.
func payOver(t *testing.T, s *storage.Stores, id string, expires time.Time) {
	t.Helper()
	c := ledger.Channel{ID: id, Sender: id, Receiver: "r", Asset: "a", Deposit: 9, Expires: time.Now().Add(time.Hour)}
	testenv.OK(t, testenv.Error(s.Meta.OpenChannel(t.Context(), c, nil)))
	pay := ledger.Offer{Payment: ledger.Payment{Sender: id, Receiver: "r", Asset: "a", Sequence: 1, Amount: 5, Proof: []byte("p"), Expires: expires}, Policy: ledger.Policy{UnsettledLimit: 9}}
	testenv.OK(t, testenv.Error(s.Meta.PayRead(t.Context(), ledger.ReadPurchase{Offer: pay, Price: 1, Count: 1})))
}

// change runs a statement on a data folder's database.
func change(t *testing.T, data, statement string) {
	t.Helper()
	db := testenv.Must(sql.Open("sqlite", filepath.Join(data, datadir.Database)))(t)
	_, err := db.Exec(statement)
	testenv.OK(t, errors.Join(err, db.Close()))
}
