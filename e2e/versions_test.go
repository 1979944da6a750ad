package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReadersSeeOneVersion overwrites a blob repeatedly while others read it, completely and in
// ranges. Every response must be of one version and carry its ETag.
func TestReadersSeeOneVersion(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	target := blobTarget("0x1", "name")
	versions := [][]byte{content(1, 2<<20+1), content(2, 2<<20+1), content(3, 900), content(4, 5<<20)}
	byETag := map[string][]byte{}
	for _, v := range versions {
		byETag[s.must(204, "PUT", target, v).header.Get("ETag")] = v
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
			s.upload("0x1", "name", versions[i%len(versions)], 1<<20)
			continue
		}
		s.must(204, "PUT", target, versions[i%len(versions)])
	}
	writing.Store(false)
	readers.Wait()
}

func readOneVersion(t *testing.T, s *server, target string, byETag map[string][]byte, ranged bool) {
	var h headers
	if ranged {
		h = headers{"Range", "bytes=100-"}
	}
	r, err := s.try("GET", target, nil, h...)
	if err != nil {
		return // a cut connection, which returns no mixed version
	}
	want, known := byETag[r.header.Get("ETag")]
	if ranged && known {
		want = want[100:]
	}
	if !known || !bytes.Equal(r.body, want) {
		t.Errorf("a response %d of %d bytes with ETag %s is not one version", r.status, len(r.body), r.header.Get("ETag"))
	}
}

// TestDeleteWhileReading deletes a blob during a read. The server sends it to that reader
// completely, and has it no more for other readers.
func TestDeleteWhileReading(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	l := beginSlow(s)
	s.must(204, "DELETE", blobTarget("0x1", "down"), nil)
	checkProblem(t, s.do("GET", blobTarget("0x1", "down"), nil), 404, "blob_not_found")
	l.finish()
	// The server frees the bytes after the last reader has ended.
	s.eventually("the deleted blob's files are still there", func() bool { return s.diskUse() < 10<<20 })
}

// eventually waits for a condition that must hold soon after a response.
func (s *server) eventually(complaint string, done func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("after %v: %s", patience, complaint)
		}
	}
}

// files returns the paths and sizes of all files in the data folder.
func (s *server) files() map[string]int64 {
	s.t.Helper()
	sizes := map[string]int64{}
	err := filepath.WalkDir(s.data, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed in the meantime
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sizes[name] = info.Size()
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return sizes
}

// diskUse returns the files' total size in the data folder, except the ballast.
func (s *server) diskUse() int64 {
	s.t.Helper()
	var sum int64
	for name, size := range s.files() {
		if filepath.Base(name) != "ballast" {
			sum += size
		}
	}
	return sum
}

// longEnough calls try with longer and longer durations until try reports that it was done within
// one. A busy machine can be too slow for a short one.
func longEnough(t testing.TB, shortest time.Duration, try func(time.Duration) bool) {
	t.Helper()
	for life := shortest; !try(life); life *= 2 {
		if life > patience {
			t.Fatalf("%v are not long enough", life)
		}
	}
}

// putBrief stores a blob that expires soon, and returns when.
func (s *server) putBrief(target string) (expires time.Time) {
	s.t.Helper()
	longEnough(s.t, 500*time.Millisecond, func(life time.Duration) bool {
		expires = time.Now().Add(life).UTC()
		r := s.do("PUT", target, []byte("x"), "Blob-Expires", expires.Format(time.RFC3339Nano))
		return r.status == 204
	})
	return expires
}

// TestExpiry checks that reads of an expired blob get 410, and that it counts as absent otherwise.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	target := blobTarget("0x1", "name")
	expires := s.putBrief(target)
	s.eventually("the blob does not expire", func() bool { return s.do("GET", target, nil).status != 200 })
	if now := time.Now(); now.Before(expires) {
		t.Errorf("the blob expired %v too early", expires.Sub(now))
	}
	checkProblem(t, s.do("GET", target, nil), 410, "blob_expired")
	if head := s.do("HEAD", target, nil); head.status != 410 {
		t.Errorf("HEAD: %d, want 410", head.status)
	}
	if got := s.names("0x1"); len(got) != 0 {
		t.Errorf("expired blobs are listed: %q", got)
	}
	checkProblem(t, s.do("PUT", target, []byte("y"), "If-Match", "*"), 412, "precondition_failed")
	s.must(204, "PUT", target, []byte("y"), "If-None-Match", "*")
	if r := s.must(200, "GET", target, nil); string(r.body) != "y" {
		t.Errorf("the new blob is %v", r)
	}
}

// TestDamage flips a bit on the disk. The server must never serve the block that contains it, and
// must serve all other blocks.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, ttl := range []string{"10m", "0"} {
		s := start(t, options{flags: []string{"--verify-ttl", ttl}, damaged: true})
		target := blobTarget("0x1", "name")
		data := content(1, 4<<20)
		s.must(204, "PUT", target, data)
		s.stop()
		s.flipBit(int64(len(data)), 2<<20+5)
		s.restart()
		for _, h := range []headers{nil, {"Range", "bytes=2097152-2097155"}, {"Range", "bytes=2097157-2097157"}, {"Range", "bytes=1000000-"}} {
			if r, err := s.try("GET", target, nil, h...); err == nil && r.status != http.StatusInternalServerError {
				t.Errorf("--verify-ttl %s: GET %q on a damaged block: %d with %d bytes, want 500 or a cut connection", ttl, h, r.status, len(r.body))
			}
		}
		for first := 0; first < 4; first++ {
			if first == 2 {
				continue // the damaged block
			}
			r := s.do("GET", target, nil, "Range", fmt.Sprintf("bytes=%d-%d", first<<20, (first+1)<<20-1))
			if r.status != 206 || !bytes.Equal(r.body, data[first<<20:(first+1)<<20]) {
				t.Errorf("--verify-ttl %s: block %d is undamaged, but the response is %d with %d bytes", ttl, first, r.status, len(r.body))
			}
		}
	}
}

// flipBit flips one bit in the only stored file with this size.
func (s *server) flipBit(size, offset int64) {
	s.t.Helper()
	flipped := 0
	for name, have := range s.files() {
		if have != size {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		text[offset] ^= 1
		if err := os.WriteFile(name, text, 0o600); err != nil {
			s.t.Fatal(err)
		}
		flipped++
	}
	if flipped != 1 {
		s.t.Fatalf("%d files of %d bytes, want 1", flipped, size)
	}
}

// TestCutRequestsLeaveNothing cuts uploads and downloads in the middle, and checks that no
// additional file and no blob remains.
func TestCutRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.must(204, "PUT", blobTarget("0x1", "kept"), content(1, 8<<20))
	upload := s.begin("0x1", "upload", 4<<20)
	client.CloseIdleConnections()
	files := len(s.files())
	for i := range 30 {
		requests := []string{
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n%s", blobTarget("0x1", "cut"), content(2, 3<<20)),
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n%s", blobTarget("0x1", "cut"), content(2, 1<<20)),
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n%s", partTarget(upload, i), content(2, 2<<20)),
			fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", blobTarget("0x1", "kept")),
		}
		for _, request := range requests {
			connection := s.dial()
			s.write(connection, request)
			if err := connection.SetLinger(0); err != nil {
				t.Fatal(err)
			}
			if err := connection.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.eventually("cut uploads left files", func() bool { return len(s.files()) == files })
	if got := s.names("0x1"); len(got) != 1 {
		t.Errorf("cut uploads left %q", got)
	}
}
