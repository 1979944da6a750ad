package nodes

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// inbox is a receiver with TLS, which accepts everything.
type inbox struct {
	mu       sync.Mutex
	verifies *standardwebhooks.Webhook
	names    []string // of changes, the first time that they came
	repeated int
	wrong    error
}

func (i *inbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	list, err := e2e.Events(r, i.hook())
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range list {
		switch {
		case e.Type != "sluice.change.stored" || !strings.HasPrefix(e.Source, "https://blobs.example.org/sluice/"):
		case slices.Contains(i.names, e.Data.Name):
			i.repeated++
		default:
			i.names = append(i.names, e.Data.Name)
		}
	}
	if err != nil {
		i.wrong = err
	}
}

func (i *inbox) hook() *standardwebhooks.Webhook {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.verifies
}

func (i *inbox) counts() (changes, repeated int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.names), i.repeated
}

// TestWebhooksOfHostedNodes: a hosted instance delivers over TLS to the operator's network, and to
// no other inner address. A leader that is stopped for longer than its lease repeats a little when
// it goes on, and then is silent. The webhook ends with its key, and no log has its secret.
// Invariants 233, 236, 237, 238, 240.
func TestWebhooksOfHostedNodes(t *testing.T) {
	t.Parallel()
	in := &inbox{}
	server := httptest.NewTLSServer(in)
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "authority.pem")
	testenv.OK(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Flags: slices.Concat(e2e.HostedChoices("key"), []string{
		"--admin-addr", "127.0.0.1:0", "--drain-wait", "0s", "--s3-secret-key-file", e2e.SecretKeys(t), "--webhook-networks", "127.0.0.1,::1",
	})})
	c.Options.Wrapper = append(c.Options.Wrapper, "SSL_CERT_FILE="+authority, "HTTPS_PROXY=http://127.0.0.1:1")
	c.Start(2)
	key := func() (id, secret string) {
		r := e2e.SluiceRuns(t, "key", "create", "--meta", c.Database.DSN(), "--scopes", "admin", "--all-accounts")
		secret = strings.TrimSpace(r.Stdout)
		return strings.Split(secret, "_")[1], secret
	}
	id, secret := key()
	_, other := key()
	nodes := []*e2e.Server{c.Nodes[0].As(secret), c.Nodes[1].As(secret)}
	leader := func() int { return leaderOf(nodes) }
	e2e.Await(t, "no node leads", func() bool { return leader() >= 0 })

	create := func(url string) e2e.Response {
		return nodes[0].Do("POST", "/v1/admin/webhooks", e2e.AsJSON(t, wire.CreateWebhook{URL: url, Account: "team"}))
	}
	for _, url := range []string{strings.Replace(server.URL, "https", "http", 1), "https://127.0.0.2/", "https://169.254.169.254/", "https://[::ffff:10.0.0.1]/"} {
		e2e.CheckProblem(t, create(url), 400, "bad_parameter")
	}
	var inner, made wire.IssuedWebhook
	create("https://localhost:1/").Decode(t, &inner) // a name may have any address until it is dialled
	create(server.URL).Decode(t, &made)
	in.mu.Lock()
	in.verifies = testenv.Must(standardwebhooks.NewWebhook(made.Secret))(t)
	in.mu.Unlock()
	var result wire.WebhookResult
	nodes[1].Must(200, "POST", "/v1/admin/webhooks/"+made.ID+"/test", nil).Decode(t, &result)
	testenv.Equal(t, fmt.Sprint(result.Status)+result.Error, "200", "the result of a test")
	result = wire.WebhookResult{}
	nodes[1].Must(200, "POST", "/v1/admin/webhooks/"+inner.ID+"/test", nil).Decode(t, &result)
	testenv.Equal(t, fmt.Sprint(result.Status)+result.Error, "0connection", "the result of a test where nobody listens")

	sent := 0
	put := func(on *e2e.Server, n int) {
		t.Helper()
		for range n {
			on.Must(204, "PUT", e2e.BlobTarget("team", fmt.Sprintf("n/%04d", sent)), []byte("x"))
			sent++
		}
		e2e.Await(t, "changes do not arrive", func() bool { got, _ := in.counts(); return got == sent })
	}
	put(nodes[0], 50)
	led := leader()
	standby := nodes[1-led]
	c.Nodes[led].Signal(e2e.StopSignal)
	put(standby, 50) // once the lease has ended, the other node delivers
	c.Nodes[led].Signal(e2e.ContinueSignal)
	e2e.Await(t, "the stopped node does not answer", func() bool { return nodes[led].Do("GET", "/v1/admin/nodes", nil).Status == 200 })
	put(standby, 50)
	began, repeated := time.Now(), 0
	e2e.Await(t, "two nodes deliver", func() bool { // the same for ten seconds
		put(standby, 1)
		if _, now := in.counts(); now != repeated {
			began, repeated = time.Now(), now
		}
		return time.Since(began) > 10*time.Second
	})
	if repeated > 200 {
		t.Errorf("%d changes came again", repeated)
	}
	in.mu.Lock()
	if !slices.IsSorted(in.names) || in.wrong != nil {
		t.Errorf("the changes came as %q, with %v", in.names, in.wrong)
	}
	in.mu.Unlock()

	r := e2e.SluiceRuns(t, "key", "revoke", "--meta", c.Database.DSN(), id)
	testenv.Equal(t, r.Code, 0, "the exit code of key revoke")
	at := standby.As(other)
	e2e.Await(t, "the webhook does not end with its key", func() bool {
		var shown wire.Webhook
		at.Must(200, "GET", "/v1/admin/webhooks/"+made.ID, nil).Decode(t, &shown)
		return shown.State == wire.WebhookOff && shown.Reason == "key"
	})
	at.Must(204, "PUT", e2e.BlobTarget("team", "z/late"), []byte("x"))
	for _, node := range c.Nodes {
		if log := node.SettledLog(); strings.Contains(log, "whsec") || strings.Contains(log, made.Secret[len("whsec_"):]) {
			t.Errorf("the log of %s has a secret", node.Host)
		}
	}
	got, _ := in.counts()
	testenv.Equal(t, got, sent, "changes that arrived")
}
