package client

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"sluice/micropay"
	"sluice/test/testenv"
)

// stateForTest returns a state with a pending purchase.
func stateForTest(t testing.TB) *payerState {
	t.Helper()
	key := testenv.Must(micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{1}, 32)))(t)
	signer := testenv.Must(micropay.NewSigner(micropay.SchemeEd25519, key))(t)
	m := testenv.Must(signer.Sign(micropay.Payment{Amount: 30, Sequence: 7, PaymentChannelID: 5}))(t)
	return &payerState{
		Version: stateVersion, Service: "http://localhost:9090", Account: signer.Address().String(), Mark: 9, Earlier: 3, SessionID: "S",
		Terms: &Terms{"0xa", "0xb", "0xc", 4},
		Channel: &channelRecord{
			ID: "C", PaymentChannelID: 5, Sequence: 7, Signed: 30, Bought: 20,
			Pending: &purchase{ID: "P", Amount: 30, Chunksets: 10, SessionID: "S", Total: 20, Micropayments: []string{m.Base64()}},
		},
	}
}

// FuzzParseState checks that the parser of state files accepts nothing that is inconsistent, and
// that an accepted state is written so that it is read back.
func FuzzParseState(f *testing.F) {
	full := stateForTest(f)
	opening := *full
	opening.Channel, opening.SessionID = &channelRecord{OpenKey: "K", PaymentChannelID: 5, Deposit: 9}, ""
	for _, s := range []*payerState{full, &opening, {Version: stateVersion, Account: "0x1"}} {
		text := testenv.Must(json.Marshal(s))(f)
		f.Add(text)
	}
	f.Add([]byte(`{"version":1,"account":"0x1","channel":{}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseState(text)
		if err != nil {
			return
		}
		if c := s.Channel; c != nil {
			if spent := s.spent(time.Now()); c.Bought > c.Signed || spent < c.Bought || spent > maxAmount {
				t.Fatalf("%q: signed %d, bought %d, spent %d", text, c.Signed, c.Bought, spent)
			}
			if p := c.Pending; p != nil && (p.Amount > c.Signed || p.Amount <= c.Bought || len(p.Micropayments) == 0) {
				t.Fatalf("%q: the pending purchase is inconsistent", text)
			}
		}
		written := testenv.Must(json.Marshal(s))(t)
		again, err := parseState(written)
		if err != nil {
			t.Fatalf("%q was accepted, and its own form %q was not: %v", text, written, err)
		}
		if !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is read back as %+v", text, again)
		}
	})
}

// TestInconsistentPurchases checks that a state is refused if its pending purchase does not belong
// to its channel.
func TestInconsistentPurchases(t *testing.T) {
	testenv.OK(t, stateForTest(t).check())
	for name, change := range map[string]func(*payerState){
		"other channel":    func(s *payerState) { s.Channel.PaymentChannelID++ },
		"other amount":     func(s *payerState) { s.Channel.Pending.Amount-- },
		"other account":    func(s *payerState) { s.Account = "0x1" },
		"later sequence":   func(s *payerState) { s.Channel.Sequence-- },
		"not signed":       func(s *payerState) { s.Channel.Signed-- },
		"no chunksets":     func(s *payerState) { s.Channel.Pending.Chunksets = 0 },
		"no id":            func(s *payerState) { s.Channel.Pending.ID = "" },
		"no micropayment":  func(s *payerState) { s.Channel.Pending.Micropayments = nil },
		"not base64":       func(s *payerState) { s.Channel.Pending.Micropayments[0] = "?" },
		"a sum too large":  func(s *payerState) { s.Earlier = maxAmount - 29 },
		"unopened channel": func(s *payerState) { s.Channel.ID = "" },
	} {
		s := stateForTest(t)
		change(s)
		if err := s.check(); err == nil {
			t.Errorf("%s: the state was accepted", name)
		}
	}
}
