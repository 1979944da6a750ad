package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goclient "sluice/client"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// FeedLoad is clients that change the same few blobs, and followers of the changes, at several
// nodes, each behind a network. Every acknowledged request must have its changes, once, and every
// change belongs to a request which was acknowledged or has no response.
type FeedLoad struct {
	feedNodes
	nodes    []*Server
	networks []*fault.Network
	sent     atomic.Int64   // contents
	tags     sync.Map       // the last content's ETag by target
	group    sync.WaitGroup // of the followers

	mu       sync.Mutex
	acked    map[effect]int
	possible map[effect]int // of requests without a response, or that may have found nothing
	versions []metaVersion  // that nobody has deleted
	lost     int            // requests without a response

	followers []*follower
	receivers []*pushed
}

const feedClients = 6

type metaVersion struct{ name, id string }

// NewFeedLoad returns a load for nodes that run, and have no blobs.
func NewFeedLoad(t testing.TB, nodes []*Server) *FeedLoad {
	t.Helper()
	l := &FeedLoad{nodes: nodes, acked: map[effect]int{}, possible: map[effect]int{}}
	l.T, l.seed, l.down = t, Seed(t), make([]atomic.Bool, len(nodes))
	for _, node := range nodes {
		n := fault.Before(t, node.Host)
		view := node.Through(n.Address())
		transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
		view.T, view.Proxied, view.Client = t, false, &http.Client{Transport: transport, Timeout: Patience}
		t.Cleanup(transport.CloseIdleConnections)
		l.networks, l.views = append(l.networks, n), append(l.views, view)
	}
	nodes[0].Must(200, "PUT", "/v1/admin/versions/"+keptAccount, []byte(`{"keep":"on"}`), "If-Match", "*")
	return l
}

// Kill kills a node, and restarts it after more requests have a response.
func (l *FeedLoad) Kill(i int, more int64) {
	l.T.Helper()
	l.nodes[i].Kill()
	l.down[i].Store(true)
	if len(l.nodes) > 1 {
		l.Further(more)
	}
	l.nodes[i].Restart()
	l.down[i].Store(false)
}

// Cut resets all connections of clients and followers.
func (l *FeedLoad) Cut() {
	for _, n := range l.networks {
		n.Cut()
	}
}

// Further waits until more requests have a response.
func (l *FeedLoad) Further(more int64) {
	l.T.Helper()
	until := l.made.Load() + more
	Await(l.T, fmt.Sprintf("%d requests have no response", more), func() bool { return l.made.Load() >= until || l.T.Failed() })
}

// FeedRequests are the requests of a long run.
const FeedRequests = 100_000

// Run sends requests until so many have a response, or until a time, with one of the troubles each
// time that phase more have one. Then it checks the followers.
func (l *FeedLoad) Run(requests, phase int64, end time.Time, troubles ...func()) {
	l.T.Helper()
	l.follow(requests)
	l.push()
	var clients sync.WaitGroup
	for i := range feedClients {
		random := rand.New(rand.NewPCG(l.seed, uint64(i)))
		clients.Go(func() {
			pause := time.NewTicker(5 * time.Millisecond)
			defer pause.Stop()
			for !l.over.Load() && !l.T.Failed() {
				if !l.step(random) {
					<-pause.C
				}
			}
		})
	}
	stop := func() { l.over.Store(true); clients.Wait() }
	l.T.Cleanup(stop)
	for i := 0; l.made.Load() < requests && time.Now().Before(end) && !l.T.Failed(); i++ {
		l.Further(phase)
		troubles[i%len(troubles)]()
	}
	stop()
	l.check()
}

// step makes a random request, and reports whether it had a response.
func (l *FeedLoad) step(random *rand.Rand) bool {
	on, account, name := l.view(random), feedAccounts[random.IntN(len(feedAccounts))], feedName(random)
	switch n := random.IntN(100); {
	case on == nil:
		return false
	case n < 45:
		return l.put(on, random, account, name)
	case n < 60:
		return l.remove(on, random, account, name)
	case n < 90:
		to := account
		if account != briefAccount && random.IntN(3) == 0 {
			to = feedAccounts[random.IntN(2)]
		}
		return l.transfer(on, [2]string{account, name}, [2]string{to, feedName(random)}, n < 75)
	default:
		return l.version(on, random)
	}
}

