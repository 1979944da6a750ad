package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestPartsInAnyOrder sends parts in random order, concurrently, and some of them twice.
func TestPartsInAnyOrder(t *testing.T) { overEachProtocol(t, testPartsInAnyOrder) }

func testPartsInAnyOrder(t *testing.T, s *server) {
	random := rand.New(rand.NewPCG(seed(t), 0))
	const partSize, count = 50_000, 40
	data := content(1, partSize*count-777)
	id := s.begin("0x1", "name", partSize)

	// The test first sends every third part with other bytes, which the server must replace.
	for i := 0; i < count; i += 3 {
		s.must(200, "PUT", partTarget(id, i), content(uint64(i), partSize))
	}
	order := random.Perm(count)
	work := make(chan int)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for i := range work {
				r, err := s.try("PUT", partTarget(id, i), data[i*partSize:min(len(data), (i+1)*partSize)])
				if err != nil || r.status != 200 {
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

	s.must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", []byte(fmt.Sprintf(`{"totalBytes":%d}`, len(data))))
	if r := s.must(200, "GET", blobTarget("0x1", "name"), nil); digest(r.body) != digest(data) {
		t.Error("the blob is not what was sent")
	}
}

// TestSameBytesSameETag stores the same bytes by PUT and in parts of several sizes.
func TestSameBytesSameETag(t *testing.T) { overEachProtocol(t, testSameBytesSameETag) }

func testSameBytesSameETag(t *testing.T, s *server) {
	tests := []struct {
		size      int
		partSizes []int
	}{
		{257, []int{1, 3, 100, 257, 1000}},
		{1<<20 + 3, []int{1000, 5000, 1 << 20, 5 << 20}},
		{11<<20 + 7, []int{70_000, 1 << 20, 5 << 20, 64 << 20}},
		{0, []int{1}},
	}
	etags := map[string]int{}
	for _, test := range tests {
		data := content(uint64(test.size), test.size)
		want := s.must(204, "PUT", blobTarget("0x1", "by put"), data).header.Get("ETag")
		for _, partSize := range test.partSizes {
			if got := s.upload("0x1", "by parts", data, partSize).header.Get("ETag"); got != want {
				t.Errorf("%d bytes in parts of %d have the ETag %s, by PUT %s", test.size, partSize, got, want)
			}
			if r := s.must(200, "GET", blobTarget("0x1", "by parts"), nil); digest(r.body) != digest(data) || r.header.Get("ETag") != want {
				t.Errorf("%d bytes in parts of %d are read back wrongly: %v", test.size, partSize, r.header)
			}
		}
		etags[want] = test.size
	}
	if len(etags) != len(tests) {
		t.Errorf("different contents share an ETag: %v", etags)
	}
}

// TestCutParts cuts the connection within a part and sends the part again.
func TestCutParts(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	const partSize = 5 << 20
	data := content(1, 2*partSize)
	id := s.begin("0x1", "name", partSize)
	cut := func(index int) {
		t.Helper()
		connection := s.dial()
		s.write(connection, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", partTarget(id, index), partSize))
		s.write(connection, string(content(99, 2<<20)))
		if err := connection.SetLinger(0); err != nil { // close with a reset
			t.Fatal(err)
		}
		if err := connection.Close(); err != nil {
			t.Fatal(err)
		}
	}
	size := func() string {
		t.Helper()
		return text(t, s.must(200, "GET", "/v1/multipart-uploads/"+id, nil).object(t), "bytes")
	}
	cut(0)
	if got := size(); got != "0" {
		t.Errorf("a cut part left %s bytes", got)
	}
	s.parts(id, data, partSize)
	cut(0)
	cut(1)
	if got := size(); got != strconv.Itoa(len(data)) {
		t.Errorf("cut parts changed the upload to %s bytes", got)
	}
	s.must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	if r := s.must(200, "GET", blobTarget("0x1", "name"), nil); digest(r.body) != digest(data) {
		t.Error("the blob is not what was sent")
	}
}

// TestCompleteAgain repeats complete after everything that can happen in between.
func TestCompleteAgain(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true})
	data := content(1, 2500)
	id := s.begin("0x1", "name", 1000)
	s.parts(id, data, 1000)
	target, again := blobTarget("0x1", "name"), "/v1/multipart-uploads/"+id+"/complete"
	etag := s.must(200, "POST", again, nil).header.Get("ETag")
	repeat := func(when string, h ...string) {
		t.Helper()
		r := s.do("POST", again, nil, h...)
		var o struct{ Success bool }
		if r.status != 200 || r.header.Get("ETag") != etag {
			t.Errorf("complete %s: %v, want 200 and the ETag %s", when, r, etag)
		} else if r.decode(t, &o); !o.Success {
			t.Errorf("complete %s: %v", when, r)
		}
	}
	repeat("again")
	repeat("under a condition", "If-None-Match", "*")
	s.must(204, "PUT", target, []byte("overwritten"))
	repeat("after an overwrite")
	if r := s.must(200, "GET", target, nil); string(r.body) != "overwritten" {
		t.Errorf("a repeated complete restored the old blob: %v", r)
	}
	s.must(204, "DELETE", target, nil)
	repeat("after a delete")
	checkProblem(t, s.do("GET", target, nil), 404, "blob_not_found")
	checkProblem(t, s.do("PUT", partTarget(id, 0), data[:1000]), 409, "upload_committed")
	checkProblem(t, s.do("DELETE", "/v1/multipart-uploads/"+id, nil), 409, "upload_committed")
	s.kill()
	s.restart()
	repeat("after a crash")
}

// TestAbortedUploads checks that an aborted upload accepts no part and no complete, and yields no
// blob.
func TestAbortedUploads(t *testing.T) { overEachProtocol(t, testAbortedUploads) }

func testAbortedUploads(t *testing.T, s *server) {
	id := s.begin("0x1", "name", 1000)
	s.parts(id, content(1, 1500), 1000)
	for range 2 {
		s.must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
	}
	checkProblem(t, s.do("PUT", partTarget(id, 0), []byte("x")), 410, "upload_aborted")
	checkProblem(t, s.do("POST", "/v1/multipart-uploads/"+id+"/complete", nil), 410, "upload_aborted")
	checkProblem(t, s.do("GET", blobTarget("0x1", "name"), nil), 404, "blob_not_found")
}

// TestUploadPages reads long lists page by page.
func TestUploadPages(t *testing.T) { overEachProtocol(t, testUploadPages) }

func testUploadPages(t *testing.T, s *server) {
	id := s.begin("0x1", "name", 10)
	for i := range 25 {
		s.must(200, "PUT", partTarget(id, 2*i), content(1, 10-i%3))
	}
	var indexes []int
	query := "?limit=10"
	for pages := 0; ; pages++ {
		if pages > 5 {
			t.Fatalf("the pages do not end; %v so far", indexes)
		}
		var page struct {
			Parts []struct{ Index, Size int }
			Next  any
		}
		s.must(200, "GET", "/v1/multipart-uploads/"+id+query, nil).decode(t, &page)
		for _, part := range page.Parts {
			if want := 10 - part.Index/2%3; part.Size != want {
				t.Errorf("part %d has %d bytes, want %d", part.Index, part.Size, want)
			}
			indexes = append(indexes, part.Index)
		}
		if page.Next == nil {
			break
		}
		query = fmt.Sprintf("?limit=10&after=%v", page.Next)
	}
	for i := range 25 {
		if len(indexes) != 25 || indexes[i] != 2*i {
			t.Fatalf("the pages have the parts %v", indexes)
		}
	}

	want := []string{id}
	for i := range 24 {
		want = append(want, s.begin("0x1", fmt.Sprint("more ", i), 10))
	}
	var got []string
	query = ""
	for pages := 0; pages < 5; pages++ {
		var page struct {
			Uploads []struct{ UploadID string }
			Next    string
		}
		s.must(200, "GET", "/v1/multipart-uploads?account=0x1&limit=10"+query, nil).decode(t, &page)
		for _, u := range page.Uploads {
			got = append(got, u.UploadID)
		}
		if page.Next == "" {
			break
		}
		query = "&after=" + page.Next
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the pages have the uploads %v, want %v", got, want)
	}
}

// TestPartDuringComplete sends a part again concurrently with a complete. The blob must be one of
// both contents, completely, and must not change again.
func TestPartDuringComplete(t *testing.T) { overEachProtocol(t, testPartDuringComplete) }

func testPartDuringComplete(t *testing.T, s *server) {
	const size = 300_000
	before, after := content(1, size), content(2, size)
	for round := range 20 {
		name := fmt.Sprint("name ", round)
		id := s.begin("0x1", name, size)
		s.must(200, "PUT", partTarget(id, 0), before)
		var racers sync.WaitGroup
		racers.Go(func() {
			r, err := s.try("PUT", partTarget(id, 0), after)
			if err != nil || r.status != 200 && r.status != 409 {
				t.Errorf("part: %v, %v, want 200 or 409", r, err)
			}
		})
		complete, err := s.try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
		racers.Wait()
		if err != nil || complete.status != 200 {
			t.Fatalf("complete: %v, %v", complete, err)
		}
		want := map[string]bool{digest(before): true, digest(after): true}
		first := s.must(200, "GET", blobTarget("0x1", name), nil)
		if !want[digest(first.body)] || first.header.Get("ETag") != complete.header.Get("ETag") {
			t.Fatalf("round %d: the blob is neither content, or not the completed one: %v", round, first.header)
		}
		checkProblem(t, s.do("PUT", partTarget(id, 0), after), 409, "upload_committed")
		if again := s.must(200, "GET", blobTarget("0x1", name), nil); digest(again.body) != digest(first.body) {
			t.Fatalf("round %d: the blob changed after complete", round)
		}
	}
}
