package chain

import (
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