func feedName(random *rand.Rand) string {
	return []string{"p/", "q/"}[random.IntN(2)] + fmt.Sprint(random.IntN(5))
}

// ask sends a request. It records the effects that it may have had, which done replaces if the
// request is acknowledged, and reports whether it had a response.
func (l *FeedLoad) ask(on *Server, method, target string, body []byte, h Headers, effects []effect, done func(r Response)) bool {
	r, err := on.Try(method, target, body, h...)
	var p Problem
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return false
	case err != nil || r.Status == http.StatusServiceUnavailable && (json.Unmarshal(r.Body, &p) != nil || p.Code == nil || *p.Code == "outcome_unknown"):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost++
		l.maybe(effects...)
		return false
	case r.Status == http.StatusServiceUnavailable:
		return false // it has had no effect
	case r.Status < 300:
		l.mu.Lock()
		defer l.mu.Unlock()
		done(r)
	case r.Status != 404 && r.Status != 410 && r.Status != 412 && (r.Status != 400 || !strings.Contains(target, briefAccount)):
		l.T.Errorf("%s %s: %v", method, target, r)
	}
	l.made.Add(1)
	return true
}

// maybe records effects that a request may have.
func (l *FeedLoad) maybe(effects ...effect) {
	for _, e := range effects {
		l.possible[e]++
	}
}

func (l *FeedLoad) put(on *Server, random *rand.Rand, account, name string) bool {
	n := l.sent.Add(1)
	body := fmt.Appendf(nil, "content %d %s", n, strings.Repeat("x", int(n%16/15*40_000))) // some become objects
	stored := effect{"stored", account, name, fmt.Sprintf(`"%x-%016x"`, len(body), crc64.Checksum(body, nvme))}
	var h Headers
	if account == briefAccount && random.IntN(8) == 0 {
		h = Headers{"Blob-Expires", time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)}
	}
	return l.ask(on, "PUT", BlobTarget(account, name), body, h, []effect{stored}, func(r Response) {
		l.acked[stored]++
		l.tags.Store(BlobTarget(account, name), stored.id)
		l.added(stored, r)
	})
}

// added notes a version that a response names.
func (l *FeedLoad) added(e effect, r Response) {
	if id := r.Header.Get("Blob-Version"); e.account == keptAccount && id != "" {
		l.versions = append(l.versions, metaVersion{e.name, id})
	}
}

func (l *FeedLoad) remove(on *Server, random *rand.Rand, account, name string) bool {
	target := BlobTarget(account, name)
	if account == keptAccount {
		marked := effect{kind: "marked", account: account, name: name}
		return l.ask(on, "DELETE", target, nil, nil, []effect{marked}, func(r Response) {
			if marked.id = r.Header.Get("Blob-Version"); marked.id != "" { // there was a blob
				l.acked[marked]++
			}
		})
	}
	deleted := effect{kind: "deleted", account: account, name: name}
	tag, known := l.tags.Load(target)
	if !known || random.IntN(3) == 0 {
		return l.ask(on, "DELETE", target, nil, nil, []effect{deleted}, func(Response) { l.maybe(deleted) })
	}
	deleted.id = tag.(string)
	return l.ask(on, "DELETE", target, nil, Headers{"If-Match", deleted.id}, []effect{deleted}, func(Response) { l.acked[deleted]++ })
}

// transfer copies or moves a blob to another name.
func (l *FeedLoad) transfer(on *Server, from, to [2]string, copies bool) bool {
	if from == to {
		return true
	}
	member, effects := "moveTo", []effect{{"moved-to", to[0], to[1], ""}, {"moved-from", from[0], from[1], ""}}
	if copies {
		member, effects = "copyTo", []effect{{"copied", to[0], to[1], ""}}
	}
	body := AsJSON(l.T, map[string]any{member: map[string]any{"account": to[0], "blobName": to[1]}})
	return l.ask(on, "POST", BlobTarget(from[0], from[1]), body, Headers{"Content-Type", "application/json"}, effects, func(r Response) {
		for _, e := range effects {
			e.id = r.Header.Get("ETag")
			l.acked[e]++
		}
		l.added(effects[0], r)
	})
}

