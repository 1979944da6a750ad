package webhook

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/feed"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// receiver remembers the changes that it has accepted.
type receiver struct {
	t       *testing.T
	random  *rand.Rand
	refuses float64 // the share of deliveries that fail

	mu       sync.Mutex
	bodies   map[string]string // by webhook-id
	last     int64
	accepted []int64 // numbers of changes, without repetitions
	repeated int
	gone     []string // the restarts of lost changes
}

func newReceiver(t *testing.T, seed uint64, refuses float64) *receiver {
	return &receiver{t: t, random: rand.New(rand.NewPCG(1, seed)), refuses: refuses, bodies: map[string]string{}}
}

// ServeHTTP accepts or fails at random: before it has read the delivery, or after it has acted on
// it.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	list, body := events(r.t, req)
	time.Sleep(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	id := req.Header.Get("Webhook-Id")
	if was, again := r.bodies[id]; again && was != string(body) {
		r.t.Errorf("the webhook-id %s has two bodies:\n%s\n%s", id, was, body)
	}
	r.bodies[id] = string(body)
	fails := r.random.Float64() < r.refuses
	if fails && r.random.IntN(2) == 0 {
		w.WriteHeader(500)
		return
	}
	first := int64(0)
	for _, e := range list {
		if e.Type == goneType {
			r.gone, r.last = append(r.gone, fmt.Sprint(e.Data)), 0
			continue
		}
		at, ok := metastore.ParseFeedPosition(e.ID)
		if c := changeOf(r.t, e); !ok || c.Position != e.ID || e.Type != changeType+c.Kind || e.Subject != c.Account+"/"+c.Name || at.Number <= first {
			r.t.Errorf("the event is %+v", e)
		}
		if first = at.Number; at.Number <= r.last {
			r.repeated++
			continue
		}
		r.last = at.Number
		r.accepted = append(r.accepted, at.Number)
	}
	if fails {
		w.WriteHeader(-1)
	}
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.accepted)
}

// TestDeliveriesMissNothing: five webhooks with different filters get a random history, while
// receivers fail, the database goes away, and leaders end or overlap. Each selected change arrives,
// in order, none else does, and a webhook-id always has the same body.
// Invariant 233.
func TestDeliveriesMissNothing(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			const total = 3000
			s, net, random := newStore(), &pipes{}, rand.New(rand.NewPCG(2, seed))
			filters := map[string]metastore.WebhookSettings{
				"all": {}, "account": {Account: "a"}, "prefix": {Account: "b", Prefix: "n/1"},
				"kinds": {Kinds: metastore.ChangeKinds(0).Add(metastore.ChangeDeleted)}, "rare": {Account: "c"},
			}
			receivers := map[string]*receiver{}
			for id, f := range filters {
				receivers[id] = newReceiver(t, seed, 0.2)
				net.serve(id, receivers[id].ServeHTTP)
				s.add(id, "http://"+id, func(w *metastore.Webhook) { w.Account, w.Prefix, w.Kinds = f.Account, f.Prefix, f.Kinds })
			}
			dials := func(o *Options) { o.dial = net.dial }
			one := lead(t, s, dials)
			for i := range total {
				account := []string{"a", "b"}[random.IntN(2)]
				if random.IntN(500) == 0 {
					account = "c"
				}
				s.commit(metastore.ChangeKind(1+random.IntN(13)), account, fmt.Sprintf("n/%d", i))
				if random.IntN(20) == 0 {
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				}
				switch random.IntN(300) {
				case 0:
					one.stop()
					one = lead(t, s, dials)
				case 1: // the old leader does not know yet that it leads no more
					old := one
					one = lead(t, s, dials)
					time.Sleep(3 * time.Second)
					old.stop()
				case 2:
					s.setAway(true)
					time.Sleep(5 * time.Second)
					s.setAway(false)
				}
			}
			time.Sleep(20 * time.Minute)
			testenv.Equal(t, one.Stats().Lag, 0, "the lag at the end")
			one.stop()
			for id, f := range filters {
				var want []int64
				q := f.Query()
				for _, c := range s.changes {
					if selected(&q, &c) {
						want = append(want, c.Position.Number)
					}
				}
				r := receivers[id]
				testenv.Equal(t, fmt.Sprint(r.accepted), fmt.Sprint(want), "the changes of the webhook %s", id)
				testenv.Equal(t, len(r.gone), 0, "lost changes")
				if w := s.hook(id); w.After != s.end() || w.Ahead != 0 || w.Failures != 0 || w.Off != "" {
					t.Errorf("the webhook %s ends with %+v", id, w.WebhookProgress)
				}
			}
			if r := receivers["all"]; r.repeated == 0 || len(r.accepted) != total {
				t.Errorf("%d changes and %d repetitions: the test shows nothing", len(r.accepted), r.repeated)
			}
		})
	}
}

