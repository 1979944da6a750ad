package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	crashRounds  = 50
	crashWriters = 6
	crashNames   = 5 // per writer
)

// state is a name's content: a digest, or "" if there is no blob.
type state struct {
	exists bool
	sum    [sha256.Size]byte
}

// expectation is what is known about a name: the last acknowledged state, and the one that an
// unanswered request may have produced.
type expectation struct {
	acknowledged state
	inFlight     *state
	uploadID     string // of a complete request in flight
}

// writer writes its own names, one request at a time, and keeps an expectation for each.
type writer struct {
	account string
	random  *rand.Rand
	names   map[string]*expectation
}

// counter is a session with its number of uses.
type counter struct {
	id           string
	issued       atomic.Int64
	acknowledged atomic.Int64
	settled      bool // used is known exactly
	used         int64
}

// TestCrashLoop kills the server repeatedly at random moments under mixed load, on the same data.
// After each start every acknowledged blob must be complete, no other blob may be torn, deletes
// must hold, and each session's count must lie between the acknowledged and the issued uses.
func TestCrashLoop(t *testing.T) {
	seed := seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := start(t, options{dirty: true})
	writers := make([]*writer, crashWriters)
	for i := range writers {
		w := &writer{
			account: fmt.Sprint("writer-", i),
			random:  rand.New(rand.NewPCG(seed, uint64(i+1))),
			names:   map[string]*expectation{},
		}
		for n := range crashNames {
			w.names[fmt.Sprint("name ", n)] = &expectation{}
		}
		writers[i] = w
	}
	var counters []*counter
	var requests atomic.Int64
	for round := range crashRounds {
		c := &counter{id: s.session()}
		counters = append(counters, c)
		crashUnderLoad(s, writers, c, &requests, random)
		s.restart()
		for _, w := range writers {
			w.verify(s)
		}
		for _, c := range counters {
			c.verify(s)
		}
		if t.Failed() {
			t.Fatalf("after crash %d", round+1)
		}
	}
	t.Logf("%d crashes, %d acknowledged requests", crashRounds, requests.Load())
	if requests.Load() < 10*crashRounds {
		t.Errorf("the load was too small to be meaningful: %d requests", requests.Load())
	}
}

// crashUnderLoad runs the writers and two users of the session until the server has acknowledged a
// random number of requests, and for a random time after that. It then kills the server and waits
// until all of them have noticed.
func crashUnderLoad(s *server, writers []*writer, c *counter, requests *atomic.Int64, random *rand.Rand) {
	s.t.Helper()
	var killed atomic.Bool
	left := atomic.Int64{}
	left.Store(1 + random.Int64N(150))
	delay := time.Duration(random.Int64N(int64(8 * time.Millisecond)))
	kill := make(chan struct{})
	acknowledge := func() {
		requests.Add(1)
		if left.Add(-1) == 0 {
			time.AfterFunc(delay, func() {
				killed.Store(true)
				close(kill)
			})
		}
	}
	var load sync.WaitGroup
	for _, w := range writers {
		load.Go(func() { w.run(s, &killed, acknowledge) })
	}
	for range 2 {
		load.Go(func() { c.run(s, &killed, acknowledge) })
	}
	over := make(chan struct{})
	go func() {
		load.Wait()
		close(over)
	}()
	select {
	case <-kill:
	case <-over: // each of them had a failure and reported it
	}
	s.kill()
	<-over
	// The test must not use the connections to the dead process again.
	client.CloseIdleConnections()
}

// unexpected reports whether a response, or an error, is wrong. Only a request to a killed server
// may fail without a response.
func unexpected(t testing.TB, what string, r response, err error, want int, killed *atomic.Bool) {
	t.Helper()
	switch {
	case err != nil && !killed.Load():
		t.Errorf("%s: %v before the kill", what, err)
	case err == nil && r.status != want:
		t.Errorf("%s: %v, want %d", what, r, want)
	}
}

// run writes at random until the server is gone.
func (w *writer) run(s *server, killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		name := fmt.Sprint("name ", w.random.IntN(crashNames))
		var ok bool
		switch w.random.IntN(10) {
		case 0, 1:
			ok = w.delete(s, name, killed)
		case 2, 3, 4:
			ok = w.upload(s, name, killed)
		default:
			ok = w.put(s, name, killed)
		}
		if !ok {
			return
		}
		acknowledge()
	}
}

// These sizes cover each way in which the server stores content.
var sizes = []int{0, 1, 100, 4 << 10, 40 << 10, 130 << 10, 600 << 10, 1<<20 + 1, 3 << 20}

func (w *writer) content() []byte {
	return content(w.random.Uint64(), sizes[w.random.IntN(len(sizes))])
}

func (w *writer) put(s *server, name string, killed *atomic.Bool) bool {
	data := w.content()
	next := &state{true, sha256.Sum256(data)}
	w.names[name].inFlight = next
	r, err := s.try("PUT", blobTarget(w.account, name), data)
	unexpected(s.t, "PUT", r, err, http.StatusNoContent, killed)
	return w.answered(name, *next, err)
}