// version restores a version, or deletes it for good. Each is deleted at most once.
func (l *FeedLoad) version(on *Server, random *rand.Rand) bool {
	l.mu.Lock()
	if len(l.versions) == 0 {
		l.mu.Unlock()
		return true
	}
	i := random.IntN(len(l.versions))
	v, restores := l.versions[i], random.IntN(2) == 0
	if !restores {
		l.versions[i] = l.versions[len(l.versions)-1]
		l.versions = l.versions[:len(l.versions)-1]
	}
	l.mu.Unlock()
	target := VersionTarget(keptAccount, v.id, v.name)
	if restores {
		restored := effect{kind: "restored", account: keptAccount, name: v.name}
		body := AsJSON(l.T, map[string]any{"copyTo": map[string]any{"blobName": v.name}})
		return l.ask(on, "POST", target, body, Headers{"Content-Type", "application/json"}, []effect{restored}, func(Response) { l.maybe(restored) })
	}
	gone := effect{"version-deleted", keptAccount, v.name, v.id}
	return l.ask(on, "DELETE", target, nil, nil, []effect{gone}, func(Response) { l.acked[gone]++ })
}

// follow starts the followers.
func (l *FeedLoad) follow(requests int64) {
	l.T.Helper()
	var clients []*goclient.Client
	for _, view := range l.views {
		clients = append(clients, testenv.Must(goclient.New(view.URL, goclient.Options{MaxAttempts: 1}))(l.T))
	}
	for i := range 12 {
		f := &follower{feedNodes: &l.feedNodes, number: i, late: i%3 == 2, stream: i%2 == 0, slow: i%4 >= 2, clients: clients}
		f.random = rand.New(rand.NewPCG(l.seed, uint64(100+i)))
		if i >= 4 {
			f.account, f.prefix = feedAccounts[i%3], "p/"
		}
		l.followers = append(l.followers, f)
		l.group.Go(func() {
			if f.late {
				f.wait(func() bool { return l.made.Load() > requests/2 })
			}
			for f.goes() && !f.begin() {
				f.wait(nil)
			}
			for f.goes() && !f.done.Load() {
				f.begun++
				on, changes := f.random.IntN(len(clients)), 1+f.random.IntN(300)
				if err := f.read(on, changes); err != nil {
					f.wait(nil)
				}
			}
		})
	}
	l.T.Cleanup(func() {
		for _, c := range clients {
			c.CloseIdleConnections()
		}
		l.group.Wait()
	})
}

// push starts followers by webhooks, which are deleted with the instance.
func (l *FeedLoad) push() {
	for i := range 4 {
		f := &follower{feedNodes: &l.feedNodes, number: 100 + i, random: rand.New(rand.NewPCG(l.seed, uint64(200+i)))}
		if i >= 2 {
			f.account, f.prefix = feedAccounts[i%3], "p/"
		}
		p := &pushed{follower: f, bodies: map[string]string{}}
		server := httptest.NewServer(p)
		l.T.Cleanup(server.Close)
		l.followers, l.receivers = append(l.followers, f), append(l.receivers, p)
		l.group.Go(func() {
			for f.goes() && !p.register(server.URL) {
				f.wait(nil)
			}
		})
	}
}

