package commands

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestWebhookCommand creates a webhook by the command, and tests, lists, changes, rotates, turns
// off and on, and deletes it. The receiver verifies each delivery by the secrets that were printed.
// Invariants 239, 240.
func TestWebhookCommand(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	type got struct {
		events []e2e.PushedEvent
		header http.Header
	}
	deliveries := make(chan got, 10)
	var secrets atomic.Pointer[[]string] // which sign the next delivery
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, now := testenv.Must(e2e.Body(r))(t), got{header: r.Header}
		for _, secret := range *secrets.Load() {
			again := r.Clone(r.Context())
			again.Body = body()
			var err error
			if now.events, err = e2e.Events(again, testenv.Must(standardwebhooks.NewWebhook(secret))(t)); err != nil {
				w.WriteHeader(401) // the leader does not know of the new secret yet: it comes again
				return
			}
		}
		if r.URL.Path == "/no" {
			w.WriteHeader(403)
		}
		deliveries <- now
	}))
	t.Cleanup(server.Close)
	run := func(code int, args ...string) string {
		t.Helper()
		r := e2e.SluiceRuns(t, append(append([]string{"webhook"}, args...), "--url", s.URL)...)
		if r.Code != code {
			t.Fatalf("webhook %q: %+v, want exit code %d", args, r, code)
		}
		return strings.TrimSpace(r.Stdout)
	}
	show := func(id string) (w wire.Webhook) {
		t.Helper()
		testenv.OK(t, json.Unmarshal([]byte(run(0, "show", id, "--json")), &w))
		return w
	}
	put := func(name string) got {
		t.Helper()
		s.Must(204, "PUT", e2e.BlobTarget("team", name), []byte("x"))
		d := <-deliveries
		if len(d.events) != 1 || d.events[0].Subject != "team/"+name {
			t.Errorf("delivered for %s is %+v", name, d.events)
		}
		return d
	}
	first := run(0, "create", server.URL+"/yes", "team/p/", "--kinds", "stored,deleted", "--label", "mine")
	secrets.Store(&[]string{first})
	if !strings.HasPrefix(first, "whsec_") {
		t.Fatalf("create prints %q", first)
	}
	var listed wire.Webhook
	testenv.OK(t, json.Unmarshal([]byte(run(0, "ls", "--json")), &listed))
	id := listed.ID
	if line := run(0, "list"); !strings.Contains(line, id) || !strings.Contains(line, "team/p (stored,deleted)") || !strings.Contains(line, `"mine"`) {
		t.Errorf("listed is %s", line)
	}
	s.Must(204, "PUT", e2e.BlobTarget("team", "other"), []byte("x"))
	put("p/one")
	if text := run(0, "test", id); !strings.HasPrefix(text, "200 after ") {
		t.Errorf("test prints %q", text)
	}
	testenv.Equal(t, (<-deliveries).events[0].Type, "sluice.webhook.test", "the type of a test")
	second := run(0, "rotate", id)
	secrets.Store(&[]string{second, first})
	put("p/two")

	run(0, "off", id)
	testenv.Equal(t, show(id).Reason, "disabled", "why it is off")
	s.Must(204, "PUT", e2e.BlobTarget("team", "p/three"), []byte("x"))
	run(0, "update", id, "--new-url", server.URL+"/no", "--label", "refused")
	if text := run(1, "test", id); !strings.HasPrefix(text, "403 after ") {
		t.Errorf("test prints %q", text)
	}
	<-deliveries
	run(0, "on", id)
	failed := <-deliveries
	s.Await("the webhook does not fail", func() bool { w := show(id); return w.State == wire.WebhookFailing && w.Last.Status == 403 })
	if text := run(0, "show", id); !strings.Contains(text, "failing") || !strings.Contains(text, "1 since ") {
		t.Errorf("show prints %s", text)
	}
	run(0, "update", id, "--new-url", server.URL+"/yes", "--changes", "team/p/")
	repeated := <-deliveries
	testenv.Equal(t, repeated.header.Get("Webhook-Id"), failed.header.Get("Webhook-Id"), "the id of the repeated delivery")
	s.Await("the webhook is not on", func() bool { return show(id).State == wire.WebhookOn })
	run(0, "rm", id)
	run(3, "rm", id)
	run(3, "show", id)
	testenv.Equal(t, run(0, "ls", "--json"), "", "the list at the end")
}