func (s *store) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// TestInterruptedDeliveryIsTheSame: a delivery is in progress when the leader is killed. The next
// leader repeats it with the same events, though there are more now, and though the database needs
// several pages to find them.
// Invariant 233.
func TestInterruptedDeliveryIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net := newStore(), &pipes{}
		var mu sync.Mutex
		var ids []string
		var sizes []int
		net.serve("r", func(w http.ResponseWriter, r *http.Request) {
			list, _ := events(t, r)
			mu.Lock()
			ids, sizes = append(ids, r.Header.Get("Webhook-Id")), append(sizes, len(list))
			attempts := len(ids)
			mu.Unlock()
			switch attempts {
			case 1:
				time.Sleep(5 * time.Second)
			case 2:
				time.Sleep(time.Hour)
				w.WriteHeader(-1)
			}
		})
		s.add("1", "http://r", func(w *metastore.Webhook) { w.Account = "a" })
		dials := func(o *Options) { o.dial = net.dial }
		l := lead(t, s, dials)
		s.commit(metastore.ChangeStored, "a", "first")
		pass(2 * time.Second)
		s.commit(metastore.ChangeStored, "a", "second")
		for range 500 {
			s.commit(metastore.ChangeStored, "b", "x")
		}
		s.commit(metastore.ChangeStored, "a", "third")
		pass(6 * time.Second)
		l.stop()
		s.commit(metastore.ChangeStored, "a", "fourth")
		lead(t, s, dials)
		pass(2 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		testenv.Equal(t, fmt.Sprint(sizes), "[1 2 2 1]", "the events of each attempt")
		testenv.Equal(t, ids[2], ids[1], "the id of the repeated message")
	})
}

// slowFeed returns a feed for tests of days.
func slowFeed(t *testing.T, s *store) *feed.Hub {
	h := feed.New(s, feed.Options{Poll: time.Minute})
	t.Cleanup(h.Close)
	return h
}

// TestPatience: a delivery is tried again for three days, with pauses that grow to an hour, over
// leaders; then the webhook is off. An administrator turns it on again, and the same message comes.
// Invariant 234.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net := newStore(), &pipes{}
		var attempts []time.Time
		var ids []string
		status := 503
		net.serve("r", func(w http.ResponseWriter, r *http.Request) {
			attempts, ids = append(attempts, time.Now()), append(ids, r.Header.Get("Webhook-Id"))
			w.WriteHeader(status)
		})
		s.add("1", "http://r", nil)
		dials := func(o *Options) { o.dial, o.Feed = net.dial, slowFeed(t, s) }
		l := lead(t, s, dials)
		s.commit(metastore.ChangeStored, "a", "x")
		pass(24 * time.Hour)
		s.commit(metastore.ChangeStored, "a", "y") // not in the delivery that has begun
		if w := s.hook("1"); w.Off != "" || w.Failures != len(attempts) || w.Last.Status != 503 || w.Last.Error != failedStatus {
			t.Fatalf("after a day: %+v, last %+v", w.WebhookProgress, w.Last)
		}
		if lag := l.Stats().Lag; lag < 24*time.Hour {
			t.Errorf("the lag is %v", lag)
		}
		l.stop()
		l = lead(t, s, dials)
		pass(47 * time.Hour)
		testenv.Equal(t, l.Stats().Failing, 1, "webhooks that fail")
		pass(2 * time.Hour)
		testenv.Equal(t, s.hook("1").Off, metastore.WebhookFailed, "why it is off")
		testenv.Equal(t, len(l.stopped), 1, "reports that it is off")
		testenv.Equal(t, l.Stats().Stopped, 1, "stopped webhooks")
		first, last := attempts[0], attempts[len(attempts)-1]
		if took := last.Sub(first); took < Patience || took > Patience+time.Minute || len(attempts) < 80 || len(attempts) > 170 {
			t.Errorf("%d attempts in %v", len(attempts), took)
		}
		for i, at := range attempts[1:] {
			pause := at.Sub(attempts[i])
			if bound := min(longestPause, firstPause<<min(i, 20)) + 2*poll; pause > bound || i > 12 && i < len(attempts)-2 && pause < longestPause/2 {
				t.Errorf("pause %d is %v", i, pause)
			}
		}
		n := len(attempts)
		pass(time.Hour)
		testenv.Equal(t, len(attempts), n, "attempts while it is off")
		status = 204
		s.change("1", func(w *metastore.Webhook) {
			w.Off, w.Failures, w.Failing, w.Due = "", 0, time.Time{}, time.Time{}
		})
		pass(time.Minute)
		testenv.Equal(t, len(ids), n+2, "attempts in all")
		for i, id := range ids[:n+1] {
			testenv.Equal(t, id, ids[0], "the id of attempt %d", i)
		}
		if ids[n+1] == ids[0] || s.hook("1").After != s.end() {
			t.Errorf("the next message has the id %s; the webhook is %+v", ids[n+1], s.hook("1"))
		}
	})
}

