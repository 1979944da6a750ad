package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// session creates a session and returns its id.
func (s *server) session() string {
	s.t.Helper()
	return text(s.t, s.must(201, "POST", "/v1/sessions", []byte("{}")).object(s.t), "sessionId")
}

// left returns how many chunksets a session has left.
func (s *server) left(id string) string {
	s.t.Helper()
	return text(s.t, s.must(200, "GET", "/v1/sessions/"+id, nil).object(s.t), "chunksetsLeft")
}

// TestUsesRace sends 200 concurrent uses for a session's last 100 chunksets.
func TestUsesRace(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.session()
	use := func(count int) (taken, refused int64) {
		var ok, none atomic.Int64
		var callers sync.WaitGroup
		for range count {
			callers.Go(func() {
				switch r, err := s.try("POST", "/v1/sessions/"+id+"/use", nil); {
				case err != nil:
					t.Errorf("use: %v", err)
				case r.status == 200 && len(r.body) == 0:
					ok.Add(1)
				case r.status == 402:
					none.Add(1)
					checkProblem(t, r, 402, "no_chunksets_left")
				default:
					t.Errorf("use: %v", r)
				}
			})
		}
		callers.Wait()
		return ok.Load(), none.Load()
	}
	for range 9 {
		if taken, _ := use(100); taken != 100 {
			t.Fatalf("%d of 100 uses succeeded while enough chunksets were left", taken)
		}
	}
	if got := s.left(id); got != "100" {
		t.Fatalf("%s chunksets left after 900 uses of 1000", got)
	}
	if taken, refused := use(200); taken != 100 || refused != 100 {
		t.Errorf("of 200 uses %d succeeded and %d were refused, want 100 and 100", taken, refused)
	}
	if got := s.left(id); got != "0" {
		t.Errorf("%s chunksets left", got)
	}
}

// TestIdempotencyKeys repeats requests that must count once.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true})
	create := func(key, body string) response {
		return s.do("POST", "/v1/sessions", []byte(body), "Idempotency-Key", key)
	}
	first := create("k1", `{"userIdentity":"0x2"}`)
	again := create("k1", `{"userIdentity":"0x2"}`)
	if first.status != 201 || again.status != 201 || string(first.body) != string(again.body) {
		t.Errorf("the same key returned %v, then %v", first, again)
	}
	checkProblem(t, create("k1", `{"userIdentity":"0x3"}`), 422, "idempotency_key_reused")
	if other := create("k2", `{"userIdentity":"0x2"}`); other.status != 201 || string(other.body) == string(first.body) {
		t.Errorf("another key returned %v", other)
	}

	id, other := s.session(), s.session()
	use := func(id string) response {
		return s.do("POST", "/v1/sessions/"+id+"/use", nil, "Idempotency-Key", "u1")
	}
	for range 3 {
		if r := use(id); r.status != 200 || r.header.Get("Chunksets-Left") != "999" {
			t.Errorf("use with the same key: %v", r)
		}
	}
	checkProblem(t, s.do("POST", "/v1/sessions/"+id+"/use", []byte("{}"), "Idempotency-Key", "u1"), 422, "idempotency_key_reused")
	if r := use(other); r.status != 200 || s.left(other) != "999" {
		t.Errorf("the same key on another session: %v, %s left", r, s.left(other))
	}
	s.kill()
	s.restart()
	if r := use(id); r.status != 200 || s.left(id) != "999" {
		t.Errorf("the same key after a crash: %v, %s left", r, s.left(id))
	}
	if r := create("k1", `{"userIdentity":"0x2"}`); string(r.body) != string(first.body) {
		t.Errorf("the same key after a crash returned %v, first %v", r, first)
	}
}

// TestRefusalsAreNotRemembered checks that the server stores only a success under an idempotency
// key.
func TestRefusalsAreNotRemembered(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	checkProblem(t, s.do("POST", "/v1/sessions", []byte(`{"userIdentity":5}`), "Idempotency-Key", "k"), 400, "")
	s.must(201, "POST", "/v1/sessions", []byte(`{"userIdentity":"0x2"}`), "Idempotency-Key", "k")
}

// TestIdempotencyKeysRace sends the same use many times concurrently.
func TestIdempotencyKeysRace(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.session()
	for round := range 10 {
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				r, err := s.try("POST", "/v1/sessions/"+id+"/use", nil, "Idempotency-Key", fmt.Sprint("k", round))
				if want := fmt.Sprint(999 - round); err != nil || r.status != 200 || r.header.Get("Chunksets-Left") != want {
					t.Errorf("use: %v, %v, want 200 and %s left", r, err, want)
				}
			})
		}
		callers.Wait()
	}
	if got := s.left(id); got != "990" {
		t.Errorf("%s chunksets left after 10 different uses", got)
	}
}
