package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/testenv"
)

// unreadMemory is the memory that the process may use while clients read no page: a few times what
// all replies may have, because the Go heap also holds replies that are no longer used.
const unreadMemory = 320 << 20

// storeLongNames stores blobs that fill a page as large as possible, and returns at least the size
// of the page that has all of them.
func (s *server) storeLongNames(blobs int) int {
	s.t.Helper()
	name := strings.Repeat("\u0e01", 1000)
	meta := strings.Repeat("m", 2000)
	var puts sync.WaitGroup
	for worker := range 8 {
		puts.Go(func() {
			for i := worker; i < blobs; i += 8 {
				req, err := s.request("PUT", blobTarget("0x1", fmt.Sprintf("%04d%s", i, name)), nil, nil)
				if err != nil {
					s.t.Error(err)
					return
				}
				req.Header.Set("X-Blob-Meta-A", meta)
				req.Header.Set("Content-Disposition", `attachment; filename="`+meta[:900]+`"`)
				if r, err := s.send(req); err != nil || r.status != 204 {
					s.t.Errorf("%v, %v", r, err)
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
func (s *server) checkUnread(pages, served int) {
	s.t.Helper()
	peak := s.peakMemory()
	s.t.Logf("peak memory: %d MiB; %d of %d pages were begun", peak>>20, served, pages)
	if peak > unreadMemory && !testenv.Race {
		s.t.Errorf("the process used %d MiB, limit %d MiB", peak>>20, unreadMemory>>20)
	}
	if served == 0 || served == pages {
		s.t.Errorf("%d of %d pages were begun", served, pages)
	}
	s.must(200, "GET", "/v1/info", nil)
}

// TestMemoryOfUnreadPages: pages that no client reads use a bounded amount of memory, over both
// protocols, and the server refuses further ones.
func TestMemoryOfUnreadPages(t *testing.T) {
	const blobs, connections, streams = 600, 4, 50
	t.Run("HTTP/2", func(t *testing.T) {
		s := start(t, options{certs: newCertificates(t), wrapper: []string{"env", "GOMEMLIMIT=250MiB"}})
		if s.storeLongNames(blobs)*connections*streams < 2*unreadMemory {
			t.Fatal("whole pages would fit")
		}
		served := 0
		for range connections {
			f := s.dialFrames(0)
			for i := range uint32(streams) {
				f.request(2*i+1, flagEndStream, "GET", unreadTarget)
			}
			for answered := 0; answered < streams; {
				got, err := f.next()
				if err != nil {
					t.Fatal(err)
				}
				if got.kind != frameHeaders {
					continue
				}
				answered++
				if got.payload[0] == statusOK {
					served++
				}
			}
		}
		s.checkUnread(connections*streams, served)
	})
	t.Run("HTTP/1.1", func(t *testing.T) {
		s := start(t, options{wrapper: []string{"env", "GOMEMLIMIT=250MiB"}})
		if s.storeLongNames(blobs)*connections*streams < 2*unreadMemory {
			t.Fatal("whole pages would fit")
		}
		var served atomic.Int64
		var work sync.WaitGroup
		for range connections * streams {
			connection := s.dial()
			work.Go(func() {
				// The kernels hold only a little of each page.
				_, err := io.WriteString(connection, "GET "+s.base+unreadTarget+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
		s.checkUnread(connections*streams, int(served.Load()))
	})
}

// TestPagesOfLongNames: a listing through pages that are bounded in bytes has each name once.
func TestPagesOfLongNames(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	const blobs = 200
	s.storeLongNames(blobs)
	names, pages := map[string]bool{}, 0
	for after := ""; ; pages++ {
		var page struct {
			Blobs []struct{ Name string }
			Next  string
		}
		r := s.must(200, "GET", unreadTarget+"&after="+url.QueryEscape(after), nil)
		r.decode(t, &page)
		for _, b := range page.Blobs {
			names[b.Name] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(names) != blobs || pages < 1 {
		t.Errorf("%d names after %d pages, want %d after more than one", len(names), pages+1, blobs)
	}
}