// TestReceiverEndsIt: 410 turns a webhook off at once.
// Invariant 234.
func TestReceiverEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net := newStore(), &pipes{}
		net.serve("r", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) })
		s.add("1", "http://r", nil)
		l := lead(t, s, func(o *Options) { o.dial = net.dial })
		s.commit(metastore.ChangeStored, "a", "x")
		testenv.Equal(t, <-l.stopped, metastore.WebhookRefused, "why it is off")
		testenv.Equal(t, s.hook("1").Last.Status, 410, "the status")
	})
}

// TestLossIsTold: a webhook with lost changes informs its receiver, and goes on behind the loss:
// also if the leader ends in between, or more changes are lost meanwhile.
// Invariant 235.
func TestLossIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net, r := newStore(), &pipes{}, newReceiver(t, 1, 0)
		s.add("1", "http://r", nil)
		for i := range 10 {
			s.commit(metastore.ChangeStored, "a", fmt.Sprint("lost ", i))
		}
		s.floor = 5
		dials := func(o *Options) { o.dial = net.dial }
		l := lead(t, s, dials)
		pass(time.Minute)
		first := s.hook("1")
		if !first.Gone || first.After != s.end() || first.Failures == 0 || first.Last.Error != failedConnection {
			t.Fatalf("while the receiver is away: %+v", first.WebhookProgress)
		}
		l.stop()
		s.commit(metastore.ChangeStored, "a", "behind the loss")
		net.serve("r", r.ServeHTTP)
		l = lead(t, s, dials)
		pass(time.Minute)
		testenv.Equal(t, fmt.Sprint(r.gone), fmt.Sprintf("[map[restart:%s]]", first.After), "what was told")
		testenv.Equal(t, fmt.Sprint(r.accepted), "[11]", "the changes behind it")

		l.stop()
		s.mu.Lock()
		s.generation, s.floor, s.changes = 2, 0, s.changes[:3]
		s.mu.Unlock()
		lead(t, s, dials)
		pass(time.Minute)
		testenv.Equal(t, len(r.gone), 2, "losses that were told after the instance was set back")
		s.commit(metastore.ChangeStored, "a", "in the new generation")
		pass(time.Minute)
		testenv.Equal(t, fmt.Sprint(r.accepted), "[11 4]", "the changes of the new generation")
	})
}

// TestQuietWebhooksKeepUp: a webhook that no change is for does not fall behind the changes that
// are kept.
// Invariant 235.
func TestQuietWebhooksKeepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net, r := newStore(), &pipes{}, newReceiver(t, 1, 0)
		net.serve("r", r.ServeHTTP)
		s.add("1", "http://r", func(w *metastore.Webhook) { w.Account = "quiet" })
		l := lead(t, s, func(o *Options) { o.dial, o.Feed = net.dial, slowFeed(t, s) })
		for range 100 {
			s.commit(metastore.ChangeStored, "other", "x")
			time.Sleep(15 * time.Minute)
			s.mu.Lock()
			s.floor = max(0, int64(len(s.changes))-3)
			s.mu.Unlock()
		}
		l.stop()
		if steps := s.steps; steps > 200 {
			t.Errorf("%d steps for a webhook without changes", steps)
		}
		s.commit(metastore.ChangeStored, "quiet", "x")
		lead(t, s, func(o *Options) { o.dial = net.dial })
		pass(time.Minute)
		testenv.Equal(t, fmt.Sprint(r.accepted, r.gone), "[101] []", "its changes")
	})
}

