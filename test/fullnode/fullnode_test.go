package fullnode_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// start is the recorded submissions' time. They expire a minute later.
var start = time.Unix(1_760_000_000, 0)

// recorded is a submission that was recorded from the public client.
type recorded struct {
	Name           string
	Micropayment   string `json:"micropayment_base64"`
	ReceiverScheme string `json:"receiver_scheme"`
	ReceiverKey    string `json:"receiver_private_key"`
	ContentType    string `json:"content_type"`
	Submitted      string `json:"submitted_hex"`
	Hash           string `json:"transaction_hash"`
}

func readRecorded(t *testing.T) []recorded {
	t.Helper()
	var file struct{ Vectors []recorded }
	text, err := os.ReadFile("../../micropay/testdata/settlements.json")
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || len(file.Vectors) != 20 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	return file.Vectors
}

func (r recorded) payment(t *testing.T) *micropay.Micropayment {
	t.Helper()
	m := testenv.Must(micropay.ParseBase64(r.Micropayment))(t)
	return m
}

func (r recorded) body(t *testing.T) []byte {
	t.Helper()
	body := testenv.Must(hex.DecodeString(r.Submitted))(t)
	return body
}

// open puts a channel on the chain that covers a payment, which is its first one.
func open(n *fullnode.Node, m *micropay.Micropayment) fullnode.Channel {
	c := fullnode.Channel{
		Sender: m.Sender.String(), Receiver: m.Receiver.String(), Asset: m.Asset.String(), ID: m.PaymentChannelID,
		Deposit: m.Amount, Created: fullnode.Time{Time: start}, Expires: fullnode.Time{Time: start.Add(time.Hour)},
	}
	n.Open(c)
	n.SetAccountSequence(c.Sender, micropay.NoAccountSequence)
	return c
}

// answer are fields in the fullnode's responses.
type answer struct {
	Type    string
	Hash    string
	Message string
	Code    string `json:"error_code"`
}

func submit(t *testing.T, n *fullnode.Node, body string) (status int, a answer) {
	t.Helper()
	return ask(t, http.MethodPost, n.URL()+"/transactions", body)
}

func ask(t *testing.T, method, url, body string) (status int, a answer) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testenv.OK(t, err)
	request.Header.Set("Content-Type", "application/x.aptos.signed_transaction+bcs")
	response := testenv.Must(http.DefaultClient.Do(request))(t)
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = response.Body.Close()
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return response.StatusCode, a
}

// TestRecordedSubmissions submits the public client's submissions. Each is refused if any byte of
// it is changed (each byte is changed in one of them at least), and is then executed, and not
// again.
func TestRecordedSubmissions(t *testing.T) {
	n := fullnode.Start(t, fullnode.Options{Clock: start})
	all := readRecorded(t)
	for i, v := range all {
		m, body := v.payment(t), v.body(t)
		n.Reset(fullnode.Options{Clock: start}) // the senders use their nonce in each of their submissions
		open(n, m)
		for at := i; at < len(body); at += len(all) {
			body[at] ^= 1
			if status, answer := submit(t, n, string(body)); status != http.StatusBadRequest {
				t.Errorf("%s with another byte at %d: %d %+v", v.Name, at, status, answer)
			}
			body[at] ^= 1
		}
		if status, answer := submit(t, n, string(body)+"\x00"); status != http.StatusBadRequest {
			t.Errorf("%s with one byte more: %d %+v", v.Name, status, answer)
		}
		if executed := n.Executed(); len(executed) > 0 {
			t.Fatalf("before %s was submitted: %+v", v.Name, executed)
		}
		if status, answer := submit(t, n, string(body)); status != http.StatusAccepted || answer.Hash != v.Hash {
			t.Fatalf("%s: %d %+v", v.Name, status, answer)
		}
		if status, answer := submit(t, n, string(body)); status != http.StatusBadRequest || answer.Code != "vm_error" {
			t.Errorf("%s again: %d %+v", v.Name, status, answer)
		}
		executed := n.Executed()
		want := fullnode.Executed{
			Hash: v.Hash, Function: "receiver_withdraw", Sender: m.Sender.String(), Receiver: m.Receiver.String(), Asset: m.Asset.String(), Channel: m.PaymentChannelID,
			Sequence: m.Sequence, Amount: m.Amount, Success: true, VMStatus: "Executed successfully", Paid: m.Amount, Gas: 12,
		}
		if len(executed) != 1 || executed[0] != want {
			t.Errorf("%s: executed %+v\nwant %+v", v.Name, executed, want)
		}
		if c := n.Channels()[0]; c.Withdrawn != c.Deposit || c.NextSequence != m.Sequence+1 {
			t.Errorf("the channel is %+v", c)
		}
	}
}