// check ends every account, waits for the followers, and compares their blobs with the listing,
// with each other, and with the requests.
func (l *FeedLoad) check() {
	l.T.Helper()
	on := l.nodes[0]
	all := &follower{feedNodes: &l.feedNodes}
	listed := func() map[string]change { return testenv.Must(all.list(on))(l.T) }
	Await(l.T, "blobs do not expire", func() bool {
		for _, b := range listed() {
			if !b.Expires.IsZero() {
				return false
			}
		}
		return true
	})
	for _, account := range feedAccounts {
		stored := effect{"stored", account, feedEnd, on.Must(204, "PUT", BlobTarget(account, feedEnd), []byte(account)).Header.Get("ETag")}
		l.acked[stored]++
	}
	begun := 0
	for _, f := range l.followers {
		Await(l.T, fmt.Sprintf("follower %d does not reach the end", f.number), f.done.Load)
		if want, got := known(testenv.Must(f.list(on))(l.T)), known(f.picture); !maps.Equal(got, want) {
			l.T.Errorf("follower %d of %s/%s knows %v, and the listing has %v", f.number, f.account, f.prefix, got, want)
		}
		begun += f.begun
	}
	list := l.recorded(on)
	for _, f := range l.followers {
		f.compare(list)
	}
	kinds := l.compare(list)
	refused, repeated := 0, 0
	for _, p := range l.receivers {
		refused, repeated = refused+p.refused, repeated+p.repeated
	}
	l.T.Logf("%d deliveries to webhooks were refused, and %d changes came again", refused, repeated)
	l.T.Logf("%d requests had a response and %d none; %d changes %v; %d followers made %d requests", l.made.Load(), l.lost, len(list), kinds, len(l.followers), begun)
}

// recorded returns all changes.
func (l *FeedLoad) recorded(on *Server) (list []change) {
	l.T.Helper()
	for after := "start"; ; {
		var page struct {
			Changes []change
			Next    string
		}
		on.Must(200, "GET", "/v1/changes?limit=1000&after="+after, nil).Decode(l.T, &page)
		if len(page.Changes) == 0 && page.Next == after {
			return list
		}
		list, after = append(list, page.Changes...), page.Next
	}
}

// compare checks that all changes together are possible, and that requests have made them. It
// returns how many there are of each kind.
func (l *FeedLoad) compare(list []change) map[string]int {
	l.T.Helper()
	names, seen, kinds := map[string]*named{}, map[effect]int{}, map[string]int{}
	last := int64(0)
	for i := range list {
		c := &list[i]
		kinds[c.Kind]++
		if n := number(c.Position); n > last {
			last = n
		} else {
			l.T.Errorf("the number %d follows %d", n, last)
		}
		at := names[c.Account+"/"+c.Name]
		if at == nil {
			at = &named{versions: map[string]bool{}}
			names[c.Account+"/"+c.Name] = at
		}
		before := *at
		e, possible := at.take(c)
		if !possible {
			l.T.Errorf("the change %+v cannot follow %+v of %+v", c, before.current, before.newest)
		}
		if e.kind != "" {
			seen[e]++
		}
	}
	surplus := map[effect]int{}
	for e, n := range seen {
		if e.kind == "stored" && n > 1 {
			l.T.Errorf("%+v was seen %d times", e, n)
		}
		if n -= l.acked[e] + l.possible[e]; n > 0 {
			e.id = ""
			surplus[e] += n
		}
	}
	for e, n := range surplus {
		if n > l.possible[e] {
			l.T.Errorf("%d changes %+v belong to no request, at most %d to requests without a response", n, e, l.possible[e])
		}
	}
	for e, n := range l.acked {
		if seen[e] < n {
			l.T.Errorf("of %d acknowledged requests for %+v there are %d changes", n, e, seen[e])
		}
	}
	if kinds["moved-from"] != kinds["moved-to"] {
		l.T.Errorf("some moves have one end: %v", kinds)
	}
	l.compareVersions(names)
	return kinds
}

// compareVersions compares the versions that the changes leave with the listed ones.
func (l *FeedLoad) compareVersions(names map[string]*named) {
	l.T.Helper()
	left, listed := map[string]bool{}, map[string]bool{}
	for _, at := range names {
		maps.Copy(left, at.versions)
	}
	for _, v := range l.nodes[0].AllVersions(keptAccount) {
		if !v.Deleted {
			listed[v.Version] = true
		}
	}
	if !maps.Equal(left, listed) {
		l.T.Errorf("by the changes there are %d versions, and %d are listed", len(left), len(listed))
	}
}
