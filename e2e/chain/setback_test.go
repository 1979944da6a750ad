package chain

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRecoverWithTheChain: a database is set back to before a payment that was collected. sluice
// recover reads the channel from the chain, and the withdrawn amount is neither sold nor collected
// again.
// Invariant 100.
func TestRecoverWithTheChain(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain))
	s.Options.Dirty = true // it logs the setback as an error
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	s.Stop()
	file := filepath.Join(s.Data, "meta.db")
	older := testenv.Must(os.ReadFile(file))(t)
	s.Restart()
	paid := e2e.PurchaseBody(t, c.Next(40), "")
	s.Must(201, "POST", "/v1/sessions", paid)
	c.Settled()
	s.Stop()
	testenv.OK(t, os.WriteFile(file, older, 0o600))
	s.Restart()
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", paid), 503, "rolled_back")
	s.Stop()

	r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--yes", "--chain-url", chain.URL(), "--chain-api-key-file", e2e.SecretFile(t, chain.APIKey+"\n"))
	if r.Code != 0 || !strings.Contains(r.Stdout, "Units that were withdrawn and not known here: 40.\n  "+c.ID) {
		t.Errorf("the recovery does not report the withdrawn amount: %+v", r)
	}
	s.Restart()
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", paid), 409, "micropayment_stale")
	c.Buy(10)
	c.Settled()
	chain.Collected(t, c.Number, 40, 10)
}

// TestRecoverBesideManyChannels sets a database back to before payments of three payers. One of
// them has 15,000 channels on the chain, and is settled and recovered like any other; the
// fullnode's answer about another is broken, so that this one is named, and read later.
// Invariant 100.
func TestRecoverBesideManyChannels(t *testing.T) {
	t.Parallel()
	const count, bound = 15_000, 4 << 20
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain))
	s.Options.Dirty = true // it logs the setback as an error
	many, other, broken := chain.OpenOn(s, s.Payer(1), 7, 1000), chain.OpenOn(s, s.Payer(2), 8, 1000), chain.OpenOn(s, s.Payer(3), 9, 1000)
	for n := range uint64(count) {
		chain.Fund(many.Payer, 100+n, 1_000_000)
	}
	s.Stop()
	file := filepath.Join(s.Data, "meta.db")
	older := testenv.Must(os.ReadFile(file))(t)
	s.Restart()
	for _, c := range []*e2e.Channel{many, other, broken} {
		c.Buy(40)
		c.Settled()
	}
	s.Stop()
	testenv.OK(t, os.WriteFile(file, older, 0o600))

	target := testenv.Must(url.Parse(chain.URL()))(t)
	sender := broken.Payer.Signer.Address()
	var longest int
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			body := testenv.Must(io.ReadAll(r.In.Body))(t)
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			r.Out.Header.Set("Breaks", fmt.Sprint(bytes.Contains(body, sender[:])))
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			longest = max(longest, len(body))
			if r.Request.Header.Get("Breaks") == "true" {
				body = bytes.Replace(body, []byte("balance"), []byte("unknown"), 1)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			return err
		},
	})
	defer front.Close()
	r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--yes", "--chain-url", front.URL+"/v1", "--chain-api-key-file", e2e.SecretFile(t, chain.APIKey+"\n"))
	for _, want := range []string{
		"Channels that were read from the chain: 2. Units that were withdrawn and not known here: 80.\n",
		"Channels of " + sender.String() + " that could not be read, and stay as they are: 1: ", "Generation 2 has begun",
	} {
		if r.Code != 5 || !strings.Contains(r.Stdout, want) || !strings.Contains(r.Stderr, "sluice channel reconcile ID --write") {
			t.Errorf("the recovery lacks %q: %+v", want, r)
		}
	}
	if longest <= bound {
		t.Errorf("the longest answer has %d bytes, want more than %d", longest, bound)
	}
	s.Restart()
	e2e.Prints(t, "channel", "reconcile", broken.ID, "--write", "--url", s.URL)
	for _, c := range []*e2e.Channel{many, other, broken} {
		if state := c.State(); state.Settled != "40" {
			t.Errorf("channel %d after the recovery: %+v", c.Number, state)
		}
		c.Buy(10)
		c.Settled()
		chain.Collected(t, c.Number, 40, 10)
	}
}
