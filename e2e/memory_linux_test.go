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

// memoryLimit is what the process may take, however large or many the bodies are.
const memoryLimit = 200 << 20

// limit is memoryLimit, or far more where the race detector keeps its books in
// the same memory: there only a body held whole would be seen.
func limit() int64 {
	if testenv.Race {
		return 8 * memoryLimit
	}
	return memoryLimit
}

// peakMemory reads the most memory that the process ever had resident, in bytes.
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

// checkMemory fails the test when the process took too much.
func (s *server) checkMemory() {
	s.t.Helper()
	peak := s.peakMemory()
	s.t.Logf("peak memory: %d MiB", peak>>20)
	if peak > limit() {
		s.t.Errorf("the process took %d MiB, limit %d MiB", peak>>20, limit()>>20)
	}
}

// putStream stores size bytes of a stream and returns their SHA-256.
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

// getStream reads a blob without holding it and returns its SHA-256.
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

// uploadsAtOnce runs many uploads of one size in parallel, by PUT and by parts,
// and then reads them all back, in parallel too.
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

// TestMemoryOfManyUploads runs uploads in parallel whose bodies are together
// far more than the process may take.
func TestMemoryOfManyUploads(t *testing.T) {
	s := start(t, options{})
	s.uploadsAtOnce(32, 16<<20)
	s.checkMemory()
}

// TestMemoryOfOneLargeBlob moves one blob that is larger than the process may be.
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

// BenchmarkUploadRSS runs 64 uploads of 64 MiB at once and reports the peak of
// the server's memory.
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

// BenchmarkLargeBlob uploads and downloads one blob of SLUICE_BENCH_BYTES (256
// MiB when unset; 10737418240 is 10 GiB) and reports the peak of the server's
// memory.
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
