package chain

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// keepOf registers a chain's secrets, and the receiver's key in base64.
func keepOf(w *e2e.Watch, c *e2e.TestChain) {
	w.T.Helper()
	secret, err := hex.DecodeString(c.Key)
	testenv.OK(w.T, err)
	w.Keep("receiver's key", c.Key)
	w.Keep("receiver's key in base64", base64.StdEncoding.EncodeToString(secret))
	w.Keep("receiver's key in decimal", strings.Trim(fmt.Sprintf("%d", secret), "[]"))
	w.Keep("fullnode's key", c.APIKey)
}

// TestChainSecretsStayIn searches everything that a collecting server writes for the receiver's key
// and for the fullnode's API key: the log, responses, metrics, profiles, traces, files, the
// requests to the fullnode, and the errors of starts that fail.
// Invariant 181.
func TestChainSecretsStayIn(t *testing.T) {
	t.Parallel()
	c := e2e.StartChain(t)
	w := e2e.NewWatch(t)
	keepOf(w, c)
	for name, flags := range map[string][]string{
		"another receiver":   {"--receiver", "0x7a"},
		"an unreadable file": {"--receiver-key-file", t.TempDir()},
		"a wrong key":        {"--receiver-key-file", e2e.SecretFile(t, "ed25519-priv-0x"+c.Key+"00")},
		"a wrong API key":    {"--chain-api-key-file", e2e.SecretFile(t, c.APIKey+"\n"+c.APIKey)},
		"another chain":      {"--chain", "id=5"},
	} {
		r := e2e.SluiceRuns(t, slices.Concat([]string{"serve", "--addr", "127.0.0.1:0", "--data", t.TempDir()}, c.With(flags...).Flags)...)
		if r.Code == 0 {
			t.Errorf("the server started with %s", name)
		}
		w.Seen = append(w.Seen, e2e.Sighting{Where: "the start with " + name, Text: r.Stdout + r.Stderr})
	}

	c.Fail(fullnode.Fault{On: fullnode.Head, Times: 1, Answer: fullnode.WrongStatus, Status: http.StatusUnauthorized})
	spans := e2e.NewTraceCollector(t)
	o := settleNow(c, "--admin-addr", "127.0.0.1:0", "--log-level", "debug")
	o.Wrapper = spans.Environment("OTEL_BSP_MAX_QUEUE_SIZE=100000")
	s := e2e.Start(t, o)
	w.Ask(s, "", "GET", "/v1/info", "")
	paid, refused := c.OpenOn(s, s.Payer(1), 7, 1000), c.OpenOn(s, s.Payer(2), 8, 1000)
	for _, fault := range []fullnode.Fault{
		{Answer: fullnode.Garbage}, {Answer: fullnode.WrongStatus, Status: http.StatusUnauthorized}, {Answer: fullnode.Cut},
	} {
		fault.Times = 1
		c.Fail(fault)
	}
	paid.Buy(10)
	paid.Settled()
	c.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Fail, VMStatus: "Move abort"})
	refused.Buy(10)
	s.Eventually("the channel does not stop", func() bool { return refused.State().State == "stopped" })
	for _, one := range []*e2e.Channel{paid, refused} {
		w.Ask(s, "", "GET", e2e.Channels+"/"+one.ID, "")
		w.Ask(s, "", "POST", "/v1/sessions", string(e2e.PurchaseBody(t, one.Next(1), "")))
	}
	for _, path := range []string{"/metrics", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1"} {
		r, err := s.AdminGet(path)
		if err != nil || r.Status != 200 || len(r.Body) == 0 {
			t.Fatalf("%s: %v, %v", path, r, err)
		}
		w.Seen = append(w.Seen, e2e.Sighting{Where: path, Text: fmt.Sprintf("%q\n%s", r.Header, r.Body)})
	}
	s.Stop()
	spans.CheckClosed(spans.Spans())
	if len(spans.Spans()) == 0 {
		t.Error("there are no traces")
	}
	w.Seen = append(w.Seen, e2e.Sighting{Where: "the traces", Text: spans.Text()})
	audit := e2e.SluiceRuns(t, "check", "--books", "--data", s.Data)
	w.Seen = append(w.Seen, e2e.Sighting{Where: "audit", Text: audit.Stdout + audit.Stderr})
	for _, operation := range []fullnode.Operation{fullnode.Head, fullnode.Gas, fullnode.View, fullnode.Submit, fullnode.Lookup} {
		for _, r := range c.Requests(operation) {
			if r.Authorization != "Bearer "+c.APIKey {
				t.Errorf("the fullnode got the authorization %q", r.Authorization)
			}
			w.Seen = append(w.Seen, e2e.Sighting{Where: "a request to the fullnode", Text: r.Path + r.ContentType + r.Body})
		}
	}
	w.Seen = append(w.Seen, e2e.Sighting{Where: "the log", Text: s.Log.String()})
	w.Check()
	w.CheckFiles(s, "receiver's key", "receiver's key in base64", "fullnode's key")
}
