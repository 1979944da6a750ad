package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/test/testenv"
	"sluice/wire"
)

// transportFunc is a server in memory.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWaitsAreAnnounced checks that a command announces once that it waits for the server, above
// the progress if there is any, and nothing of short waits. Invariant 152.
func TestWaitsAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, shown strings.Builder
		c := &console{err: &out}
		answers := []string{"2", "60", "200", ""}
		server := transportFunc(func(r *http.Request) (*http.Response, error) {
			answer := answers[0]
			answers = answers[1:]
			resp := &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}
			if answer != "" {
				resp.StatusCode = http.StatusServiceUnavailable
				resp.Header.Set("Retry-After", answer)
			}
			return resp, nil
		})
		on, err := newClient(c, contexts.Server{URL: "http://localhost:9090"}, client.Options{Transport: server})
		testenv.OK(t, err)
		testenv.OK(t, on.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
		const reason = " because the server asked: localhost:9090 responded 503 Service Unavailable (503, to be repeated after "
		const waits = "sluice: waiting 1m0s" + reason + "1m0s)\nsluice: waiting 3m20s" + reason + "3m20s)\n"
		testenv.Equal(t, out.String(), waits, "stderr")
		time.Sleep(time.Hour)
		c.shows(terminal.NewProgress(&shown, false))
		c.waits(time.Minute, errors.New("it is busy"))
		c.waits(time.Minute, errors.New("it is busy")) // of a parallel request
		c.shows(nil)
		testenv.Equal(t, shown.String(), "waiting 1m0s because the server asked: it is busy\n", "shown")
	})
}

// TestSlowServersAreAnnounced checks that a command names the request for which it waits after 3
// seconds without a byte, once for all requests.
func TestSlowServersAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := &console{err: &out}
		server := transportFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(4 * time.Second)
			return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
		on := testenv.Must(newClient(c, contexts.Server{URL: "http://localhost:9090"}, client.Options{Transport: server}))(t)
		testenv.OK(t, on.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
		testenv.OK(t, on.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
		testenv.Equal(t, out.String(), "sluice: waiting for the server's response: delete a blob\n", "stderr")
	})
}

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
		testenv.Check(t, json.NewEncoder(w).Encode(page))
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
			if code := run(append(strings.Fields(command), "--url", s.URL), io.Discard, &stderr); code != exitOK {
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
					_, _ = io.WriteString(w, page) // the client need not read all
				}))
				defer s.Close()
				args := strings.Fields(strings.ReplaceAll(command, "DIR", testenv.MemoryDir(t)))
				r := sluice(append(args, "--url", s.URL)...)
				if r.code == exitOK || !strings.Contains(r.stderr, client.ErrBadResponse.Error()) {
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

// TestRemovalSparesWhatIsNew checks that a blob that was written after the question is not deleted.
func TestRemovalSparesWhatIsNew(t *testing.T) {
	s := startListing(t, 5)
	on, err := newClient(&console{err: io.Discard}, contexts.Server{URL: s.URL}, client.Options{})
	testenv.OK(t, err)
	var of remoteOperand
	testenv.OK(t, of.UnmarshalText([]byte("team/x")))
	d := &deletions{on: on, prefixes: []remoteOperand{of}}
	if err := d.count(t.Context()); err != nil || d.blobs != 5 || d.bytes != 5 {
		t.Fatalf("%d blobs with %d bytes, %v", d.blobs, d.bytes, err)
	}
	s.blobs = 7
	n := 0
	for _, err := range d.items(t.Context()) {
		testenv.OK(t, err)
		n++
	}
	if n != 5 {
		t.Errorf("%d would be deleted", n)
	}
}
