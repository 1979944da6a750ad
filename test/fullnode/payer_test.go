package fullnode_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// TestPublicClientOpensChannels opens, extends, tops up and ends channels with the public client,
// as payers of each scheme, with and without a nonce.
func TestPublicClientOpensChannels(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	n := fullnode.Start(t, fullnode.Options{})
	type step map[string]any
	micros := func(d time.Duration) int64 { return time.Now().Add(d).UnixMicro() }
	opened, extended := micros(time.Hour), micros(2*time.Hour)
	create := step{"call": "createChannel", "expirationMicros": opened, "depositAmount": 500}
	steps := []step{
		{"call": "initializePaymentChannels"},
		create,
		create,
		{"call": "increaseDepositAmount", "additionalAmount": 70},
		{"call": "extendExpirationTime", "newExpirationMicros": extended, "options": step{"replayProtectionNonce": 7}},
		{"call": "extendExpirationTime", "newExpirationMicros": opened},
		{"call": "senderWithdraw"},
	}
	receiver, asset := micropay.Address{1, 2, 3}, micropay.Address{31: 10}
	for i, scheme := range []string{"ed25519", "single-ed25519", "single-secp256k1"} {
		t.Run(scheme, func(t *testing.T) {
			secret := fmt.Sprintf("0x%064x", i+1)
			kind, prefix := micropay.SchemeSingleKey, ""
			switch scheme {
			case "ed25519":
				kind = micropay.SchemeEd25519
			case "single-secp256k1":
				prefix = "secp256k1-priv-"
			}
			key := testenv.Must(micropay.ParsePrivateKey(prefix + secret))(t)
			payer := testenv.Must(micropay.NewSigner(kind, key))(t)
			type channel struct {
				Balance, PaymentChannelID, NextWithdrawnSequenceNumber uint64
				ExpirationMicros                                       int64
			}
			type outcome struct {
				Address string
				Results []struct {
					Status   string
					Channels []channel
				}
			}
			run := func(steps []step) (o outcome) {
				t.Helper()
				runScript(t, "payer.mjs", map[string]any{
					"node": n.URL(), "module": fullnode.DefaultModule, "secret": secret, "scheme": scheme,
					"receiver": receiver.String(), "asset": fmt.Sprintf("0x%064x", asset), "steps": steps,
				}, &o)
				return o
			}

			got := run(steps[1:2])
			if got.Address != payer.Address().String() || !strings.Contains(got.Results[0].Status, "account_not_found") || len(got.Results[0].Channels) > 0 {
				t.Errorf("an account that does not exist: %+v, want %v", got, payer.Address())
			}
			n.SetGas(payer.Address().String(), 1_000_000_000)
			got = run(steps)
			want := []struct {
				status  string
				channel channel
			}{
				{"Executed successfully", channel{}},
				{"Executed successfully", channel{500, 1, 0, opened}},
				{"ECHANNEL_ALREADY_EXISTS", channel{500, 1, 0, opened}},
				{"Executed successfully", channel{570, 1, 0, opened}},
				{"Executed successfully", channel{570, 1, 0, extended}},
				{"EEXPIRATION_NOT_EXTENDED", channel{570, 1, 0, extended}},
				{"ECHANNEL_NOT_EXPIRED", channel{570, 1, 0, extended}},
			}
			for i, w := range want {
				r := got.Results[i]
				if !strings.Contains(r.Status, w.status) || fmt.Sprint(r.Channels) != fmt.Sprint([]channel{w.channel}) && (len(r.Channels) > 0 || w.channel != channel{}) {
					t.Errorf("after step %d: %+v\nwant %+v", i, r, w)
				}
			}
			if left := n.GasLeft(payer.Address().String()); left != 1_000_000_000-7*12*100 {
				t.Errorf("the payer has %d left after 7 transactions", left)
			}
			c := n.Channels()[0]
			n.Extend(c, time.Now().Add(-time.Second))
			got = run([]step{{"call": "senderWithdraw"}, {"call": "increaseDepositAmount", "additionalAmount": 1}, create})
			if r := got.Results; len(r[0].Channels) != 0 || !strings.Contains(r[1].Status, "ECHANNEL_NOT_FOUND") || len(r[2].Channels) != 1 || r[2].Channels[0].PaymentChannelID != 2 {
				t.Errorf("after the channel has ended: %+v", r)
			}
			n.Remove(n.Channels()[0])
		})
	}
}

// TestTransactionsOfOneSigner submits transactions that are not signed as they must be.
func TestTransactionsOfOneSigner(t *testing.T) {
	n := fullnode.Start(t, fullnode.Options{})
	key := testenv.Must(micropay.ParsePrivateKey(fmt.Sprintf("%064x", 1)))(t)
	payer := testenv.Must(micropay.NewSigner(micropay.SchemeEd25519, key))(t)
	address := payer.Address().String()
	create := func() (status string) {
		t.Helper()
		var o struct{ Results []struct{ Status string } }
		runScript(t, "payer.mjs", map[string]any{
			"node": n.URL(), "module": fullnode.DefaultModule, "secret": fmt.Sprintf("0x%064x", 1), "scheme": "ed25519",
			"receiver": micropay.Address{1}.String(), "asset": address, "steps": []any{map[string]any{
				"call": "createChannel", "expirationMicros": time.Now().Add(time.Hour).UnixMicro(), "depositAmount": 5,
				"options": map[string]int{"replayProtectionNonce": 3},
			}},
		}, &o)
		return o.Results[0].Status
	}
	if status := create(); !strings.Contains(status, "SENDING_ACCOUNT_DOES_NOT_EXIST") {
		t.Errorf("without an account: %s", status)
	}
	n.SetAccountSequence(address, 0)
	n.RotateKey(address, micropay.Address{9}.String())
	if status := create(); !strings.Contains(status, "INVALID_AUTH_KEY") {
		t.Errorf("with a key that was rotated: %s", status)
	}
	n.RotateKey(address, address)
	testenv.Equal(t, create(), "Executed successfully", "with the key of the account")
	sent := n.Requests(fullnode.Submit)
	body := testenv.Must(hex.DecodeString(sent[len(sent)-1].Body))(t)
	body[len(body)-1] ^= 1
	if status, answer := submit(t, n, string(body)); status != 400 || !strings.Contains(answer.Message, "INVALID_SIGNATURE") {
		t.Errorf("with another signature: %d %+v", status, answer)
	}

	m := readRecorded(t)[0].payment(t)
	alone := append(m.Bytes()[:205], m.Bytes()[271:]...) // without the receiver
	if status, answer := submit(t, n, string(alone)); status != 400 || answer.Message != "the authenticator has no fee payer" {
		t.Errorf("a micropayment of its sender alone: %d %+v", status, answer)
	}
}
