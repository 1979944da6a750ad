package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// TestCommandsOfAChain checks the output, the requests and the advice of the commands of channels
// with a server that collects on a chain. Invariant 156.
func TestCommandsOfAChain(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", testenv.MemoryDir(t))
	const info = `{"reads":"paid","chunksetSize":10485760,"payment":{"receiver":"0xa","asset":"0xb","module":"0xc","chainId":4,"chunksetPrice":"3",
		"unsettledLimit":"1000","startingLimit":"10","minGas":"1000","minGasPrice":"100","maxGasPrice":"1000","maxFee":"20000000","settlement":"chain"}}`
	const channel = `{"channelId":"C","paymentChannelId":"7","sender":"0x1","receiver":"0xa","asset":"0xb","deposit":"500","accepted":"90","credit":"0",
		"settled":"60","unsettled":"30","sellingLimit":"70","expired":"30","elsewhere":"5","sequenceNumber":"4","state":"stopped","stopped":"a payment has expired","sessions":[]}`
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		answer, status := channel, 200
		switch {
		case r.URL.Path == "/v1/info":
			answer = info
		case strings.HasSuffix(r.URL.Path, "/reconcile"):
			answer = fmt.Sprintf(`{"channel":%s,"chain":{"deposit":"600","withdrawn":"80","nextSequenceNumber":"9","expires":"2030-01-02T00:00:00Z"}`, channel)
			if strings.Contains(string(body), "true") {
				answer += `,"after":` + strings.Replace(channel, `"settled":"60"`, `"settled":"80"`, 1)
			}
			answer += "}"
		case r.Method == http.MethodPost && !strings.Contains(string(body), "paymentChannelId"):
			w.Header().Set("Content-Type", "application/problem+json")
			answer, status = `{"code":"bad_parameter","detail":"userIdentity and paymentChannelId are required"}`, 400
		}
		if r.Method == http.MethodPost {
			sent = append(sent, string(body))
		}
		w.WriteHeader(status)
		testenv.Check(t, testenv.Error(io.WriteString(w, answer)))
	}))
	defer s.Close()
	calls := func(code int, stderr string, args ...string) string {
		t.Helper()
		r := sluice(append(args, "--url", s.URL)...)
		if r.code != code || !strings.Contains(r.stderr, stderr) {
			t.Errorf("%q: exit code %d, stderr %q, want %d and %q", args, r.code, r.stderr, code, stderr)
		}
		return r.stdout
	}
	shows := func(out string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(out, line+"\n") {
				t.Errorf("%q is not in:\n%s", line, out)
			}
		}
	}
	shows(calls(cli.ExitOK, "", "info"), "receiver                0xa", "module                  0xc", "payments are collected  on the chain", "unsettled limit         1000", "starting limit          10",
		"least gas               1000", "gas price               100 to 1000", "greatest fee            20000000")
	shows(calls(cli.ExitOK, "", "channel", "show", "C"), "unsettled        30", "stopped because  a payment has expired", "selling limit    70",
		"expired          30, which sluice channel renew lets the server collect", "elsewhere        5 withdrawn that the server did not collect")
	var printed map[string]any
	if err := json.Unmarshal([]byte(calls(cli.ExitOK, "", "channel", "show", "C", "--json")), &printed); err != nil ||
		fmt.Sprintln(printed["unsettled"], printed["sellingLimit"], printed["expired"], printed["elsewhere"], printed["stopped"]) != "30 70 30 5 a payment has expired\n" {
		t.Errorf("printed %v, %v", printed, err)
	}

	calls(cli.ExitFailed, "--payment-channel-id names a channel that the sender has opened there", "channel", "open", "--sender", "0x1")
	if out := calls(cli.ExitOK, "", "channel", "open", "--sender", "0x1", "--payment-channel-id", "7"); out != "C\n" || sent[len(sent)-1] != `{"userIdentity":"0x1","paymentChannelId":"7"}` {
		t.Errorf("opened %q with %s", out, sent[len(sent)-1])
	}
	shows(calls(cli.ExitOK, "nothing was recorded", "channel", "reconcile", "C"), "deposit               500      600", "settled               60       80")
	shows(calls(cli.ExitOK, "", "channel", "reconcile", "C", "--write"), "settled               60       80                    80")
	if got := sent[len(sent)-2:]; got[0] != `{"write":false}` || got[1] != `{"write":true}` {
		t.Errorf("sent %q", got)
	}

	account := filepath.Join(testenv.MemoryDir(t), "account.key")
	must(t, "account", "new", account)
	state := []string{"--account-file", account, "--state-file", filepath.Join(testenv.MemoryDir(t), "state.json")}
	calls(cli.ExitRefused, "open one there for the receiver 0xa and the asset 0xb, and name its number in PayerOptions.PaymentChannelID, which is --payment-channel-id",
		append([]string{"pay", "--max-price", "3", "--max-spend", "9"}, state...)...)
	calls(cli.ExitNotFound, "the payer has no channel", append([]string{"channel", "renew"}, state...)...)
}
