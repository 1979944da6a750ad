package payments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// long returns an address of one repeated byte, in hex.
func long(digits string) string { return "0x" + strings.Repeat(digits, 32) }

// TestPaymentConfiguration sets a third of the options by flags, by the environment and by a file
// each. The server must publish their values, and sell by them.
func TestPaymentConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	testenv.OK(t, os.WriteFile(file, []byte("receiver: '"+long("a1")+"'\nchain: {id: 99, asset: "+long("b2")+", module: '0x"+strings.ToUpper(strings.Repeat("c3", 32))+"'}\nchunkset-price: 5\n"), 0o600))
	s := e2e.Start(t, e2e.Options{
		Flags:   []string{"--config", file, "--reads", "paid", "--chunkset-price", "12"},
		Wrapper: []string{"env", "SLUICE_UNSETTLED_LIMIT=3456", "SLUICE_CHUNKSET_PRICE=7"},
	}.Tuned(e2e.Tuning{"SessionTTL": 2 * time.Hour, "ChannelTTL": 3 * time.Hour}))
	want := e2e.Published{Receiver: long("a1"), Asset: long("b2"), Module: long("c3"), ChainID: 99, ChunksetPrice: "12", UnsettledLimit: "3456"}
	if got, reads := s.Info(); got != want || reads != "paid" {
		t.Errorf("%+v, reads %s, want %+v and paid", got, reads, want)
	}
	c := s.Open(s.Payer(1), 100)
	if got := c.State(); got.Receiver != want.Receiver || got.Asset != want.Asset {
		t.Errorf("a channel is %+v", got)
	}
	bought := c.Buy(30)
	if bought.ChunksetsTotal != 2 {
		t.Errorf("30 units bought %+v, want 2 chunksets at 12", bought)
	}
	for target, hours := range map[string]float64{"/v1/sessions/" + bought.SessionID: 2, e2e.Channels + "/" + c.ID: 3} {
		var life struct{ Created, Expires time.Time }
		s.Must(200, "GET", target, nil).Decode(t, &life)
		if got := life.Expires.Sub(life.Created).Hours(); got < hours-0.01 || got > hours+0.01 {
			t.Errorf("the lifetime of %.20s... is %v hours, want %v", target, got, hours)
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
