package http

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestReadersSeeOneVersion overwrites a blob repeatedly while others read it, completely and in
// ranges. Every response must be of one version and carry its ETag.
func TestReadersSeeOneVersion(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	target := e2e.BlobTarget("0x1", "name")
	versions := [][]byte{e2e.Content(1, 2<<20+1), e2e.Content(2, 2<<20+1), e2e.Content(3, 900), e2e.Content(4, 5<<20)}
	byETag := map[string][]byte{}
	for _, v := range versions {
		byETag[s.Must(204, "PUT", target, v).Header.Get("ETag")] = v
	}
	var writing atomic.Bool
	writing.Store(true)
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			for writing.Load() {
				readOneVersion(t, s, target, byETag, i%2 == 1)
			}
		})
	}
	for i := range 60 {
		if i%10 == 9 {
			s.Upload("0x1", "name", versions[i%len(versions)], 1<<20)
			continue
		}
		s.Must(204, "PUT", target, versions[i%len(versions)])
	}
	writing.Store(false)
	readers.Wait()
}

func readOneVersion(t *testing.T, s *e2e.Server, target string, byETag map[string][]byte, ranged bool) {
	var h e2e.Headers
	if ranged {
		h = e2e.Headers{"Range", "bytes=100-"}
	}
	r, err := s.Try("GET", target, nil, h...)
	if err != nil {
		return // a cut connection, which returns no mixed version
	}
	want, known := byETag[r.Header.Get("ETag")]
	if ranged && known {
		want = want[100:]
	}
	if !known || !bytes.Equal(r.Body, want) {
		t.Errorf("a response %d of %d bytes with ETag %s is not one version", r.Status, len(r.Body), r.Header.Get("ETag"))
	}
}

// TestDeleteWhileReading deletes a blob during a read. The server sends it to that reader
// completely, and has it no more for other readers.
func TestDeleteWhileReading(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	l := e2e.BeginSlow(s)
	s.Must(204, "DELETE", e2e.BlobTarget("0x1", "down"), nil)
	e2e.CheckProblem(t, s.Do("GET", e2e.BlobTarget("0x1", "down"), nil), 404, "blob_not_found")
	l.Finish()
	// The server frees the bytes after the last reader has ended.
	s.Eventually("the deleted blob's files are still there", func() bool { return diskUse(s) < 10<<20 })
}

// diskUse returns the files' total size in the data folder, except the ballast.
func diskUse(s *e2e.Server) int64 {
	s.T.Helper()
	var sum int64
	for name, size := range s.Files() {
		if filepath.Base(name) != "ballast" {
			sum += size
		}
	}
	return sum
}

// TestDamage flips a bit on the disk. The server must never serve the block that contains it, and
// must serve all other blocks.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, ttl := range []string{"10m", "0"} {
		s := e2e.Start(t, e2e.Options{Flags: []string{"--verify-ttl", ttl}, Damaged: true})
		target := e2e.BlobTarget("0x1", "name")
		data := e2e.Content(1, 4<<20)
		s.Must(204, "PUT", target, data)
		s.Stop()
		s.FlipBit(int64(len(data)), 2<<20+5)
		s.Restart()
		for _, h := range []e2e.Headers{nil, {"Range", "bytes=2097152-2097155"}, {"Range", "bytes=2097157-2097157"}, {"Range", "bytes=1000000-"}} {
			if r, err := s.Try("GET", target, nil, h...); err == nil && r.Status != http.StatusInternalServerError {
				t.Errorf("--verify-ttl %s: GET %q on a damaged block: %d with %d bytes, want 500 or a cut connection", ttl, h, r.Status, len(r.Body))
			}
		}
		for first := 0; first < 4; first++ {
			if first == 2 {
				continue // the damaged block
			}
			r := s.Do("GET", target, nil, "Range", fmt.Sprintf("bytes=%d-%d", first<<20, (first+1)<<20-1))
			if r.Status != 206 || !bytes.Equal(r.Body, data[first<<20:(first+1)<<20]) {
				t.Errorf("--verify-ttl %s: block %d is undamaged, but the response is %d with %d bytes", ttl, first, r.Status, len(r.Body))
			}
		}
	}
}

// TestCutRequestsLeaveNothing cuts uploads and downloads in the middle, and checks that no
// additional file and no blob remains.
func TestCutRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), e2e.Content(1, 8<<20))
	upload := s.Begin("0x1", "upload", 4<<20)
	e2e.Client.CloseIdleConnections()
	files := len(s.Files())
	for i := range 30 {
		requests := []string{
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n%s", e2e.BlobTarget("0x1", "cut"), e2e.Content(2, 3<<20)),
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n%s", e2e.BlobTarget("0x1", "cut"), e2e.Content(2, 1<<20)),
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n%s", e2e.PartTarget(upload, i), e2e.Content(2, 2<<20)),
			fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", e2e.BlobTarget("0x1", "kept")),
		}
		for _, request := range requests {
			connection := s.Dial()
			s.Write(connection, request)
			testenv.OK(t, connection.SetLinger(0))
			testenv.OK(t, connection.Close())
		}
	}
	s.Eventually("cut uploads left files", func() bool { return len(s.Files()) == files })
	if got := s.Names("0x1"); len(got) != 1 {
		t.Errorf("cut uploads left %q", got)
	}
}