// TestSlowReceiversHoldUpNothing: while 400 receivers never answer, another webhook's changes
// arrive at once.
// Invariant 236.
func TestSlowReceiversHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net, r := newStore(), &pipes{}, newReceiver(t, 1, 0)
		net.serve("slow", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) })
		net.serve("r", r.ServeHTTP)
		for i := range 400 {
			s.add(fmt.Sprint("slow", i), "http://slow", nil)
		}
		s.add("t", "http://r", nil)
		l := lead(t, s, func(o *Options) { o.dial = net.dial })
		pass(5 * time.Second)
		for i := range 100 {
			s.commit(metastore.ChangeStored, "a", fmt.Sprint(i))
			time.Sleep(100 * time.Millisecond)
			if n := r.count(); n != i+1 {
				t.Fatalf("%d changes have arrived after 100 ms, and %d were made", n, i+1)
			}
		}
		pass(timeout)
		testenv.Equal(t, s.hook("slow7").Last.Error, failedTimeout, "why the slow ones fail")
		testenv.Equal(t, l.Stats().Failing, 400, "the webhooks that fail")
		l.stop()
		pass(time.Minute) // the slow ones end
	})
}

// TestRightsEnd: a webhook is off once its key is revoked, expires or administers its names no
// more, whether it is quiet, delivers or waits for another attempt.
// Invariant 237.
func TestRightsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net := newStore(), &pipes{}
		r := newReceiver(t, 1, 0)
		net.serve("r", r.ServeHTTP)
		net.serve("fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		admin := func(id string, set func(*keys.Key)) {
			k := keys.Key{ID: strings.Repeat(id, 16), Grants: []keys.Grant{{Scopes: []string{"admin"}, Accounts: []string{"a"}, Prefix: "p/"}}}
			if set != nil {
				set(&k)
			}
			s.setKey(k)
		}
		of := map[string]string{"revoked": "b", "expires": "c", "scope": "d", "prefix": "f", "stays": "g", "fails": "h", "none": "zz"}
		for name, id := range of {
			admin(id, nil)
			s.add(name, "http://"+map[bool]string{true: "fails", false: "r"}[name == "fails"], func(w *metastore.Webhook) { w.Key, w.Account, w.Prefix = strings.Repeat(id, 16), "a", "p/" })
		}
		s.add("local", "http://r", func(w *metastore.Webhook) { w.Account = "a" })
		auth := access.NewAuthenticator(keyStore{s}, access.AuthenticatorOptions{})
		l := lead(t, s, func(o *Options) { o.dial, o.Keys = net.dial, auth })
		pass(time.Minute)
		s.commit(metastore.ChangeStored, "a", "p/x")
		pass(time.Minute)
		testenv.Equal(t, s.hook("local").Off, metastore.WebhookKey, "why a webhook without a key is off")
		admin("b", func(k *keys.Key) { k.Revoked = time.Now() })
		admin("c", func(k *keys.Key) { k.Expires = time.Now() })
		admin("d", func(k *keys.Key) { k.Grants[0].Scopes = []string{"read", "write"} })
		admin("f", func(k *keys.Key) { k.Grants[0].Prefix = "p/q" })
		admin("h", func(k *keys.Key) { k.Revoked = time.Now() })
		before := len(r.bodies)
		s.commit(metastore.ChangeStored, "a", "p/y")
		pass(time.Minute)
		for name := range of {
			want := metastore.WebhookKey
			if name == "stays" {
				want = metastore.WebhookOn
			}
			if got := s.hook(name).Off; got != want && name != "none" {
				t.Errorf("the webhook %s is off because of %q, want %q", name, got, want)
			}
		}
		testenv.Equal(t, len(r.bodies)-before, 1, "messages after the keys have ended")
		l.stop()
	})
}

// keyStore is the store with one of its two kinds of changes.
type keyStore struct{ *store }

