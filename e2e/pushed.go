package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/test/testenv"
)

// pushed gets a follower's changes by a webhook. It fails at random, and sees what is repeated
// once.
type pushed struct {
	*follower

	mu       sync.Mutex
	created  int // how often it was tried to create the webhook: its path
	hook     *standardwebhooks.Webhook
	bodies   map[string]string // by webhook-id
	refused  int
	repeated int // changes
}

// register creates the follower's webhook, and then takes a listing. It reports whether it has
// both.
func (p *pushed) register(url string) bool {
	f := p.follower
	on := f.view(f.random)
	if on == nil {
		return false
	}
	p.mu.Lock() // deliveries wait until the listing is there
	defer p.mu.Unlock()
	p.created++
	var created struct{ After, Secret string }
	r, err := on.Try("POST", "/v1/admin/webhooks", AsJSON(f.T, map[string]any{"url": fmt.Sprint(url, "/", p.created), "account": f.account, "prefix": f.prefix}))
	if err != nil || r.Status == 503 {
		return false
	}
	if err := json.Unmarshal(r.Body, &created); err != nil || r.Status != 201 {
		f.T.Errorf("a webhook is created with %v", r)
		return false
	}
	p.hook = testenv.Must(standardwebhooks.NewWebhook(created.Secret))(f.T)
	f.after, f.start = created.After, number(created.After)
	f.picture, err = f.list(on)
	return err == nil
}

// ServeHTTP takes a delivery, or fails before or after that.
func (p *pushed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, id := p.follower, r.Header.Get("webhook-id")
	if r.URL.Path != fmt.Sprint("/", p.created) { // nobody knows that one's secret
		return
	}
	if err := p.hook.Verify(body, r.Header); err != nil {
		f.T.Errorf("the signature of a delivery: %v", err)
	}
	var events []struct {
		Type string
		Data change
	}
	if err := json.Unmarshal(body, &events); err != nil || len(events) == 0 {
		f.T.Errorf("a delivery is %s: %v", body, err)
	}
	if was, again := p.bodies[id]; again && was != string(body) {
		f.T.Errorf("the deliveries with the webhook-id %s have different bodies: %s and %s", id, was, body)
	}
	p.bodies[id] = string(body)
	fails := f.random.IntN(10)
	if fails == 0 {
		p.refused++
		w.WriteHeader(500)
		return
	}
	for _, e := range events {
		switch {
		case e.Type != "sluice.change."+e.Data.Kind:
			f.T.Errorf("the event %+v", e)
		case len(f.numbers) > 0 && number(e.Data.Position) <= f.numbers[len(f.numbers)-1]:
			p.repeated++
		default:
			f.see(e.Data)
		}
	}
	if fails == 1 {
		panic(http.ErrAbortHandler) // the sender learns nothing
	}
}

// SecretKeys returns a file with a key that seals secrets.
func SecretKeys(t testing.TB) string {
	file := filepath.Join(t.TempDir(), "keys")
	testenv.OK(t, os.WriteFile(file, []byte(strings.Repeat("5a", 32)+"\n"), 0o600))
	return file
}

// PushedEvent is an event in a delivery.
type PushedEvent struct {
	ID, Source, Type, Subject string
	Data                      struct{ Kind, Account, Name string }
}

// Events returns a delivery's events, and an error if the webhook's secret has not signed them.
func Events(r *http.Request, hook *standardwebhooks.Webhook) (list []PushedEvent, err error) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = hook.Verify(body, r.Header)
	}
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	return list, err
}

// Body reads a request's body, and returns a function that returns it again and again.
func Body(r *http.Request) (func() io.ReadCloser, error) {
	body, err := io.ReadAll(r.Body)
	return func() io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }, err
}