// TestSubmissionsThatTheStateForbids submits a valid transaction in states that do not allow it.
func TestSubmissionsThatTheStateForbids(t *testing.T) {
	n := fullnode.Start(t, fullnode.Options{})
	v := readRecorded(t)[0]
	m := v.payment(t)
	for name, test := range map[string]struct {
		change func(*fullnode.Node, fullnode.Channel)
		want   string // the refusal's code, or the failed transaction's status
	}{
		"expired":         {func(n *fullnode.Node, _ fullnode.Channel) { n.Advance(time.Minute) }, "TRANSACTION_EXPIRED"},
		"too early":       {func(n *fullnode.Node, _ fullnode.Channel) { n.Advance(-time.Minute) }, "TRANSACTION_EXPIRATION_TOO_FAR_IN_FUTURE"},
		"no gas":          {func(n *fullnode.Node, _ fullnode.Channel) { n.SetGas(m.Receiver.String(), m.MaxGas*m.GasPrice-1) }, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE"},
		"no channel":      {func(n *fullnode.Node, c fullnode.Channel) { n.Remove(c) }, "ECHANNEL_NOT_FOUND"},
		"old sequence":    {func(n *fullnode.Node, c fullnode.Channel) { c.NextSequence = m.Sequence + 1; n.Open(c) }, "ESTALE_SEQUENCE"},
		"small deposit":   {func(n *fullnode.Node, c fullnode.Channel) { c.Deposit--; n.Open(c) }, "EINSUFFICIENT_BALANCE"},
		"expired channel": {func(n *fullnode.Node, c fullnode.Channel) { c.Expires.Time = start; n.Open(c) }, "ECHANNEL_EXPIRED"},
		"decreased amount": {func(n *fullnode.Node, c fullnode.Channel) {
			c.Withdrawn, c.Deposit = m.Amount+1, 2*m.Amount
			n.Open(c)
		}, "EAMOUNT_DECREASED"},
		"second of single amounts": {func(n *fullnode.Node, c fullnode.Channel) {
			n.SetRule(fullnode.Rule{SingleAmounts: true})
			c.Withdrawn = 1
			n.Open(c)
		}, "EINSUFFICIENT_BALANCE"},
		"failure": {func(n *fullnode.Node, _ fullnode.Channel) {
			n.Fail(fullnode.Fault{On: fullnode.Submit, Effect: fullnode.Fail, VMStatus: "Move abort in 0x1::coin"})
		}, "Move abort in 0x1::coin"},
	} {
		t.Run(name, func(t *testing.T) {
			n.Reset(fullnode.Options{Clock: start})
			test.change(n, open(n, m))
			before := n.Channels()
			status, answer := submit(t, n, string(v.body(t)))
			got := answer.Message
			if executed := n.Executed(); status == http.StatusAccepted && len(executed) == 1 && !executed[0].Success && executed[0].Paid == 0 && executed[0].Gas > 0 {
				got = executed[0].VMStatus
			} else if status != http.StatusBadRequest || len(executed) > 0 {
				t.Errorf("%d %+v, executed %+v", status, answer, executed)
			}
			if !strings.Contains(got, test.want) || fmt.Sprint(n.Channels()) != fmt.Sprint(before) {
				t.Errorf("%d %q\nwant %q\nchannels %+v\nwant %+v", status, got, test.want, n.Channels(), before)
			}
		})
	}
	t.Run("other chain", func(t *testing.T) {
		n.Reset(fullnode.Options{Clock: start, ChainID: 5})
		open(n, m)
		if status, answer := submit(t, n, string(v.body(t))); status != http.StatusBadRequest || !strings.Contains(answer.Message, "BAD_CHAIN_ID") {
			t.Errorf("%d %+v", status, answer)
		}
	})
}

// TestPendingTransactions shows that a transaction is pending until it is executed, in either
// order, or expires, and that a dropped one is unknown.
func TestPendingTransactions(t *testing.T) {
	n := fullnode.Start(t, fullnode.Options{Clock: start})
	all := readRecorded(t)
	v := []recorded{all[0], all[4], all[8]}
	for _, v := range v {
		open(n, v.payment(t))
	}
	kind := func(v recorded) string {
		status, got := ask(t, http.MethodGet, n.URL()+"/transactions/by_hash/"+v.Hash, "")
		if status != http.StatusOK {
			return strconv.Itoa(status)
		}
		return got.Type
	}
	expect := func(v recorded, want string) {
		t.Helper()
		testenv.Equal(t, kind(v), want, "%s", v.Name)
	}
	n.Hold()
	for _, v := range v[:2] {
		for range 2 { // a pending transaction is accepted again
			if status, answer := submit(t, n, string(v.body(t))); status != http.StatusAccepted {
				t.Fatalf("%d %+v", status, answer)
			}
		}
		expect(v, "pending_transaction")
	}
	n.ExecuteReversed()
	if e := n.Executed(); len(e) != 2 || e[0].Hash != v[1].Hash || e[1].Hash != v[0].Hash {
		t.Errorf("executed %+v", e)
	}
	expect(v[0], "user_transaction")

	n.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Drop})
	for _, want := range []string{"404", "pending_transaction"} {
		n.Hold()
		if status, answer := submit(t, n, string(v[2].body(t))); status != http.StatusAccepted {
			t.Fatalf("%d %+v", status, answer)
		}
		expect(v[2], want)
	}
	n.Advance(time.Minute)
	expect(v[2], "404")
	n.Execute()
	if e := n.Executed(); len(e) != 2 {
		t.Errorf("executed %+v", e)
	}
}

