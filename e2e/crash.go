package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"sluice/test/testenv"
)

// How many writers the tests that kill servers have, with their names.
const (
	CrashWriters = 6
	CrashNames   = 5 // per writer
)

// State is a name's content: a digest, or "" if there is no blob.
type State struct {
	Exists bool
	Sum    [sha256.Size]byte
}

// Expectation is a name's expected state: the last acknowledged one, or the one that an unanswered
// request may have produced.
type Expectation struct {
	Acknowledged State
	InFlight     *State
	UploadID     string // of a complete request in flight
}

// Writer writes its own names, one request at a time, and keeps an expectation for each.
type Writer struct {
	Account string
	Random  *rand.Rand
	Names   map[string]*Expectation
}

// Counter is a session with its number of uses.
type Counter struct {
	ID           string
	Issued       atomic.Int64
	Acknowledged atomic.Int64
	settled      bool // used is known exactly
	Used         int64
}

// Unexpected reports whether a response, or an error, is wrong. Only a request to a killed server
// may fail without a response.
func Unexpected(t testing.TB, label string, r Response, err error, want int, killed *atomic.Bool) {
	t.Helper()
	switch {
	case err != nil && !killed.Load():
		t.Errorf("%s: %v before the kill", label, err)
	case err == nil && r.Status != want:
		t.Errorf("%s: %v, want %d", label, r, want)
	}
}

// Run writes at random until the server is gone.
func (w *Writer) Run(s *Server, killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		name := fmt.Sprint("name ", w.Random.IntN(CrashNames))
		var ok bool
		switch w.Random.IntN(10) {
		case 0, 1:
			ok = w.delete(s, name, killed)
		case 2, 3, 4:
			ok = w.Upload(s, name, killed)
		default:
			ok = w.put(s, name, killed)
		}
		if !ok {
			return
		}
		acknowledge()
	}
}

// Sizes cover each way in which the server stores content.
var Sizes = []int{0, 1, 100, 4 << 10, 40 << 10, 130 << 10, 600 << 10, 1<<20 + 1, 3 << 20}

// Content returns random content of one of the Sizes.
func (w *Writer) Content() []byte {
	return Content(w.Random.Uint64(), Sizes[w.Random.IntN(len(Sizes))])
}

func (w *Writer) put(s *Server, name string, killed *atomic.Bool) bool {
	data := w.Content()
	next := &State{true, sha256.Sum256(data)}
	w.Names[name].InFlight = next
	r, err := s.Try("PUT", BlobTarget(w.Account, name), data)
	Unexpected(s.T, "PUT", r, err, http.StatusNoContent, killed)
	return w.answered(name, *next, err)
}

func (w *Writer) delete(s *Server, name string, killed *atomic.Bool) bool {
	w.Names[name].InFlight = &State{}
	r, err := s.Try("DELETE", BlobTarget(w.Account, name), nil)
	Unexpected(s.T, "DELETE", r, err, http.StatusNoContent, killed)
	return w.answered(name, State{}, err)
}

// Upload stores a blob in parts. It sends some of them twice.
func (w *Writer) Upload(s *Server, name string, killed *atomic.Bool) bool {
	data := w.Content()
	partSize := max(1, len(data)/(1+w.Random.IntN(4)))
	body, err := json.Marshal(map[string]any{"rawAccount": w.Account, "rawBlobName": name, "rawPartSize": partSize})
	if err != nil {
		s.T.Error(err)
		return false
	}
	r, err := s.Try("POST", "/v1/multipart-uploads", body)
	Unexpected(s.T, "begin", r, err, http.StatusOK, killed)
	var begun struct{ UploadID string }
	if err != nil || json.Unmarshal(r.Body, &begun) != nil {
		return false
	}
	for i := 0; i*partSize < len(data); i++ {
		part := data[i*partSize : min(len(data), (i+1)*partSize)]
		for range 1 + w.Random.IntN(2) {
			r, err := s.Try("PUT", PartTarget(begun.UploadID, i), part)
			Unexpected(s.T, "part", r, err, http.StatusOK, killed)
			if err != nil {
				return false
			}
		}
	}
	next := &State{true, sha256.Sum256(data)}
	w.Names[name].InFlight, w.Names[name].UploadID = next, begun.UploadID
	r, err = s.Try("POST", "/v1/multipart-uploads/"+begun.UploadID+"/complete", nil)
	Unexpected(s.T, "complete", r, err, http.StatusOK, killed)
	return w.answered(name, *next, err)
}

// answered records a request's outcome for a name. The outcome is unknown if err is not nil.
func (w *Writer) answered(name string, next State, err error) bool {
	if err != nil {
		return false
	}
	*w.Names[name] = Expectation{Acknowledged: next}
	return true
}

// Verify compares every name with its expectation.
func (w *Writer) Verify(s *Server) {
	s.T.Helper()
	for name, e := range w.Names {
		got := w.look(s, name)
		if got != e.Acknowledged && (e.InFlight == nil || got != *e.InFlight) {
			s.T.Errorf("%s/%s is %v, want %v or %v", w.Account, name, got, e.Acknowledged, e.InFlight)
		}
		if e.UploadID != "" {
			// The server has acknowledged all parts, so completing again must succeed.
			r := s.Do("POST", "/v1/multipart-uploads/"+e.UploadID+"/complete", nil)
			if got = w.look(s, name); r.Status != 200 || got != *e.InFlight {
				s.T.Errorf("%s/%s: complete after the crash: %v, the blob is %v, want %v", w.Account, name, r, got, *e.InFlight)
			}
		}
		// A state that a client has read must stay.
		*e = Expectation{Acknowledged: got}
	}
}

// look reads a name's state.
func (w *Writer) look(s *Server, name string) State {
	s.T.Helper()
	r := s.Do("GET", BlobTarget(w.Account, name), nil)
	switch {
	case r.Status == 404:
		return State{}
	case r.Status == 200 && r.Length == int64(len(r.Body)):
		return State{true, sha256.Sum256(r.Body)}
	default:
		s.T.Errorf("%s/%s: %d with %d of %d bytes", w.Account, name, r.Status, len(r.Body), r.Length)
		return State{}
	}
}

// Run uses the session until the server is gone.
func (c *Counter) Run(s *Server, killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		c.Issued.Add(1)
		r, err := s.Try("POST", "/v1/sessions/"+c.ID+"/use", nil)
		Unexpected(s.T, "use", r, err, http.StatusOK, killed)
		if err != nil {
			return
		}
		c.Acknowledged.Add(1)
		acknowledge()
	}
}

// Verify compares the session's count with the uses.
func (c *Counter) Verify(s *Server) {
	s.T.Helper()
	left, err := strconv.ParseInt(s.Left(c.ID), 10, 64)
	testenv.OK(s.T, err)
	used := 1000 - left
	if used < c.Acknowledged.Load() || used > c.Issued.Load() {
		s.T.Errorf("session: %d uses recovered, %d acknowledged, %d issued", used, c.Acknowledged.Load(), c.Issued.Load())
	}
	if c.settled && used != c.Used {
		s.T.Errorf("session: %d uses, were %d after the previous crash", used, c.Used)
	}
	c.settled, c.Used = true, used
}