func (w *writer) delete(s *server, name string, killed *atomic.Bool) bool {
	w.names[name].inFlight = &state{}
	r, err := s.try("DELETE", blobTarget(w.account, name), nil)
	unexpected(s.t, "DELETE", r, err, http.StatusNoContent, killed)
	return w.answered(name, state{}, err)
}

// upload stores a blob in parts. It sends some of them twice.
func (w *writer) upload(s *server, name string, killed *atomic.Bool) bool {
	data := w.content()
	partSize := max(1, len(data)/(1+w.random.IntN(4)))
	body, err := json.Marshal(map[string]any{"rawAccount": w.account, "rawBlobName": name, "rawPartSize": partSize})
	if err != nil {
		s.t.Error(err)
		return false
	}
	r, err := s.try("POST", "/v1/multipart-uploads", body)
	unexpected(s.t, "begin", r, err, http.StatusOK, killed)
	var begun struct{ UploadID string }
	if err != nil || json.Unmarshal(r.body, &begun) != nil {
		return false
	}
	for i := 0; i*partSize < len(data); i++ {
		part := data[i*partSize : min(len(data), (i+1)*partSize)]
		for range 1 + w.random.IntN(2) {
			r, err := s.try("PUT", partTarget(begun.UploadID, i), part)
			unexpected(s.t, "part", r, err, http.StatusOK, killed)
			if err != nil {
				return false
			}
		}
	}
	next := &state{true, sha256.Sum256(data)}
	w.names[name].inFlight, w.names[name].uploadID = next, begun.UploadID
	r, err = s.try("POST", "/v1/multipart-uploads/"+begun.UploadID+"/complete", nil)
	unexpected(s.t, "complete", r, err, http.StatusOK, killed)
	return w.answered(name, *next, err)
}

// answered records a request's outcome for a name. The outcome is unknown if err is not nil.
func (w *writer) answered(name string, next state, err error) bool {
	if err != nil {
		return false
	}
	*w.names[name] = expectation{acknowledged: next}
	return true
}

// verify compares every name with its expectation.
func (w *writer) verify(s *server) {
	s.t.Helper()
	for name, e := range w.names {
		got := w.look(s, name)
		if got != e.acknowledged && (e.inFlight == nil || got != *e.inFlight) {
			s.t.Errorf("%s/%s is %v, want %v or %v", w.account, name, got, e.acknowledged, e.inFlight)
		}
		if e.uploadID != "" {
			// The server has acknowledged all parts, so completing again must succeed.
			r := s.do("POST", "/v1/multipart-uploads/"+e.uploadID+"/complete", nil)
			if got = w.look(s, name); r.status != 200 || got != *e.inFlight {
				s.t.Errorf("%s/%s: complete after the crash: %v, the blob is %v, want %v", w.account, name, r, got, *e.inFlight)
			}
		}
		// A state that a client has read must stay.
		*e = expectation{acknowledged: got}
	}
}

// look reads a name's state.
func (w *writer) look(s *server, name string) state {
	s.t.Helper()
	r := s.do("GET", blobTarget(w.account, name), nil)
	switch {
	case r.status == 404:
		return state{}
	case r.status == 200 && r.length == int64(len(r.body)):
		return state{true, sha256.Sum256(r.body)}
	default:
		s.t.Errorf("%s/%s: %d with %d of %d bytes", w.account, name, r.status, len(r.body), r.length)
		return state{}
	}
}

// run uses the session until the server is gone.
func (c *counter) run(s *server, killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		c.issued.Add(1)
		r, err := s.try("POST", "/v1/sessions/"+c.id+"/use", nil)
		unexpected(s.t, "use", r, err, http.StatusOK, killed)
		if err != nil {
			return
		}
		c.acknowledged.Add(1)
		acknowledge()
	}
}

// verify compares the session's count with the uses.
func (c *counter) verify(s *server) {
	s.t.Helper()
	left, err := strconv.ParseInt(s.left(c.id), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	used := 1000 - left
	if used < c.acknowledged.Load() || used > c.issued.Load() {
		s.t.Errorf("session: %d uses recovered, %d acknowledged, %d issued", used, c.acknowledged.Load(), c.issued.Load())
	}
	if c.settled && used != c.used {
		s.t.Errorf("session: %d uses, were %d after the previous crash", used, c.used)
	}
	c.settled, c.used = true, used
}

// TestFirstStartKilled kills first starts at random moments, both before and after anything was
// printed. The next start on the same folder must work.
func TestFirstStartKilled(t *testing.T) {
	random := rand.New(rand.NewPCG(seed(t), 1))
	for range 15 {
		data := filepath.Join(t.TempDir(), "data")
		first := exec.Command(sluice, "serve", "--addr", "127.0.0.1:0", "--data", data)
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(60*time.Millisecond))), func() {
			if err := first.Process.Kill(); err != nil {
				t.Error(err)
			}
		})
		if err := first.Wait(); err == nil {
			t.Fatal("a killed server exited successfully")
		}
		timer.Stop()
		s := start(t, options{data: data})
		s.session()
		s.stop()
	}
}
