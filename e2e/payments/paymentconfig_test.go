package payments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// long returns an address of one repeated byte, in hex.
func long(digits string) string { return "0x" + strings.Repeat(digits, 32) }

// TestPaymentConfiguration sets every option by flag, by environment and by file. The server must
// publish the same values. Flags take precedence over the environment, and the environment over the
// file.
func TestPaymentConfiguration(t *testing.T) {
	t.Parallel()
	settings := []struct{ name, value string }{
		{"reads", "paid"}, {"receiver", long("a1")}, {"asset", long("b2")}, {"micropayment-module", "0x" + strings.ToUpper(strings.Repeat("c3", 32))},
		{"chain-id", "99"}, {"chunkset-price", "12"}, {"unsettled-limit", "3456"}, {"session-ttl", "2h"}, {"channel-ttl", "3h"},
	}
	want := e2e.Published{Receiver: long("a1"), Asset: long("b2"), Module: long("c3"), ChainID: 99, ChunksetPrice: "12", UnsettledLimit: "3456"}
	variable := func(name string) string { return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
	file := func(lines ...string) string {
		name := filepath.Join(t.TempDir(), "sluice.yaml")
		testenv.OK(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		return name
	}
	var flags, lines []string
	env := []string{"env"}
	for _, set := range settings {
		flags = append(flags, "--"+set.name, set.value)
		env = append(env, variable(set.name)+"="+set.value)
		lines = append(lines, set.name+": "+set.value)
	}
	tests := []struct {
		name string
		e2e.Options
	}{
		{"flags", e2e.Options{Flags: flags}},
		{"environment", e2e.Options{Wrapper: env}},
		{"file", e2e.Options{Flags: []string{"--config", file(lines...)}}},
		{"file named by the environment", e2e.Options{Wrapper: []string{"env", "SLUICE_CONFIG=" + file(lines...)}}},
		{"flags over environment and file", e2e.Options{Flags: append([]string{"--config", file("chunkset-price: 5", "chain-id: 6", "reads: public")}, flags...),
			Wrapper: []string{"env", "SLUICE_CHUNKSET_PRICE=7", "SLUICE_CHAIN_ID=8", "SLUICE_RECEIVER=0x9"}}},
		{"environment over file", e2e.Options{Flags: []string{"--config", file("chunkset-price: 5", "chain-id: 6", "reads: public", "receiver: '0x9'")}, Wrapper: env}},
	}
	for _, test := range tests {
		s := e2e.Start(t, test.Options)
		if got, reads := s.Info(); got != want || reads != "paid" {
			t.Errorf("%s: %+v, reads %s, want %+v and paid", test.name, got, reads, want)
		}
		c := s.Open(s.Payer(1), 100)
		if got := c.State(); got.Receiver != want.Receiver || got.Asset != want.Asset {
			t.Errorf("%s: a channel is %+v", test.name, got)
		}
		bought := c.Buy(30)
		if bought.ChunksetsTotal != 2 {
			t.Errorf("%s: 30 units bought %+v, want 2 chunksets at 12", test.name, bought)
		}
		checkLifetimes(s, c, bought)
	}
}

// checkLifetimes fails the test unless the session lives for two hours and the channel for three.
func checkLifetimes(s *e2e.Server, c *e2e.Channel, bought e2e.SessionState) {
	s.T.Helper()
	for target, hours := range map[string]float64{"/v1/sessions/" + bought.SessionID: 2, e2e.Channels + "/" + c.ID: 3} {
		o := s.Must(200, "GET", target, nil).Object(s.T)
		if got := parseTime(s.T, o, "expires").Sub(parseTime(s.T, o, "created")).Hours(); got < hours-0.01 || got > hours+0.01 {
			s.T.Errorf("the lifetime of %.20s... is %v hours, want %v", target, got, hours)
		}
	}
}

// TestPaymentDefaults checks a local instance's defaults: the public client's addresses, and a
// random receiver per data folder.
func TestPaymentDefaults(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	first, reads := s.Info()
	want := e2e.Published{
		Receiver:       first.Receiver,
		Asset:          "0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1",
		Module:         "0xb42ac038b6dae86f6171e28e297aab9555ce09909445ec579e4ffe6b8d4d63bf",
		ChainID:        4,
		ChunksetPrice:  "1",
		UnsettledLimit: "1000000",
	}
	if first != want || reads != "public" {
		t.Errorf("the defaults are %+v, reads %s, want %+v and public", first, reads, want)
	}
	s.Stop()
	s.Restart()
	if again, _ := s.Info(); again != first {
		t.Errorf("after a restart %+v, before %+v", again, first)
	}
	if other, _ := e2e.Start(t, e2e.Options{}).Info(); other.Receiver == first.Receiver || len(other.Receiver) != 66 {
		t.Errorf("two data folders have the receivers %s and %s", first.Receiver, other.Receiver)
	}
}

// TestPaymentMisconfiguration checks that invalid options prevent the start.
func TestPaymentMisconfiguration(t *testing.T) {
	t.Parallel()
	unknown := filepath.Join(t.TempDir(), "unknown.yaml")
	testenv.OK(t, os.WriteFile(unknown, []byte("chunkset-prize: 5\n"), 0o600))
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	testenv.OK(t, os.WriteFile(broken, []byte("chunkset-price: [\n"), 0o600))
	priced := filepath.Join(t.TempDir(), "priced.yaml")
	testenv.OK(t, os.WriteFile(priced, []byte("chunkset-price: 0\n"), 0o600))
	for _, test := range []struct{ flag, value, word string }{
		{"--chunkset-price", "0", "--chunkset-price"},
		{"--chunkset-price", "-1", "--chunkset-price"},
		{"--chunkset-price", "9223372036854775808", "chunkset-price"},
		{"--chunkset-price", "x", "chunkset-price"},
		{"--unsettled-limit", "-1", "--unsettled-limit"},
		{"--receiver", "0xzz", "--receiver"},
		{"--asset", "nowhere", "--asset"},
		{"--micropayment-module", "0x", "--micropayment-module"},
		{"--chain-id", "256", "chain-id"},
		{"--session-ttl", "0s", "--session-ttl"},
		{"--channel-ttl", "-1h", "--channel-ttl"},
		{"--reads", "key", "reads"},
		{"--reads", "free", "reads"},
		{"--config", filepath.Join(t.TempDir(), "absent.yaml"), "absent.yaml"},
		{"--config", unknown, "chunkset-prize"},
		{"--config", broken, "yaml"},
		{"--config", priced, "--chunkset-price"},
	} {
		data := filepath.Join(t.TempDir(), "data")
		e2e.CheckWrongUsage(t, e2e.SluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", data, test.flag+"="+test.value), test.word)
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s %s: the data folder was made (%v)", test.flag, test.value, err)
		}
	}
}

// TestRestartWithOtherPrice checks that bought chunksets stay bought when the price changes, and
// that new ones cost the new price.
func TestRestartWithOtherPrice(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "2"}})
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, e2e.Content(1, 1000))
	c := s.Open(s.Payer(1), 1000)
	old := c.Buy(21)
	s.Stop()
	s.Options.Flags = []string{"--reads", "paid", "--chunkset-price", "7"}
	s.Restart()
	if got := s.SessionState(old.SessionID); got != old {
		t.Errorf("after the restart the session is %+v, was %+v", got, old)
	}
	e2e.CheckPaid(t, s.Must(200, "GET", target, nil, "Session-Id", old.SessionID), "1", "9")
	if got := s.Must(200, "HEAD", target, nil).Header.Get("Chunkset-Price"); got != "7" {
		t.Errorf("HEAD has the price %q, want 7", got)
	}
	// And 1 of credit.
	refilled := e2e.AsSession(t, s.Must(200, "POST", "/v1/sessions", e2e.PurchaseBody(t, c.Next(20), old.SessionID)))
	if refilled.ChunksetsLeft != 12 || refilled.ChunksetsTotal != 13 {
		t.Errorf("the refilled session is %+v", refilled)
	}
	e2e.CheckPaid(t, s.Must(200, "GET", target, nil, "X-Shelby-Micropayment", c.Next(8)), "1", "0")
	if got := c.Settled().Money(); got != "deposit 1000 accepted 49 credit 1 sequence 3 open" {
		t.Errorf("the channel is %q", got)
	}
}