// TestPauseOfTheTask: while the task is paused nothing is delivered, and nothing is missed after.
// Invariant 233.
func TestPauseOfTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net, r := newStore(), &pipes{}, newReceiver(t, 1, 0)
		net.serve("r", r.ServeHTTP)
		s.add("1", "http://r", nil)
		l := lead(t, s, func(o *Options) { o.dial = net.dial })
		pass(time.Minute)
		l.control.Pause(task.Webhooks, true)
		pass(2 * poll)
		s.commit(metastore.ChangeStored, "a", "x")
		pass(time.Minute)
		testenv.Equal(t, r.count(), 0, "changes during the pause")
		testenv.Equal(t, l.Stats().On, 0, "webhooks that are followed")
		l.control.Pause(task.Webhooks, false)
		pass(time.Minute)
		testenv.Equal(t, r.count(), 1, "changes after the pause")
	})
}

// TestAdministratorsChange: a follower goes on with the changed URL, ends with a webhook that is
// off or deleted, and another filter is another message.
// Invariant 233.
func TestAdministratorsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, net := newStore(), &pipes{}
		one, two := newReceiver(t, 1, 0), newReceiver(t, 2, 0)
		net.serve("one", func(w http.ResponseWriter, r *http.Request) { one.ServeHTTP(w, r); w.WriteHeader(500) })
		net.serve("two", two.ServeHTTP)
		s.add("1", "http://one", nil)
		attempts := 0
		net.serve("three", func(w http.ResponseWriter, _ *http.Request) {
			attempts++
			w.WriteHeader(500)
		})
		s.add("3", "http://three", nil)
		lead(t, s, func(o *Options) { o.dial = net.dial })
		s.commit(metastore.ChangeStored, "a", "x")
		s.commit(metastore.ChangeDeleted, "a", "x")
		pass(time.Hour)
		s.mu.Lock()
		delete(s.hooks, "3")
		s.mu.Unlock()
		pass(2 * poll)
		before := attempts
		pass(time.Hour)
		testenv.Equal(t, attempts, before, "attempts after the deletion")
		s.change("1", func(w *metastore.Webhook) { w.URL, w.Due = "http://two", time.Time{} })
		pass(time.Minute)
		testenv.Equal(t, fmt.Sprint(two.accepted), "[1 2]", "changes at the new URL")
		for id := range one.bodies {
			testenv.Equal(t, two.bodies[id], one.bodies[id], "the message at the new URL")
		}
		s.change("1", func(w *metastore.Webhook) { w.Off = metastore.WebhookDisabled })
		pass(time.Minute)
		s.commit(metastore.ChangeStored, "a", "y")
		pass(time.Minute)
		testenv.Equal(t, two.count(), 2, "changes while it is off")
		s.change("1", func(w *metastore.Webhook) { w.Off, w.Kinds = "", metastore.ChangeKinds(0).Add(metastore.ChangeDeleted) })
		pass(time.Minute)
		s.commit(metastore.ChangeDeleted, "a", "y")
		pass(time.Minute)
		testenv.Equal(t, fmt.Sprint(two.accepted), "[1 2 4]", "changes with another filter")
		s.mu.Lock()
		delete(s.hooks, "1")
		s.mu.Unlock()
		pass(time.Minute)
		s.commit(metastore.ChangeDeleted, "a", "z")
		pass(time.Minute)
		testenv.Equal(t, two.count(), 3, "changes after the deletion")
	})
}

// TestListedAsInLists: an event shows a blob as a list does.
// Invariant 237.
func TestListedAsInLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[access.Reads]string{access.ReadsPublic: `"0-0000000000000000"`, access.ReadsPaid: ""} {
			s, net := newStore(), &pipes{}
			var got []wire.Change
			net.serve("r", func(_ http.ResponseWriter, r *http.Request) {
				list, _ := events(t, r)
				got = append(got, changeOf(t, list[0]))
			})
			s.add("1", "http://r", nil)
			l := lead(t, s, func(o *Options) { o.dial, o.Places = net.dial, access.NewPlaces(nil, reads, 0) })
			s.commit(metastore.ChangeStored, "a", "x")
			time.Sleep(time.Minute)
			l.stop()
			if len(got) != 1 || (got[0].ETag == "") != (want == "") {
				t.Errorf("with reads %s: %+v", reads, got)
			}
		}
	})
}
