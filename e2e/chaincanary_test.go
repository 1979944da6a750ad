package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/fullnode"
)

// keepOf registers a chain's secrets, and the receiver's key in base64.
func (w *watch) keepOf(c *testChain) {
	w.t.Helper()
	secret, err := hex.DecodeString(c.key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.keep("receiver's key", c.key)
	w.keep("receiver's key in base64", base64.StdEncoding.EncodeToString(secret))
	w.keep("receiver's key in decimal", strings.Trim(fmt.Sprintf("%d", secret), "[]"))
	w.keep("fullnode's key", c.apiKey)
}

// TestChainSecretsStayIn searches everything that a collecting server writes for the receiver's key
// and for the fullnode's API key: the log, responses, metrics, profiles, traces, files, the
// requests to the fullnode, and the errors of starts that fail.
func TestChainSecretsStayIn(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	w := newWatch(t)
	w.keepOf(c)
	for name, flags := range map[string][]string{
		"another receiver":   {"--receiver", "0x7a"},
		"an unreadable file": {"--receiver-key-file", t.TempDir()},
		"a wrong key":        {"--receiver-key-file", secretFile(t, "ed25519-priv-0x"+c.key+"00")},
		"a wrong API key":    {"--chain-api-key-file", secretFile(t, c.apiKey+"\n"+c.apiKey)},
		"another chain":      {"--chain-id", "5"},
	} {
		r := sluiceRuns(t, slices.Concat([]string{"serve", "--addr", "127.0.0.1:0", "--data", t.TempDir()}, c.with(flags...).flags)...)
		if r.code == 0 {
			t.Errorf("the server started with %s", name)
		}
		w.seen = append(w.seen, sighting{where: "the start with " + name, text: r.stdout + r.stderr})
	}

	c.Fail(fullnode.Fault{On: fullnode.Head, Times: 1, Answer: fullnode.WrongStatus, Status: http.StatusUnauthorized})
	spans := newTraceCollector(t)
	o := c.with(slices.Concat(settleNow, []string{"--admin-addr", "127.0.0.1:0", "--log-level", "debug"})...)
	o.wrapper = spans.environment("OTEL_BSP_MAX_QUEUE_SIZE=100000")
	s := start(t, o)
	w.ask(s, "", "GET", "/v1/info", "")
	paid, refused := c.open(s, s.payer(1), 7, 1000), c.open(s, s.payer(2), 8, 1000)
	for _, fault := range []fullnode.Fault{
		{Answer: fullnode.Garbage}, {Answer: fullnode.WrongStatus, Status: http.StatusUnauthorized}, {Answer: fullnode.Cut},
	} {
		fault.Times = 1
		c.Fail(fault)
	}
	paid.buy(10)
	paid.settled()
	c.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Fail, VMStatus: "Move abort"})
	refused.buy(10)
	s.eventually("the channel does not stop", func() bool { return refused.state().State == "stopped" })
	for _, one := range []*channel{paid, refused} {
		w.ask(s, "", "GET", channels+"/"+one.id, "")
		w.ask(s, "", "POST", "/v1/sessions", string(purchaseBody(t, one.next(1), "")))
	}
	for _, path := range []string{"/metrics", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1"} {
		r, err := s.adminGet(path)
		if err != nil || r.status != 200 || len(r.body) == 0 {
			t.Fatalf("%s: %v, %v", path, r, err)
		}
		w.seen = append(w.seen, sighting{where: path, text: fmt.Sprintf("%q\n%s", r.header, r.body)})
	}
	s.stop()
	spans.checkClosed(spans.spans())
	if len(spans.spans()) == 0 {
		t.Error("there are no traces")
	}
	w.seen = append(w.seen, sighting{where: "the traces", text: spans.text()})
	audit := sluiceRuns(t, "audit", "--data", s.data)
	w.seen = append(w.seen, sighting{where: "audit", text: audit.stdout + audit.stderr})
	for _, operation := range []fullnode.Operation{fullnode.Head, fullnode.Gas, fullnode.View, fullnode.Submit, fullnode.Lookup} {
		for _, r := range c.Requests(operation) {
			if r.Authorization != "Bearer "+c.apiKey {
				t.Errorf("the fullnode got the authorization %q", r.Authorization)
			}
			w.seen = append(w.seen, sighting{where: "a request to the fullnode", text: r.Path + r.ContentType + r.Body})
		}
	}
	w.seen = append(w.seen, sighting{where: "the log", text: s.log.String()})
	w.check()
	w.checkFiles(s, "receiver's key", "receiver's key in base64", "fullnode's key")
}