// TestPublicClientCollects runs the public client's receiverWithdraw and getChannelInfo: they
// submit the same bytes as micropay.Collect, and understand the answers.
func TestPublicClientCollects(t *testing.T) {
	n := fullnode.Start(t, fullnode.Options{Clock: start})
	type settlement struct {
		Scheme       string `json:"scheme"`
		Secret       string `json:"secret"`
		Micropayment string `json:"micropayment"`
	}
	var settlements []settlement
	var payments []*micropay.Micropayment
	var want []string
	for _, v := range onePerSenderAndForm(t) {
		m := v.payment(t)
		c := open(n, m)
		c.Deposit += 7
		n.Open(c)
		settlements = append(settlements, settlement{v.ReceiverScheme, v.ReceiverKey, v.Micropayment})
		payments = append(payments, m)
		key, err := micropay.ParsePrivateKey(map[bool]string{true: "secp256k1-priv-"}[v.ReceiverScheme == "single-secp256k1"] + v.ReceiverKey)
		testenv.OK(t, err)
		receiver := testenv.Must(micropay.NewSignerOf(m.Receiver, key))(t)
		ours := testenv.Must(m.Collect(receiver))(t)
		want = append(want, hex.EncodeToString(ours.Body))
	}
	var got []struct {
		Hash     string
		Channels []struct{ Balance, NextWithdrawnSequenceNumber, PaymentChannelID, ReceiverWithdrawnAmount uint64 }
	}
	runScript(t, "receiver.mjs", map[string]any{"node": n.URL(), "module": fullnode.DefaultModule, "settlements": settlements}, &got)

	submitted, executed := n.Requests(fullnode.Submit), n.Executed()
	if len(got) != len(want) || len(submitted) != len(want) || len(executed) != len(want) || len(want) != 10 {
		t.Fatalf("%d results, %d submissions, %d executed, want %d", len(got), len(submitted), len(executed), len(want))
	}
	for i, m := range payments {
		if submitted[i].Body != want[i] || submitted[i].ContentType != "application/x.aptos.signed_transaction+bcs" || submitted[i].Path != "/v1/transactions" {
			t.Errorf("the public client submits %+v\nmicropay.Collect %s", submitted[i], want[i])
		}
		if executed[i].Hash != got[i].Hash || executed[i].Paid != m.Amount {
			t.Errorf("executed %+v, result %+v", executed[i], got[i])
		}
		found := false
		for _, c := range got[i].Channels {
			if c.PaymentChannelID == m.PaymentChannelID {
				found = c.Balance == 7 && c.ReceiverWithdrawnAmount == m.Amount && c.NextWithdrawnSequenceNumber == m.Sequence+1
			}
		}
		if !found {
			t.Errorf("after payment %d of %d over channel %d getChannelInfo returns %+v", m.Sequence, m.Amount, m.PaymentChannelID, got[i].Channels)
		}
	}
}

// onePerSenderAndForm returns submissions that can all be executed: one with a nonce and one
// without of each sender, to receivers of all schemes.
func onePerSenderAndForm(t *testing.T) (chosen []recorded) {
	t.Helper()
	groups, schemes := map[string][]recorded{}, map[string]bool{}
	var names []string
	for _, v := range readRecorded(t) {
		m := v.payment(t)
		name := fmt.Sprint(m.Sender, m.Nonce == 0)
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], v)
	}
	for i, name := range names {
		v := groups[name][i/2%len(groups[name])]
		chosen, schemes[v.ReceiverScheme] = append(chosen, v), true
	}
	if len(schemes) != 3 {
		t.Fatalf("the receivers have the schemes %v", schemes)
	}
	return chosen
}

// runScript runs a script with parameters, and decodes its output into result.
func runScript(t *testing.T, name string, parameters, result any) {
	t.Helper()
	folder := testenv.Must(testenv.ClientDir())(t)
	text := testenv.Must(json.Marshal(parameters))(t)
	command := exec.CommandContext(t.Context(), "node", filepath.Join(folder, name), string(text))
	var failed strings.Builder
	command.Stderr = &failed
	out, err := command.Output()
	if err == nil {
		err = json.Unmarshal(out, result)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, failed.String())
	}
}
