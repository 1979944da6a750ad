package resources

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// unreadMemory is the memory that the process may use while clients read no page: a few times the
// size of all replies, because the Go heap also holds replies that are no longer used.
const unreadMemory = 320 << 20

// storeLongNames stores blobs that fill a page as large as possible, and returns at least the size
// of the page that has all of them.
func storeLongNames(s *e2e.Server, blobs int) int {
	s.T.Helper()
	name := strings.Repeat("\u0e01", 1000)
	meta := strings.Repeat("m", 2000)
	var puts sync.WaitGroup
	for worker := range 8 {
		puts.Go(func() {
			for i := worker; i < blobs; i += 8 {
				req, err := s.Request("PUT", e2e.BlobTarget("0x1", fmt.Sprintf("%04d%s", i, name)), nil, nil)
				if err != nil {
					s.T.Error(err)
					return
				}
				req.Header.Set("X-Blob-Meta-A", meta)
				req.Header.Set("Content-Disposition", `attachment; filename="`+meta[:900]+`"`)
				if r, err := s.Send(req); err != nil || r.Status != 204 {
					s.T.Errorf("%v, %v", r, err)
					return
				}
			}
		})
	}
	puts.Wait()
	return blobs * (len(name) + len(meta) + 900)
}

const unreadTarget = "/v1/blobs/0x1?include=metadata"

// checkUnread fails the test if the process uses too much memory, or if another client is not
// served.
func checkUnread(s *e2e.Server, pages, served int) {
	s.T.Helper()
	peak := peakMemory(s)
	s.T.Logf("peak memory: %d MiB; %d of %d pages were begun", peak>>20, served, pages)
	if peak > unreadMemory && !testenv.Race {
		s.T.Errorf("the process used %d MiB, limit %d MiB", peak>>20, unreadMemory>>20)
	}
	if served == 0 || served == pages {
		s.T.Errorf("%d of %d pages were begun", served, pages)
	}
	s.Must(200, "GET", "/v1/info", nil)
}

// TestMemoryOfUnreadPages: pages that no client reads use a bounded amount of memory, over both
// protocols, and the server refuses further ones.
// Invariant 75.
func TestMemoryOfUnreadPages(t *testing.T) {
	const blobs, connections, streams = 600, 4, 50
	t.Run("HTTP/2", func(t *testing.T) {
		s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Wrapper: []string{"env", "GOMEMLIMIT=250MiB"}})
		if storeLongNames(s, blobs)*connections*streams < 2*unreadMemory {
			t.Fatal("whole pages would fit")
		}
		served := 0
		for range connections {
			f := s.DialFrames(0)
			for i := range uint32(streams) {
				f.Request(2*i+1, e2e.FlagEndStream, "GET", unreadTarget)
			}
			for answered := 0; answered < streams; {
				got, err := f.Next()
				testenv.OK(t, err)
				if got.Kind != e2e.FrameHeaders {
					continue
				}
				answered++
				if got.Payload[0] == e2e.StatusOK {
					served++
				}
			}
		}
		checkUnread(s, connections*streams, served)
	})
	t.Run("HTTP/1.1", func(t *testing.T) {
		s := e2e.Start(t, e2e.Options{Wrapper: []string{"env", "GOMEMLIMIT=250MiB"}})
		if storeLongNames(s, blobs)*connections*streams < 2*unreadMemory {
			t.Fatal("whole pages would fit")
		}
		var served atomic.Int64
		var work sync.WaitGroup
		for range connections * streams {
			connection := s.Dial()
			work.Go(func() {
				// The kernels hold only a little of each page.
				_, err := io.WriteString(connection, "GET "+s.Base+unreadTarget+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if err := errors.Join(err, connection.SetReadBuffer(4<<10)); err != nil {
					t.Error(err)
					return
				}
				var start [len("HTTP/1.1 200")]byte
				if _, err := io.ReadFull(connection, start[:]); err != nil {
					t.Error(err)
					return
				}
				switch status := string(start[len("HTTP/1.1 "):]); status {
				case "200":
					served.Add(1)
				case "503":
				default:
					t.Errorf("the status is %s", status)
				}
			})
		}
		work.Wait()
		checkUnread(s, connections*streams, int(served.Load()))
	})
}
