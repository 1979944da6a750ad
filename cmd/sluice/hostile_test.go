package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
	"sluice/wire"
)

// listingServer has blobs with long names, in pages of 1,000, and counts the deletions.
type listingServer struct {
	*httptest.Server
	blobs   int
	deleted atomic.Int64
	heap    atomic.Int64 // that was in use when the last page was requested
}

func startListing(t *testing.T, blobs int) *listingServer {
	s := &listingServer{blobs: blobs}
	name := func(i int) string { return fmt.Sprintf("x/%08d%s", i, strings.Repeat("n", 990)) }
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			s.deleted.Add(1)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		first := 0
		if after := r.URL.Query().Get("after"); after != "" {
			_, err := fmt.Sscanf(after, "x/%08d", &first)
			if err != nil {
				t.Error(err)
			}
			first++
		}
		limit := 1000
		if r.URL.Query().Get("limit") == "1" {
			limit = 1
		}
		var page wire.BlobPage
		for i := first; i < min(first+limit, s.blobs); i++ {
			page.Blobs = append(page.Blobs, wire.Blob{Name: name(i), Size: 1, LastModified: time.Unix(int64(i), 0)})
		}
		if first+limit < s.blobs {
			page.Next = name(first + limit - 1)
		} else {
			s.heap.Store(testenv.Heap())
		}
		var answer any = page
		if versions := (wire.VersionPage{Next: page.Next}); strings.HasPrefix(r.URL.Path, "/v1/versions/") {
			for _, b := range page.Blobs {
				versions.Versions = append(versions.Versions, wire.Version{Blob: b, Version: strings.Repeat("0", 32), Current: true})
			}
			answer = versions
		}
		testenv.Check(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(s.Close)
	return s
}

// TestListingCommandsHoldOnePage measures the heap of commands that list many blobs. A page with
// names of 1,000 bytes takes 3 MB, as JSON and decoded, and all names 15 MB. Deletes also have up
// to 64 connections, with buffers of 128 KiB.
// Invariant 153.
func TestListingCommandsHoldOnePage(t *testing.T) {
	const page, connections = 6 << 20, 64 * 130 << 10 // bytes
	for command, most := range map[string]int64{
		"rm -r --yes -q team/x": page + connections, "ls -r team/x/": page, "find team/x/": page, "du team/x/": page,
	} {
		t.Run(command, func(t *testing.T) {
			s := startListing(t, 15_000)
			before := testenv.Heap()
			var stderr bytes.Buffer
			if code := run(append(strings.Fields(command), "--url", s.URL), io.Discard, &stderr); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			if n := s.heap.Load() - before; n > most {
				t.Errorf("%d MiB more were in use", n>>20)
			}
			if strings.HasPrefix(command, "rm") && s.deleted.Load() != int64(s.blobs) {
				t.Errorf("%d blobs were deleted", s.deleted.Load())
			}
		})
	}
}

// TestHostileListings checks that commands end, with few requests and a message that is safe on a
// terminal, when a listing does not.
// Invariant 153.
func TestHostileListings(t *testing.T) {
	for name, page := range map[string]string{
		"the same page again": `{"blobs":[{"name":"x/a","size":1}],"next":"x/a"}`,
		"empty pages":         `{"next":"x/a"}`,
		"a name with escapes": `{"blobs":[{"name":"x/\u001b[2J"}]}`,
		"many entries":        `{"blobs":[` + strings.Repeat("{},", 100_000) + `{}]}`,
	} {
		for _, command := range []string{"rm -r --yes -q team/x", "ls -r team/x/", "find team/x/", "du team/x/", "get -r team/x DIR", "sync :team/x/ DIR", "sync DIR :team/x/", "cp -r :team/x/ :team/y/"} {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Setenv("XDG_CACHE_HOME", testenv.MemoryDir(t))
				var requests atomic.Int64
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					if r.Method != http.MethodGet {
						w.WriteHeader(http.StatusNoContent)
						return
					}
					answer := page
					if strings.HasPrefix(r.URL.Path, "/v1/versions/") {
						answer = strings.NewReplacer(`"blobs"`, `"versions"`, `{"name"`, `{"version":"00000000000000000000000000000000","current":true,"name"`).Replace(page)
					}
					_, _ = io.WriteString(w, answer) // the client need not read all
				}))
				defer s.Close()
				args := strings.Fields(strings.ReplaceAll(command, "DIR", testenv.MemoryDir(t)))
				r := sluice(append(args, "--url", s.URL)...)
				if r.code == cli.ExitOK || !strings.Contains(r.stderr, client.ErrBadResponse.Error()) {
					t.Errorf("exit code %d: %s", r.code, r.stderr)
				}
				if n := requests.Load(); n > 10 {
					t.Errorf("%d requests", n)
				}
				if strings.Contains(r.stdout+r.stderr, "\x1b") || len(r.stderr) > 2000 {
					t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
				}
			})
		}
	}
}
