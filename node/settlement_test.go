package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/test/testenv"
)

// TestPaymentsAreCollectedWhereTheyWereAccepted checks that a node does not start with another
// chain, or with none, while payments wait.
// Invariant 101.
func TestPaymentsAreCollectedWhereTheyWereAccepted(t *testing.T) {
	const here, there = "chain 4, receiver 0x1, module 0x2", "chain 5, receiver 0x1, module 0x2"
	meta, clock := openDatabase(t)
	var log strings.Builder
	record := func(place string) error {
		return recordPlace(t.Context(), meta, place, slog.New(slog.NewTextHandler(&log, nil)))
	}
	starts := func(places ...string) {
		t.Helper()
		for _, place := range places {
			if err := record(place); err != nil {
				t.Errorf("%s: %v", place, err)
			}
		}
	}
	refused := func(last string, places ...string) {
		t.Helper()
		for _, place := range places {
			err := record(place)
			if !errors.Is(err, errOtherPlace) || !strings.Contains(err.Error(), "units over 1 channels by "+last+", and this node is configured for "+place) {
				t.Errorf("%s: %v", place, err)
			}
		}
	}
	_, err := meta.OpenChannel(t.Context(), ledger.Channel{ID: "c", Sender: "s", Receiver: "r", Asset: "a", Deposit: 100, Expires: clock.Now().Add(time.Hour)}, nil)
	testenv.OK(t, err)
	pay := func(sequence, amount int64) {
		t.Helper()
		_, err := meta.PayRead(t.Context(), ledger.ReadPurchase{Price: 1, Count: 1, Offer: ledger.Offer{Payment: ledger.Payment{
			Sender: "s", Receiver: "r", Asset: "a", Sequence: sequence, Amount: amount, Proof: []byte("p"), Expires: clock.Now().Add(time.Minute),
		}, Policy: ledger.Policy{UnsettledLimit: 100}}})
		testenv.OK(t, err)
	}
	pay(1, 5) // by a version that did not record the place
	refused(inLedger, here)
	starts(inLedger, inLedger)
	refused(inLedger, here)
	testenv.OK(t, meta.Book(t.Context(), []ledger.Settlement{{Channel: "c", Sequence: 1, Amount: 5}}))
	starts(here, there, here)

	pay(2, 10)
	starts(here)
	refused(here, there, inLedger, "chain 4, receiver 0x3, module 0x2")
	testenv.OK(t, meta.BeginSubmission(t.Context(), ledger.Submission{Channel: "c", Sequence: 2, Amount: 10, Body: []byte("b"), Expires: clock.Now()}))
	clock.Advance(2 * time.Minute)
	refused(here, there, inLedger) // its outcome is not known
	testenv.OK(t, meta.EndSubmission(t.Context(), "c", 2, ledger.Outcome{State: ledger.Expired}))
	if log.String() != "" {
		t.Errorf("logged: %s", log.String())
	}
	starts(there)
	if !strings.Contains(log.String(), "are not collected any more") || !strings.Contains(log.String(), "units=5 ") {
		t.Errorf("logged: %s", log.String())
	}
}
