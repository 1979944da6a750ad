package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/internal/testenv"
)

// memoryLimit is the memory that the process may use, however large or many the bodies are.
const memoryLimit = 200 << 20

// limit returns memoryLimit. With the race detector it returns far more, because the detector's
// records are in the same memory; there the tests only detect a body that is in memory as a whole.
func limit() int64 {
	if testenv.Race {
		return 8 * memoryLimit
	}
	return memoryLimit
}

// peakMemory returns the process's peak resident memory, in bytes.
func (s *server) peakMemory() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return kib << 10
		}
	}
	s.t.Fatal("no VmHWM")
	return 0
}

// checkMemory fails the test if the process used too much memory.
func (s *server) checkMemory() {
	s.t.Helper()
	peak := s.peakMemory()
	s.t.Logf("peak memory: %d MiB", peak>>20)
	if peak > limit() {
		s.t.Errorf("the process used %d MiB, limit %d MiB", peak>>20, limit()>>20)
	}
}

// putStream stores size bytes from a stream and returns their SHA-256.
func (s *server) putStream(name string, seed uint64, size int64) ([]byte, error) {
	sum := sha256.New()
	body := io.TeeReader(io.LimitReader(stream(seed), size), sum)
	req, err := s.request("PUT", blobTarget("0x1", name), io.NopCloser(body), nil)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	r, err := s.send(req)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusNoContent {
		return nil, fmt.Errorf("PUT of %d bytes: %v", size, r)
	}
	return sum.Sum(nil), nil
}

// getStream reads a blob without holding it in memory and returns its SHA-256.
func (s *server) getStream(name string, size int64) ([]byte, error) {
	req, err := s.request("GET", blobTarget("0x1", name), nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := drain(sum, resp.Body)
	if err != nil {
		return nil, fmt.Errorf("GET: after %d of %d bytes: %w", n, size, err)
	}
	if n != size || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET: %d with %d of %d bytes", resp.StatusCode, n, size)
	}
	return sum.Sum(nil), nil
}

func drain(sum hash.Hash, body io.ReadCloser) (int64, error) {
	n, err := io.Copy(sum, body)
	if closeErr := body.Close(); err == nil {
		err = closeErr
	}
	return n, err
}

// uploadsAtOnce runs count concurrent uploads of one size, by PUT and in parts, and then reads all
// of them back concurrently.
func (s *server) uploadsAtOnce(count int, size int64) {
	s.t.Helper()
	var transfers sync.WaitGroup
	for i := range count {
		transfers.Go(func() {
			name := fmt.Sprint("name ", i)
			sent, err := s.putStream(name, uint64(i), size)
			if err != nil {
				s.t.Error(err)
				return
			}
			received, err := s.getStream(name, size)
			if err != nil || !bytes.Equal(sent, received) {
				s.t.Errorf("%s: sent %x, received %x, %v", name, sent, received, err)
			}
		})
	}
	transfers.Wait()
}

// TestMemoryOfManyUploads runs concurrent uploads. Their bodies are together far larger than the
// memory limit.
func TestMemoryOfManyUploads(t *testing.T) {
	s := start(t, options{})
	s.uploadsAtOnce(32, 16<<20)
	s.checkMemory()
}

// TestMemoryOfOneLargeBlob uploads and downloads one blob that is larger than the memory limit.
func TestMemoryOfOneLargeBlob(t *testing.T) {
	s := start(t, options{})
	s.large(512 << 20)
	s.checkMemory()
}

// large uploads and downloads one blob.
func (s *server) large(size int64) {
	s.t.Helper()
	sent, err := s.putStream("large", 1, size)
	if err != nil {
		s.t.Fatal(err)
	}
	received, err := s.getStream("large", size)
	if err != nil || !bytes.Equal(sent, received) {
		s.t.Fatalf("sent %x, received %x, %v", sent, received, err)
	}
}

// BenchmarkUploadRSS runs 64 concurrent uploads of 64 MiB and reports the server's peak memory.
func BenchmarkUploadRSS(b *testing.B) {
	for b.Loop() {
		s := start(b, options{})
		s.uploadsAtOnce(64, 64<<20)
		s.checkMemory()
		b.ReportMetric(float64(s.peakMemory()>>20), "peak-MiB")
		s.stop()
	}
	b.SetBytes(2 * 64 * 64 << 20)
}

// BenchmarkLargeBlob uploads and downloads one blob of SLUICE_BENCH_BYTES (256 MiB if unset;
// 10737418240 is 10 GiB) and reports the server's peak memory.
func BenchmarkLargeBlob(b *testing.B) {
	size := int64(256 << 20)
	if value := os.Getenv("SLUICE_BENCH_BYTES"); value != "" {
		var err error
		if size, err = strconv.ParseInt(value, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	s := start(b, options{})
	for b.Loop() {
		s.large(size)
	}
	b.SetBytes(2 * size)
	b.ReportMetric(float64(s.peakMemory()>>20), "peak-MiB")
	s.checkMemory()
}
