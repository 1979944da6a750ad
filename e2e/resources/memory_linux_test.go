package resources

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
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
func peakMemory(s *e2e.Server) int64 {
	s.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Command.Process.Pid))
	testenv.OK(s.T, err)
	for _, line := range strings.Split(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			testenv.OK(s.T, err)
			return kib << 10
		}
	}
	s.T.Fatal("no VmHWM")
	return 0
}

// checkMemory fails the test if the process used too much memory.
func checkMemory(s *e2e.Server) {
	s.T.Helper()
	peak := peakMemory(s)
	s.T.Logf("peak memory: %d MiB", peak>>20)
	if peak > limit() {
		s.T.Errorf("the process used %d MiB, limit %d MiB", peak>>20, limit()>>20)
	}
}

// putStream stores size bytes from a stream and returns their SHA-256.
func putStream(s *e2e.Server, name string, seed uint64, size int64) ([]byte, error) {
	sum := sha256.New()
	body := io.TeeReader(io.LimitReader(e2e.Stream(seed), size), sum)
	r, err := s.PutFrom(e2e.BlobTarget("0x1", name), body, size)
	if err != nil {
		return nil, err
	}
	if r.Status != http.StatusNoContent {
		return nil, fmt.Errorf("PUT of %d bytes: %v", size, r)
	}
	return sum.Sum(nil), nil
}

// getStream reads a blob without holding it in memory and returns its SHA-256.
func getStream(s *e2e.Server, name string, size int64) ([]byte, error) {
	req, err := s.Request("GET", e2e.BlobTarget("0x1", name), nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := e2e.Client.Do(req)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("GET: after %d of %d bytes: %w", n, size, err)
	}
	if n != size || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET: %d with %d of %d bytes", resp.StatusCode, n, size)
	}
	return sum.Sum(nil), nil
}

// uploadsAtOnce runs count concurrent uploads of one size, by PUT and in parts, and then reads all
// of them back concurrently.
func uploadsAtOnce(s *e2e.Server, count int, size int64) {
	s.T.Helper()
	var transfers sync.WaitGroup
	for i := range count {
		transfers.Go(func() {
			name := fmt.Sprint("name ", i)
			sent, err := putStream(s, name, uint64(i), size)
			if err != nil {
				s.T.Error(err)
				return
			}
			received, err := getStream(s, name, size)
			if err != nil || !bytes.Equal(sent, received) {
				s.T.Errorf("%s: sent %x, received %x, %v", name, sent, received, err)
			}
		})
	}
	transfers.Wait()
}

// TestMemoryOfManyUploads runs concurrent uploads. Their bodies are together far larger than the
// memory limit.
func TestMemoryOfManyUploads(t *testing.T) {
	s := e2e.Start(t, e2e.Options{})
	uploadsAtOnce(s, 32, 16<<20)
	checkMemory(s)
}

// TestMemoryOfOneLargeBlob uploads and downloads one blob that is larger than the memory limit.
func TestMemoryOfOneLargeBlob(t *testing.T) {
	s := e2e.Start(t, e2e.Options{})
	large(s, 512<<20)
	checkMemory(s)
}

// large uploads and downloads one blob.
func large(s *e2e.Server, size int64) {
	s.T.Helper()
	sent, err := putStream(s, "large", 1, size)
	testenv.OK(s.T, err)
	received, err := getStream(s, "large", size)
	if err != nil || !bytes.Equal(sent, received) {
		s.T.Fatalf("sent %x, received %x, %v", sent, received, err)
	}
}
