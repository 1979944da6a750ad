package e2e

import (
	"fmt"
	"hash/crc64"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sharers are clients that store, copy, move and delete blobs, so that many names have the same
// contents. Each writes names of its own, in two accounts, and copies from all names. They check
// every response, and after a kill that each request without a response has had its effect
// completely or not at all.
type Sharers struct {
	T       testing.TB
	Nodes   []*Server
	all     []*sharer
	sent    sync.Map // every content by its ETag
	done    atomic.Int64
	lost    []window // of the requests without a response
	repeats int      // requests that were sent again after a kill
}

// sharedContent describes a content that was sent.
type sharedContent struct {
	seed uint64
	size int
}

// held is a name's content.
type held struct {
	etag    string // "" if there is no blob
	color   string // of its metadata; "" if it is not known
	expires bool   // it may have expired at any time since
}

// window is the time from a request until its server was killed.
type window struct{ begun, killed time.Time }

// unanswered is a request without a response: its names, and each name's state if it has had its
// effect.
type unanswered struct {
	names []string
	after []held
	other bool                          // the last name may have any content that was sent
	again func(on *Server) (int, error) // has the same effect if it is sent once more; may be nil
}

const (
	sharerCount = 8
	sharedNames = 5 // in each of a sharer's two accounts
)

// sharer is one of Sharers. It sends one request at a time.
type sharer struct {
	*Sharers
	number int
	random *rand.Rand
	names  map[string]held // by the target
	begun  time.Time       // when the last request was sent
	open   *unanswered
}

// NewSharers returns sharers without blobs. The seed determines their requests.
func NewSharers(t testing.TB, seed uint64, nodes []*Server) *Sharers {
	s := &Sharers{T: t, Nodes: nodes}
	for i := range sharerCount {
		s.all = append(s.all, &sharer{Sharers: s, number: i, random: rand.New(rand.NewPCG(seed, uint64(i))), names: map[string]held{}})
	}
	return s
}

// Run has all sharers send requests until count more have had a response, or until stop is closed.
// A request may be without a response only after that.
func (s *Sharers) Run(count int64, stop <-chan struct{}) {
	s.T.Helper()
	end := s.done.Load() + count
	var running sync.WaitGroup
	for _, a := range s.all {
		running.Go(func() {
			for s.done.Load() < end && !closed(stop) && !s.T.Failed() {
				if err := a.step(); err != nil {
					if !closed(stop) {
						s.T.Errorf("sharer %d: %v", a.number, err)
					}
					return
				}
				s.done.Add(1)
			}
		})
	}
	running.Wait()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// RunAndKill has all sharers send requests, kills a node while they do, calls restart, and checks
// the effects of requests without a response. The node is killed after a random number of requests,
// count on average.
func (s *Sharers) RunAndKill(random *rand.Rand, count int64, node *Server, restart func()) {
	s.T.Helper()
	stop, over := make(chan struct{}), make(chan struct{})
	s.Run(random.Int64N(2*count), nil)
	go func() {
		defer close(over)
		s.Run(1<<40, stop)
	}()
	time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
	close(stop)
	node.Kill()
	<-over
	killed := time.Now()
	Client.CloseIdleConnections()
	restart()
	s.resolve(killed)
	s.each((*sharer).read)
	if s.T.Failed() {
		s.T.FailNow()
	}
}

// resolve finds out the effects of requests without a response, after all nodes are up again.
func (s *Sharers) resolve(killed time.Time) {
	s.T.Helper()
	for _, a := range s.all {
		if a.open != nil {
			s.lost = append(s.lost, window{a.begun, killed})
			a.resolve(a.open)
			a.open = nil
		}
	}
}

// Delete reads every byte of every blob, and deletes all blobs and the uploads that were begun.
func (s *Sharers) Delete() {
	s.T.Helper()
	names := map[string]int{} // by their ETags
	for _, a := range s.all {
		for _, have := range a.names {
			names[have.etag]++
		}
	}
	delete(names, "")
	most := slices.Max(append(slices.Collect(maps.Values(names)), 0))
	s.T.Logf("%d requests, %d without a response, %d repeated, at most %d names with one content", s.done.Load(), len(s.lost), s.repeats, most)
	s.each((*sharer).read)
	s.each((*sharer).remove)
	on := s.Nodes[0]
	for i := range 2 * sharerCount {
		for _, id := range on.OpenUploads(sharerAccount(i/2, i%2)) {
			on.Must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
		}
	}
}

// each does something with each sharer's names.
func (s *Sharers) each(do func(a *sharer, target string) error) {
	s.T.Helper()
	var all sync.WaitGroup
	for _, a := range s.all {
		all.Go(func() {
			for target := range a.names {
				if err := do(a, target); err != nil {
					s.T.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// NoObjectIsLeft waits until the bytes' folder has no objects but those that killed requests
// wrote, which are for the sweep.
func (s *Sharers) NoObjectIsLeft(folder string) {
	s.T.Helper()
	var orphans, others int
	await(s.T, func() bool {
		orphans, others = s.objectsIn(folder)
		return others == 0
	}, func() string { return fmt.Sprintf("%d objects are left after everything was deleted", others) })
	s.T.Logf("%d objects of killed requests are left", orphans)
}

// objectsIn counts the objects in a folder: those that were written while a request without a
// response ran, and the rest.
func (s *Sharers) objectsIn(folder string) (orphans, others int) {
	s.T.Helper()
	const tick = 10 * time.Millisecond
	eachFile(s.T, folder, func(_ string, info fs.FileInfo) {
		if strings.HasPrefix(info.Name(), "sluice") {
			return // the server's own files have this prefix
		}
		during := func(w window) bool {
			// The file system's clock may be late by a tick, and a store may write after the kill.
			return info.ModTime().After(w.begun.Add(-tick)) && info.ModTime().Before(w.killed.Add(time.Second))
		}
		if slices.ContainsFunc(s.lost, during) {
			orphans++
		} else {
			others++
		}
	})
	return orphans, others
}

// node returns a node for a request.
func (a *sharer) node() *Server { return a.Nodes[a.random.IntN(len(a.Nodes))] }

// sharerAccount returns the name of one of a sharer's two accounts.
func sharerAccount(number, i int) string { return fmt.Sprintf("sharer-%d-%d", number, i) }

// target returns the target of one of a sharer's names.
func (a *sharer) target(of int) string {
	return BlobTarget(sharerAccount(of, a.random.IntN(2)), fmt.Sprint("name ", a.random.IntN(sharedNames)))
}

// step sends a random request. It returns an error if there is no response.
func (a *sharer) step() error {
	a.begun = time.Now()
	target := a.target(a.number)
	switch n := a.random.IntN(100); {
	case n < 8:
		return a.put(target)
	case n < 10:
		return a.upload(target)
	case n < 18:
		return a.remove(target)
	case n < 28:
		return a.read(target)
	case n < 45:
		return a.copyOwn(a.target(a.number), target)
	case n < 75:
		return a.copyOther(a.target((a.number+1+a.random.IntN(sharerCount-1))%sharerCount), target)
	case n < 80:
		return a.copyOwn(target, target)
	default:
		return a.move(a.target(a.number), target)
	}
}

// nvme is the table of the CRC-64/NVME (NVM Express NVM Command Set Specification 1.0, 5.2.1.3.4).
var nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// content returns a new content, of a size that is stored inline, as one object or as several.
func (a *sharer) content() (body []byte, etag string) {
	sizes := []int{0, 10, 100, 4 << 10, 4 << 10, 20 << 10, 20 << 10, 130 << 10, 1<<20 + 1}
	c := sharedContent{a.random.Uint64(), sizes[a.random.IntN(len(sizes))]}
	body = Content(c.seed, c.size)
	etag = fmt.Sprintf(`"%x-%016x"`, c.size, crc64.Checksum(body, nvme))
	a.sent.Store(etag, c)
	return body, etag
}

func (a *sharer) color() string { return fmt.Sprint("color ", a.random.Uint32()) }

func (a *sharer) put(target string) error {
	body, etag := a.content()
	next := held{etag: etag, color: a.color()}
	h := []string{"Blob-Meta-Color", next.color}
	want := 204
	if have := a.names[target]; !have.expires && a.random.IntN(5) == 0 {
		h = append(h, "If-None-Match", "*")
		if have.etag != "" {
			want, next = 412, have
		}
	}
	a.open = &unanswered{names: []string{target}, after: []held{next}}
	r, err := a.node().Try("PUT", target, body, h...)
	return a.answered("PUT", r, err, want)
}

func (a *sharer) upload(target string) error {
	body, etag := a.content()
	account, name := accountAndName(target)
	part := max(1, len(body)/(1+a.random.IntN(3)))
	on := a.node()
	begin := AsJSON(a.T, map[string]any{"rawAccount": account, "rawBlobName": name, "rawPartSize": part})
	a.open = &unanswered{names: []string{target}, after: []held{a.names[target]}}
	r, err := on.Try("POST", "/v1/multipart-uploads", begin)
	if err != nil {
		return a.answered("begin", r, err, 200)
	}
	id := Text(a.T, r.Object(a.T), "uploadId")
	for i := 0; i*part < len(body); i++ {
		for range 1 + a.random.IntN(2) { // some are sent twice
			r, err := on.Try("PUT", PartTarget(id, i), body[i*part:min(len(body), (i+1)*part)])
			if err != nil || r.Status != 200 {
				return a.answered("part", r, err, 200)
			}
		}
	}
	complete := func(on *Server) (int, error) {
		r, err := on.Try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
		return r.Status, err
	}
	a.open = &unanswered{names: []string{target}, after: []held{{etag: etag}}, again: complete}
	r, err = on.Try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	return a.answered("complete", r, err, 200)
}

func (a *sharer) remove(target string) error {
	a.open = &unanswered{names: []string{target}, after: []held{{}}}
	r, err := a.node().Try("DELETE", target, nil)
	return a.answered("DELETE", r, err, 204)
}

// read checks a name's bytes and metadata.
func (a *sharer) read(target string) error {
	have := a.names[target]
	r, err := a.node().Try("GET", target, nil)
	switch {
	case err != nil:
		return err
	case (have.etag == "" || have.expires) && (r.Status == 404 || r.Status == 410):
		return nil
	case r.Status != 200 || r.Header.Get("ETag") != have.etag:
		return fmt.Errorf("GET %s: %v with the ETag %s, want %+v", target, r, r.Header.Get("ETag"), have)
	case have.color != "" && r.Header.Get("Blob-Meta-Color") != have.color:
		return fmt.Errorf("GET %s: the color is %q, want %+v", target, r.Header.Get("Blob-Meta-Color"), have)
	}
	sent, _ := a.sent.Load(have.etag)
	if c := sent.(sharedContent); Digest(r.Body) != Digest(Content(c.seed, c.size)) {
		return fmt.Errorf("GET %s: the %d bytes are not those that were stored", target, len(r.Body))
	}
	return nil
}

// copyOwn copies a name of its own. Its content is known.
func (a *sharer) copyOwn(source, target string) error {
	have := a.names[source]
	if have.expires {
		return a.read(source)
	}
	body, next := a.copyBody(target, have)
	want := 200
	switch {
	case have.etag == "":
		want, next = 404, a.names[target]
	case body["ifNoneMatch"] != nil && a.names[target].etag != "":
		want, next = 412, a.names[target]
	}
	send := func(on *Server) (Response, error) {
		return on.Try("POST", source, AsJSON(a.T, body), "Content-Type", "application/json")
	}
	a.open = &unanswered{names: []string{target}, after: []held{next}}
	if want == 200 && body["ifNoneMatch"] == nil && !next.expires {
		a.open.again = func(on *Server) (int, error) {
			r, err := send(on)
			return r.Status, err
		}
	}
	r, err := send(a.node())
	if next.expires && r.Status == 400 {
		a.open = nil // the request has waited for longer than the expiry
		return nil
	}
	return a.answered("copy", r, err, want)
}

// sourceChanged reports whether a copy is refused because the source was replaced again and again.
func sourceChanged(r Response) bool {
	return r.Status == 503 && strings.Contains(string(r.Body), `"overloaded"`)
}

// copyBody returns a copy's body, and the target's content after it.
func (a *sharer) copyBody(target string, source held) (body map[string]any, next held) {
	account, name := accountAndName(target)
	body, next = map[string]any{"copyTo": map[string]any{"account": account, "blobName": name}}, source
	if a.random.IntN(3) == 0 {
		next.color = a.color()
		body["replaceMetadata"], body["metadata"] = true, map[string]any{"color": next.color}
	}
	if a.random.IntN(10) == 0 {
		next.expires = true
		body["expires"] = time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	}
	if !a.names[target].expires && a.random.IntN(5) == 0 {
		body["ifNoneMatch"] = "*"
	}
	return body, next
}

// copyOther copies another sharer's name, which may have any content.
func (a *sharer) copyOther(source, target string) error {
	body, next := a.copyBody(target, held{})
	a.open = &unanswered{names: []string{target}, after: []held{next}, other: true}
	r, err := a.node().Try("POST", source, AsJSON(a.T, body), "Content-Type", "application/json")
	if err != nil {
		return err
	}
	switch before := a.names[target]; {
	case r.Status == 404, r.Status == 410, sourceChanged(r), next.expires && r.Status == 400, r.Status == 412 && body["ifNoneMatch"] != nil && before.etag != "":
		a.open = nil
		return nil
	case r.Status == 200 && body["ifNoneMatch"] != nil && before.etag != "":
		return fmt.Errorf("a copy that must not replace %s is made: %v", target, r)
	}
	if r.Status == 200 {
		a.open.after[0].etag = r.Header.Get("ETag")
		if _, known := a.sent.Load(a.open.after[0].etag); !known {
			return fmt.Errorf("the copy of %s has the ETag %q, which no content has", source, a.open.after[0].etag)
		}
	}
	return a.answered("copy", r, nil, 200)
}

// move moves a name of its own to another.
func (a *sharer) move(source, target string) error {
	have, before := a.names[source], a.names[target]
	if have.expires {
		return a.read(source)
	}
	account, name := accountAndName(target)
	body := map[string]any{"moveTo": map[string]any{"account": account, "blobName": name}}
	h := []string{"Content-Type", "application/json"}
	switch {
	case have.etag == "":
	case a.random.IntN(2) == 0:
		h = append(h, "Idempotency-Key", fmt.Sprint("move-", a.number, "-", a.random.Uint64()))
	default:
		h = append(h, "If-Match", have.etag)
	}
	want := 200
	names, after := []string{source, target}, []held{{}, have}
	switch {
	case have.etag == "":
		want, names, after = 404, nil, nil
	case source == target:
		names, after = names[1:], after[1:]
	case !before.expires && a.random.IntN(5) == 0:
		body["ifNoneMatch"] = "*"
		if before.etag != "" {
			want, names, after = 412, nil, nil
		}
	}
	send := func(on *Server) (Response, error) { return on.Try("POST", source, AsJSON(a.T, body), h...) }
	a.open = &unanswered{names: names, after: after}
	if want == 200 {
		a.open.again = func(on *Server) (int, error) {
			r, err := send(on)
			return r.Status, err
		}
	}
	r, err := send(a.node())
	return a.answered("move", r, err, want)
}
