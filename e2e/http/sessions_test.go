package http

import (
	"sync"
	"sync/atomic"
	"testing"

	"sluice/e2e"
)

// TestUsesRace sends 200 concurrent uses for a session's last 100 chunksets.
func TestUsesRace(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	id := s.Session()
	use := func(count int) (taken, refused int64) {
		var ok, none atomic.Int64
		var callers sync.WaitGroup
		for range count {
			callers.Go(func() {
				switch r, err := s.Try("POST", "/v1/sessions/"+id+"/use", nil); {
				case err != nil:
					t.Errorf("use: %v", err)
				case r.Status == 200 && len(r.Body) == 0:
					ok.Add(1)
				case r.Status == 402:
					none.Add(1)
					e2e.CheckProblem(t, r, 402, "no_chunksets_left")
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
	if got := s.Left(id); got != "100" {
		t.Fatalf("%s chunksets left after 900 uses of 1000", got)
	}
	if taken, refused := use(200); taken != 100 || refused != 100 {
		t.Errorf("of 200 uses %d succeeded and %d were refused, want 100 and 100", taken, refused)
	}
	if got := s.Left(id); got != "0" {
		t.Errorf("%s chunksets left", got)
	}
}

// TestIdempotencyKeys repeats requests that must count once.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	create := func(key, body string) e2e.Response {
		return s.Do("POST", "/v1/sessions", []byte(body), "Idempotency-Key", key)
	}
	first := create("k1", `{"userIdentity":"0x2"}`)
	again := create("k1", `{"userIdentity":"0x2"}`)
	if first.Status != 201 || again.Status != 201 || string(first.Body) != string(again.Body) {
		t.Errorf("the same key returned %v, then %v", first, again)
	}
	e2e.CheckProblem(t, create("k1", `{"userIdentity":"0x3"}`), 422, "idempotency_key_reused")
	if other := create("k2", `{"userIdentity":"0x2"}`); other.Status != 201 || string(other.Body) == string(first.Body) {
		t.Errorf("another key returned %v", other)
	}

	id, other := s.Session(), s.Session()
	use := func(id string) e2e.Response {
		return s.Do("POST", "/v1/sessions/"+id+"/use", nil, "Idempotency-Key", "u1")
	}
	for range 3 {
		if r := use(id); r.Status != 200 || r.Header.Get("Chunksets-Left") != "999" {
			t.Errorf("use with the same key: %v", r)
		}
	}
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions/"+id+"/use", []byte("{}"), "Idempotency-Key", "u1"), 422, "idempotency_key_reused")
	if r := use(other); r.Status != 200 || s.Left(other) != "999" {
		t.Errorf("the same key on another session: %v, %s left", r, s.Left(other))
	}
	s.Kill()
	s.Restart()
	if r := use(id); r.Status != 200 || s.Left(id) != "999" {
		t.Errorf("the same key after a crash: %v, %s left", r, s.Left(id))
	}
	if r := create("k1", `{"userIdentity":"0x2"}`); string(r.Body) != string(first.Body) {
		t.Errorf("the same key after a crash returned %v, first %v", r, first)
	}
}
