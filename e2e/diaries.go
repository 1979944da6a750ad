package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Diarists are clients that each change blobs, a session and a channel of their own, one request at
// a time, and keep a diary of every state. An instance's copy must have a page of each diary,
// and there must be one moment at which all of these pages were the last.
type Diarists struct {
	T     testing.TB
	Nodes []*Server // that take the requests

	all     []*diarist
	stop    chan struct{}
	running sync.WaitGroup
}

// diarist is one of Diarists.
type diarist struct {
	*Diarists
	account string
	random  *rand.Rand
	session string
	channel *Channel
	version int      // the last content's
	pages   []page   // each differs from the one before
	open    *pageEnd // the request without a response
}

// page is a state, and when it came about: after sent and before answered.
type page struct {
	blobs          map[string]int // versions by name
	used, paid     int64          // chunksets: by uses, and over the channel
	sent, answered time.Time
}

// pageEnd is a request and the state that it leads to.
type pageEnd struct {
	label string
	next  page
}

const (
	diaristCount    = 5
	diaristNames    = 12
	diaristUses     = 900 // a session has 1,000
	diaristPayments = 60
)

// NewDiarists returns diarists with a session and a channel each. The seed determines their
// requests.
func NewDiarists(t testing.TB, seed uint64, nodes []*Server) *Diarists {
	t.Helper()
	d := &Diarists{T: t, Nodes: nodes}
	for i := range diaristCount {
		a := &diarist{Diarists: d, account: fmt.Sprint("diarist-", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		a.session = nodes[0].Session()
		a.channel = nodes[0].Open(nodes[0].Payer(byte(100+i)), 1<<40)
		a.pages = []page{{blobs: map[string]int{}}}
		d.all = append(d.all, a)
	}
	t.Cleanup(d.End)
	return d
}

// Begin has all of them send requests until End.
func (d *Diarists) Begin() {
	d.stop = make(chan struct{})
	for _, a := range d.all {
		d.running.Go(func() {
			for !closed(d.stop) && !d.T.Failed() {
				if err := a.step(); err != nil {
					if !closed(d.stop) {
						d.T.Errorf("%s: %v", a.account, err)
					}
					return
				}
			}
		})
	}
}

// End ends the requests, if Begin was called. Those that are sent meanwhile have a response.
func (d *Diarists) End() {
	if d.stop == nil || closed(d.stop) {
		return
	}
	close(d.stop)
	d.running.Wait()
	Client.CloseIdleConnections()
}

// Kill kills a node while requests are sent to it, calls restart, finds out the effects of requests
// without a response, and begins again.
func (d *Diarists) Kill(node *Server, restart func()) {
	d.T.Helper()
	close(d.stop)
	node.Kill()
	d.running.Wait()
	Client.CloseIdleConnections()
	restart()
	for _, a := range d.all {
		a.resolve()
	}
	if d.T.Failed() {
		d.T.FailNow()
	}
	d.Begin()
}

// Requests returns how many requests have changed something. It must not be called while they are
// sent.
func (d *Diarists) Requests() (n int) {
	for _, a := range d.all {
		n += len(a.pages) - 1
	}
	return n
}

// last returns a copy of the last page.
func (a *diarist) last() page {
	p := a.pages[len(a.pages)-1]
	p.blobs = maps.Clone(p.blobs)
	return p
}

func (a *diarist) node() *Server { return a.Nodes[a.random.IntN(len(a.Nodes))] }

func (a *diarist) name() string { return fmt.Sprint("name ", a.random.IntN(diaristNames)) }

// step sends a random request that changes something. It returns an error if there is no response.
func (a *diarist) step() error {
	next, name, to := a.last(), a.name(), a.name()
	_, exists := next.blobs[name]
	switch n := a.random.IntN(100); {
	case n < 10 && next.used < diaristUses:
		next.used++
		return a.send("use", next, http.StatusOK, "POST", "/v1/sessions/"+a.session+"/use", nil)
	case n < 15 && next.paid < diaristPayments:
		next.paid++
		return a.send("pay", next, http.StatusCreated, "POST", "/v1/sessions", PurchaseBody(a.T, a.channel.Next(1), ""))
	case n < 25 && exists:
		delete(next.blobs, name)
		return a.send("delete", next, http.StatusNoContent, "DELETE", BlobTarget(a.account, name), nil)
	case n < 40 && exists && next.blobs[to] != next.blobs[name]:
		next.blobs[to] = next.blobs[name]
		return a.send("copy", next, http.StatusOK, "POST", BlobTarget(a.account, name), a.toName("copyTo", to), "Content-Type", "application/json")
	case n < 50 && exists && to != name:
		next.blobs[to] = next.blobs[name]
		delete(next.blobs, name)
		return a.send("move", next, http.StatusOK, "POST", BlobTarget(a.account, name), a.toName("moveTo", to), "Content-Type", "application/json")
	case n < 55:
		return a.upload(next, name)
	}
	a.version++
	next.blobs[name] = a.version
	return a.send("put", next, http.StatusNoContent, "PUT", BlobTarget(a.account, name), a.content(a.version))
}

func (a *diarist) toName(how, name string) []byte {
	return AsJSON(a.T, map[string]any{how: map[string]any{"account": a.account, "blobName": name}})
}

// upload stores a blob by parts.
func (a *diarist) upload(next page, name string) error {
	a.version++
	next.blobs[name] = a.version
	data, on := a.content(a.version), a.node()
	partSize := 1 + len(data)/3
	r, err := on.Try("POST", "/v1/multipart-uploads", AsJSON(a.T, map[string]any{"rawAccount": a.account, "rawBlobName": name, "rawPartSize": partSize}))
	if err != nil {
		return err
	}
	var begun struct{ UploadID string }
	if err := json.Unmarshal(r.Body, &begun); err != nil || r.Status != http.StatusOK {
		return fmt.Errorf("begin: %v, %w", r, err)
	}
	for i := 0; i*partSize < len(data); i++ {
		r, err := on.Try("PUT", PartTarget(begun.UploadID, i), data[i*partSize:min(len(data), (i+1)*partSize)])
		if err != nil || r.Status != http.StatusOK {
			return fmt.Errorf("part %d: %v, %w", i, r, err)
		}
	}
	return a.send("complete", next, http.StatusOK, "POST", "/v1/multipart-uploads/"+begun.UploadID+"/complete", nil)
}

// send sends a request that leads to a page.
func (a *diarist) send(label string, next page, want int, method, target string, body []byte, h ...string) error {
	next.sent = time.Now()
	a.open = &pageEnd{label, next}
	r, err := a.node().Try(method, target, body, h...)
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	if r.Status != want {
		return fmt.Errorf("%s %s: %v, want %d", label, target, r, want)
	}
	a.turn()
	return nil
}

// turn ends the open request's page.
func (a *diarist) turn() {
	a.open.next.answered = time.Now()
	a.pages = append(a.pages, a.open.next)
	a.open = nil
}

// resolve finds out whether the request without a response has had its effect.
func (a *diarist) resolve() {
	a.T.Helper()
	if a.open == nil {
		return
	}
	switch found := a.look(a.Nodes[0]); {
	case found.same(a.open.next):
		a.turn()
		return
	case !found.same(a.last()):
		a.T.Errorf("%s: after a kill there are %+v, want %+v or, with the request to %s, %+v", a.account, found, a.last(), a.open.label, a.open.next)
	}
	if a.open.label == "pay" { // the payment was not accepted, so the next one has its place
		a.channel.Sequence--
		a.channel.Amount--
	}
	a.open = nil
}

func (p page) same(q page) bool {
	return maps.Equal(p.blobs, q.blobs) && p.used == q.used && p.paid == q.paid
}

// diarySizes are the contents' sizes: inline, one object, or several.
var diarySizes = []int{0, 300, 4 << 10, 4 << 10, 24 << 10, 40 << 10, 130 << 10, 300 << 10, 1200 << 10}

// content returns the content with a version. It begins with the account and the version.
func (a *diarist) content(version int) []byte {
	body := Content(uint64(version), diarySizes[version%len(diarySizes)])
	return append(fmt.Appendf(nil, "%s version %d\n", a.account, version), body...)
}

// look reads the state from an instance, every byte of it.
func (a *diarist) look(on *Server) page {
	a.T.Helper()
	p := page{blobs: map[string]int{}}
	for _, name := range on.Names(a.account) {
		r := on.Must(200, "GET", BlobTarget(a.account, name), nil)
		line, _, _ := strings.Cut(string(r.Body), "\n")
		version, err := strconv.Atoi(strings.TrimPrefix(line, a.account+" version "))
		if err != nil || !bytes.Equal(r.Body, a.content(version)) {
			a.T.Errorf("%s/%s has %d bytes that begin with %.40q and are no content that was stored", a.account, name, len(r.Body), line)
			continue
		}
		p.blobs[name] = version
	}
	session := on.SessionState(a.session)
	if session.ChunksetsTotal != 1000 {
		a.T.Errorf("the session of %s has %+v", a.account, session)
	}
	p.used = session.ChunksetsTotal - session.ChunksetsLeft
	channel := *a.channel
	channel.S = on
	state := channel.State()
	p.paid = Number(a.T, state.Accepted)
	var bought int64
	for _, s := range state.Sessions {
		bought += s.ChunksetsLeft
	}
	if bought != p.paid {
		a.T.Errorf("%s has paid for %d chunksets and got %d", a.account, p.paid, bought)
	}
	return p
}

// Verify checks that an instance has the original's state at one moment between two times.
func (d *Diarists) Verify(on *Server, earliest, latest time.Time) {
	d.T.Helper()
	type span struct{ from, to time.Time }
	var all [][]span
	for _, a := range d.all {
		found := a.look(on)
		var spans []span
		for i, p := range a.pages {
			if !found.same(p) {
				continue
			}
			s := span{p.sent, latest}
			if i+1 < len(a.pages) && a.pages[i+1].answered.Before(latest) {
				s.to = a.pages[i+1].answered
			}
			if s.from.Before(earliest) {
				s.from = earliest
			}
			if !s.to.Before(s.from) {
				spans = append(spans, s)
			}
		}
		if len(spans) == 0 {
			d.T.Errorf("%s: of %d pages none between %v and %v is %+v", a.account, len(a.pages), earliest, latest, found)
			return
		}
		all = append(all, spans)
	}
	// If there is such a moment, then also where a span starts.
	for _, candidates := range all {
		for _, at := range candidates {
			if each(all, func(spans []span) bool {
				for _, s := range spans {
					if !at.from.Before(s.from) && !at.from.After(s.to) {
						return true
					}
				}
				return false
			}) {
				return
			}
		}
	}
	d.T.Errorf("the diarists' pages have no moment in common: %v", all)
}

// each reports whether is returns true for all of them.
func each[E any](list []E, is func(E) bool) bool {
	for _, e := range list {
		if !is(e) {
			return false
		}
	}
	return true
}
