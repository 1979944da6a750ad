package http

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestPartsInAnyOrder sends parts in random order, concurrently, and some of them twice.
func TestPartsInAnyOrder(t *testing.T) { overEachProtocol(t, testPartsInAnyOrder) }

func testPartsInAnyOrder(t *testing.T, s *e2e.Server) {
	random := rand.New(rand.NewPCG(e2e.Seed(t), 0))
	const partSize, count = 50_000, 40
	data := e2e.Content(1, partSize*count-777)
	id := s.Begin("0x1", "name", partSize)

	// The test first sends every third part with other bytes, which the server must replace.
	for i := 0; i < count; i += 3 {
		s.Must(200, "PUT", e2e.PartTarget(id, i), e2e.Content(uint64(i), partSize))
	}
	order := random.Perm(count)
	work := make(chan int)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for i := range work {
				r, err := s.Try("PUT", e2e.PartTarget(id, i), data[i*partSize:min(len(data), (i+1)*partSize)])
				if err != nil || r.Status != 200 {
					t.Errorf("part %d: %v, %v", i, r, err)
				}
			}
		})
	}
	for _, i := range order {
		work <- i
	}
	close(work)
	senders.Wait()

	s.Must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", []byte(fmt.Sprintf(`{"totalBytes":%d}`, len(data))))
	if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "name"), nil); e2e.Digest(r.Body) != e2e.Digest(data) {
		t.Error("the blob is not what was sent")
	}
}

// TestCutParts cuts the connection within a part and sends the part again.
func TestCutParts(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	const partSize = 5 << 20
	data := e2e.Content(1, 2*partSize)
	id := s.Begin("0x1", "name", partSize)
	cut := func(index int) {
		t.Helper()
		connection := s.Dial()
		s.Write(connection, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", e2e.PartTarget(id, index), partSize))
		s.Write(connection, string(e2e.Content(99, 2<<20)))
		if err := connection.SetLinger(0); err != nil { // close with a reset
			t.Fatal(err)
		}
		testenv.OK(t, connection.Close())
	}
	size := func() string {
		t.Helper()
		return e2e.Text(t, s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t), "bytes")
	}
	cut(0)
	if got := size(); got != "0" {
		t.Errorf("a cut part left %s bytes", got)
	}
	s.Parts(id, data, partSize)
	cut(0)
	cut(1)
	if got := size(); got != strconv.Itoa(len(data)) {
		t.Errorf("cut parts changed the upload to %s bytes", got)
	}
	s.Must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "name"), nil); e2e.Digest(r.Body) != e2e.Digest(data) {
		t.Error("the blob is not what was sent")
	}
}

// TestCompleteAgain repeats complete after everything that can happen in between.
func TestCompleteAgain(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	data := e2e.Content(1, 2500)
	id := s.Begin("0x1", "name", 1000)
	s.Parts(id, data, 1000)
	target, again := e2e.BlobTarget("0x1", "name"), "/v1/multipart-uploads/"+id+"/complete"
	etag := s.Must(200, "POST", again, nil).Header.Get("ETag")
	repeat := func(when string, h ...string) {
		t.Helper()
		r := s.Do("POST", again, nil, h...)
		var o struct{ Success bool }
		if r.Status != 200 || r.Header.Get("ETag") != etag {
			t.Errorf("complete %s: %v, want 200 and the ETag %s", when, r, etag)
		} else if r.Decode(t, &o); !o.Success {
			t.Errorf("complete %s: %v", when, r)
		}
	}
	repeat("again")
	repeat("under a condition", "If-None-Match", "*")
	s.Must(204, "PUT", target, []byte("overwritten"))
	repeat("after an overwrite")
	if r := s.Must(200, "GET", target, nil); string(r.Body) != "overwritten" {
		t.Errorf("a repeated complete restored the old blob: %v", r)
	}
	s.Must(204, "DELETE", target, nil)
	repeat("after a delete")
	e2e.CheckProblem(t, s.Do("GET", target, nil), 404, "blob_not_found")
	e2e.CheckProblem(t, s.Do("PUT", e2e.PartTarget(id, 0), data[:1000]), 409, "upload_committed")
	e2e.CheckProblem(t, s.Do("DELETE", "/v1/multipart-uploads/"+id, nil), 409, "upload_committed")
	s.Kill()
	s.Restart()
	repeat("after a crash")
}

// TestPartDuringComplete sends a part again concurrently with a complete. The blob must be one of
// both contents, completely, and must not change again.
func TestPartDuringComplete(t *testing.T) { overEachProtocol(t, testPartDuringComplete) }

func testPartDuringComplete(t *testing.T, s *e2e.Server) {
	const size = 300_000
	before, after := e2e.Content(1, size), e2e.Content(2, size)
	for round := range 20 {
		name := fmt.Sprint("name ", round)
		id := s.Begin("0x1", name, size)
		s.Must(200, "PUT", e2e.PartTarget(id, 0), before)
		var racers sync.WaitGroup
		racers.Go(func() {
			r, err := s.Try("PUT", e2e.PartTarget(id, 0), after)
			if err != nil || r.Status != 200 && r.Status != 409 {
				t.Errorf("part: %v, %v, want 200 or 409", r, err)
			}
		})
		complete, err := s.Try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
		racers.Wait()
		if err != nil || complete.Status != 200 {
			t.Fatalf("complete: %v, %v", complete, err)
		}
		want := map[string]bool{e2e.Digest(before): true, e2e.Digest(after): true}
		first := s.Must(200, "GET", e2e.BlobTarget("0x1", name), nil)
		if !want[e2e.Digest(first.Body)] || first.Header.Get("ETag") != complete.Header.Get("ETag") {
			t.Fatalf("round %d: the blob is neither content, or not the completed one: %v", round, first.Header)
		}
		e2e.CheckProblem(t, s.Do("PUT", e2e.PartTarget(id, 0), after), 409, "upload_committed")
		if again := s.Must(200, "GET", e2e.BlobTarget("0x1", name), nil); e2e.Digest(again.Body) != e2e.Digest(first.Body) {
			t.Fatalf("round %d: the blob changed after complete", round)
		}
	}
}
