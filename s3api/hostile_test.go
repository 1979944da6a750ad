package s3api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access"
	"sluice/test/testenv"
)

// raw sends bytes unchanged, and returns the responses that arrive until the connection ends.
func (s *service) raw(t *testing.T, text string) (responses []response) {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", s.addr))(t)
	testenv.OK(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	testenv.OK(t, testenv.Error(io.WriteString(conn, text)))
	for r := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			testenv.Check(t, conn.Close())
			return responses
		}
		body := testenv.Must(io.ReadAll(res.Body))(t)
		testenv.OK(t, res.Body.Close())
		responses = append(responses, response{res, string(body)})
	}
}

// TestSmuggledRequests: if two readers could see a request's end in different places, it is the
// last one on its connection, and the bytes after it are no request.
func TestSmuggledRequests(t *testing.T) {
	s := newService(t)
	const second = "PUT /bucket/smuggled HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
	for name, head := range map[string]string{
		"two lengths":           "Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(second)),
		"a length and chunks":   "Transfer-Encoding: chunked\r\nContent-Length: 0",
		"a coding twice":        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"an unknown coding":     "Transfer-Encoding: identity, chunked",
		"a length with a sign":  "Content-Length: +0",
		"a space in the length": "Content-Length : 0",
		"a folded line":         "X: a\r\n b\r\nContent-Length: 0x0",
	} {
		t.Run(name, func(t *testing.T) {
			responses := s.raw(t, "PUT /bucket/first HTTP/1.1\r\nHost: localhost\r\n"+head+"\r\n\r\n0\r\n\r\n"+second)
			if len(responses) > 1 {
				t.Errorf("there are %d responses", len(responses))
			}
			testenv.Equal(t, s.do(t, "HEAD", "/bucket/smuggled", "").StatusCode, 404, "the second request")
		})
	}
}

// TestDocumentsInMemory: documents that arrive at the same time are refused beyond the memory that
// a node has for them, and the process has no more.
// Invariant 75.
func TestDocumentsInMemory(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket", "")
	object := "<Object><Key>k</Key><ETag>" + strings.Repeat("e", 8000) + "</ETag></Object>"
	text := "<Delete>" + strings.Repeat(object, 1000)
	const senders, end = 12, "</Delete>"
	before := testenv.Heap()
	statuses, events, finish := make(chan int, senders), make(chan struct{}, 2*senders), make(chan struct{})
	for range senders {
		body, w := io.Pipe()
		r := testenv.Must(http.NewRequestWithContext(t.Context(), "POST", s.url+"/bucket?delete", body))(t)
		r.ContentLength = int64(len(text) + len(end))
		go func() {
			statuses <- send(t, r).StatusCode
			events <- struct{}{}
		}()
		go func() {
			if _, err := io.WriteString(w, text); err != nil {
				return // it was refused
			}
			events <- struct{}{}
			<-finish
			_, err := io.WriteString(w, end)
			_ = w.CloseWithError(err)
		}()
	}
	for range senders { // each was read, or refused
		<-events
	}
	if grown := testenv.Heap() - before; grown > 96<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	close(finish)
	counts := map[int]int{}
	for range senders {
		counts[<-statuses]++
	}
	if counts[200] == 0 || counts[200] > 8 || counts[200]+counts[503] != senders {
		t.Errorf("the statuses are %v, want at most 8 times 200", counts)
	}
	for s.ReplyMemory() > 0 { // until the last handler has ended
		runtime.Gosched()
	}
}

// arriving is a body that reports that it is awaited, and never comes.
type arriving struct {
	awaited chan<- struct{}
	end     <-chan struct{}
}

func (a arriving) Read([]byte) (int, error) {
	a.awaited <- struct{}{}
	<-a.end
	return 0, io.ErrUnexpectedEOF
}

// TestAwaitedBodiesHoldNothing: two keys await many documents that never come, and a third one's
// lists are served.
// Invariant 75.
func TestAwaitedBodiesHoldNothing(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	awaited, end, refused := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	var running sync.WaitGroup
	for range 2 {
		key := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
		begun := send(t, key.sign(h.request(t, "POST", "/ours/slow?uploads", "")))
		id := decodedAs[struct{ UploadId string }](t, begun.body).UploadId //nolint:revive // S3's name
		for _, target := range []string{"POST /ours?delete", "POST /ours/slow?uploadId=" + id, "PUT /ours"} {
			for range 8 {
				method, path, _ := strings.Cut(target, " ")
				r := key.sign(h.request(t, method, path, "", "Expect", "100-continue"))
				r.Body, r.ContentLength = io.NopCloser(arriving{awaited, end}), 60<<10
				running.Go(func() {
					client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Hour}}
					if res, err := client.Do(r); err == nil {
						testenv.Check(t, res.Body.Close())
						refused <- res.Status
					}
				})
				select {
				case <-awaited:
				case status := <-refused:
					t.Errorf("%s is refused before its body: %s", target, status)
				}
				if held := h.ReplyMemory(); held != 0 {
					close(end)
					t.Fatalf("%s holds %d bytes for a reply before its body", target, held)
				}
			}
		}
	}
	reader := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
	testenv.Equal(t, send(t, reader.sign(h.request(t, "GET", "/ours?list-type=2", ""))).StatusCode, 200, "the list's status")
	close(end)
	running.Wait()
}
