package webhook

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/database"
	"sluice/feed"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store has webhooks, changes and keys in memory.
type store struct {
	metastore.Webhooks
	metastore.Changes
	keys.Store

	mu         sync.Mutex
	hooks      map[string]metastore.Webhook
	changes    []metastore.Change
	generation int64
	floor      int64 // changes up to it are gone
	away       bool
	holders    map[string]keys.Key
	version    int64
	steps      int // advances
}

var errAway = errors.New("the database is away")

func newStore() *store {
	return &store{hooks: map[string]metastore.Webhook{}, generation: 1, holders: map[string]keys.Key{}}
}

func (s *store) Now() time.Time     { return time.Now().UTC() }
func (s *store) ClockErr() error    { return nil }
func (s *store) DeletionErr() error { return nil }

func (s *store) at(n int64) metastore.FeedPosition {
	return metastore.FeedPosition{Generation: s.generation, Number: n}
}

func (s *store) end() metastore.FeedPosition { return s.at(int64(len(s.changes))) }

// do calls fn with the store's lock, unless the store is away.
func (s *store) do(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
	}
	return fn()
}

func (s *store) ListWebhooks(_ context.Context, after string, limit int) (list []metastore.Webhook, err error) {
	return list, s.do(func() error {
		for _, id := range slices.Sorted(maps.Keys(s.hooks)) {
			if id > after && len(list) < limit {
				list = append(list, s.hooks[id])
			}
		}
		return nil
	})
}

func (s *store) AdvanceWebhook(ctx context.Context, id string, from, to metastore.WebhookProgress) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.do(func() error {
		w, found := s.hooks[id]
		if !found || text(w.WebhookProgress) != text(from) {
			return metastore.ErrWebhookChanged
		}
		w.WebhookProgress = to
		s.hooks[id] = w
		s.steps++
		return nil
	})
}

func text(p metastore.WebhookProgress) string {
	out, err := json.Marshal(p)
	return string(out) + errorText(err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// change changes a webhook as an administrator.
func (s *store) change(id string, fn func(*metastore.Webhook)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.hooks[id]
	fn(&w)
	w.Revision++
	s.hooks[id] = w
}

func (s *store) hook(id string) metastore.Webhook {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks[id]
}

// commit adds a change.
func (s *store) commit(kind metastore.ChangeKind, account, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, metastore.Change{Position: s.at(int64(len(s.changes) + 1)), Time: time.Now().UTC(), Kind: kind, Account: account, Name: name, Size: int64(len(s.changes))})
}

func (s *store) FeedEnd(context.Context) (end metastore.FeedPosition, err error) {
	return end, s.do(func() error { end = s.end(); return nil })
}

// ListChanges looks at few changes, so that pages without any are common.
func (s *store) ListChanges(_ context.Context, q metastore.ChangeQuery) (page metastore.ChangePage, err error) {
	return page, s.do(func() error {
		if q.After.Generation != s.generation || q.After.Number > int64(len(s.changes)) || q.After.Number < s.floor {
			return &metastore.ChangesGoneError{Restart: s.end()}
		}
		page.Next = q.After
		for looked := 0; page.Next.Number < int64(len(s.changes)) && looked < 150; looked++ {
			c := s.changes[page.Next.Number]
			if selected(&q, &c) {
				if len(page.Changes) == q.Limit {
					break
				}
				page.Changes = append(page.Changes, c)
			}
			page.Next = c.Position
		}
		page.More = page.Next.Number < int64(len(s.changes))
		return nil
	})
}

func selected(q *metastore.ChangeQuery, c *metastore.Change) bool {
	return (q.All || q.Account == c.Account) && q.Kinds.Selects(c.Kind) && strings.HasPrefix(c.Name, q.Prefix)
}

func (s *store) Key(_ context.Context, id string) (k keys.Key, err error) {
	return k, s.do(func() error {
		var found bool
		if k, found = s.holders[id]; !found {
			return database.ErrNotFound
		}
		return nil
	})
}

func (s *store) KeysVersion(context.Context) (v int64, err error) {
	return v, s.do(func() error { v = s.version; return nil })
}

// setKey stores a key.
func (s *store) setKey(k keys.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[k.ID] = k
	s.version++
}

func (s *store) ListActions(context.Context, string, int) ([]actions.Action, error) { return nil, nil }

// box seals the tests' secrets.
var box = func() *sealed.Box {
	b, err := sealed.Parse([]byte(strings.Repeat("a1", 32)))
	if err != nil {
		panic(err)
	}
	return b
}()

// secretOf returns a secret's text.
func secretOf(seed string) string {
	return access.WebhookSecretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(seed, 32)))
}

// add adds a webhook that begins at the feed's end.
func (s *store) add(id, url string, set func(*metastore.Webhook)) {
	w := metastore.Webhook{ID: id, WebhookSettings: metastore.WebhookSettings{URL: url, Secret: box.Seal(access.WebhookOwner(id), secretOf("s"))}}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.After = s.end()
	if set != nil {
		set(&w)
	}
	s.hooks[id] = w
}

// leader delivers from a store.
type leader struct {
	*Sender
	control *task.Control
	hub     *feed.Hub
	stopped chan metastore.WebhookOff
	stop    func()
}

// lead begins to deliver, until stop is called or the test ends.
func lead(t *testing.T, s *store, set func(*Options)) *leader {
	l := &leader{hub: feed.New(s, feed.Options{}), stopped: make(chan metastore.WebhookOff, 100)}
	opt := Options{
		Feed: l.hub, Places: access.NewPlaces(nil, access.ReadsPublic, 0), Secrets: box, Source: "https://sluice.example/v1/changes",
		Stopped: func(w *metastore.Webhook) { l.stopped <- w.Off },
	}
	if set != nil {
		set(&opt)
	}
	l.Sender, l.control = New(s, opt), task.NewControl(func(task.Run) {})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx, l.control)
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		l.hub.Close()
	})
	t.Cleanup(l.stop)
	return l
}

// pipes are connections in memory to servers by their names.
type pipes struct {
	mu     sync.Mutex
	accept map[string]func(net.Conn)
}

func (p *pipes) dial(_ context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	accept := p.accept[host]
	p.mu.Unlock()
	if accept == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("nobody is there")}
	}
	client, server := net.Pipe()
	go accept(server)
	return client, nil
}

// serve lets a handler serve a host's name.
func (p *pipes) serve(host string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accept == nil {
		p.accept = map[string]func(net.Conn){}
	}
	p.accept[host] = func(conn net.Conn) { serveOn(conn, handler) }
}

// serveOn serves a connection until a request fails.
func serveOn(conn net.Conn, handler http.HandlerFunc) {
	defer func() { _ = conn.Close() }() // the client may have closed it
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w := &answer{header: http.Header{}}
		handler(w, r)
		if w.status < 0 {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		res := http.Response{StatusCode: cmp.Or(w.status, 200), ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: http.NoBody}
		if res.Write(conn) != nil {
			return
		}
	}
}

// answer is a handler's response to pipes. A negative status closes the connection.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// events are the events in a request.
func events(t testing.TB, r *http.Request) (list []wire.Event, body []byte) {
	body, err := io.ReadAll(r.Body)
	testenv.Check(t, err)
	testenv.Check(t, json.Unmarshal(body, &list))
	return list, body
}

// changeOf returns an event's change.
func changeOf(t testing.TB, e wire.Event) (c wire.Change) {
	raw, err := json.Marshal(e.Data)
	testenv.Check(t, err)
	testenv.Check(t, json.Unmarshal(raw, &c))
	return c
}

// pass lets time pass in a bubble, and orders what its other goroutines did before the caller.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
