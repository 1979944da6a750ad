package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/test/testenv"
	"sluice/wire"
)

// movingServer lists and moves the account team's blobs, which have one byte each.
type movingServer struct {
	*httptest.Server
	mu    sync.Mutex
	names []string
}

func startMoving(t *testing.T, names ...string) *movingServer {
	s := &movingServer{names: names}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodGet {
			page := wire.BlobPage{Blobs: []wire.Blob{}, Prefixes: []string{}}
			for _, name := range s.names {
				if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
					page.Blobs = append(page.Blobs, wire.Blob{Name: name, Size: 1})
				}
			}
			testenv.Check(t, json.NewEncoder(w).Encode(page))
			return
		}
		at := slices.Index(s.names, strings.TrimPrefix(r.URL.Path, "/v1/blobs/team/"))
		if r.Method != http.MethodPost || at < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var in wire.CopyBlob
		testenv.Check(t, json.NewDecoder(r.Body).Decode(&in))
		s.names[at] = *in.MoveTo.BlobName
		slices.Sort(s.names)
		testenv.Check(t, json.NewEncoder(w).Encode(wire.CopiedBlob{Account: *in.MoveTo.Account, Blob: wire.Blob{Name: *in.MoveTo.BlobName, Size: 1}}))
	}))
	t.Cleanup(s.Close)
	return s
}

// TestMoveCommand moves blobs and prefixes, and checks the command's output.
func TestMoveCommand(t *testing.T) {
	ownContexts(t)
	s := startMoving(t, "a", "dir/b", "dir/sub/c")
	for _, test := range []struct {
		line   string
		code   int
		stderr []string // lines, sorted
		names  string   // afterwards
	}{
		// The server has no HEAD.
		{"-n team/a team/x", 3, []string{"sluice: team/a: the blob does not exist"}, "a dir/b dir/sub/c"},
		{"team/a team/x", 0, []string{"team/a -> team/x"}, "dir/b dir/sub/c x"},
		{"team/x team/dir/", 0, []string{"team/x -> team/dir/x"}, "dir/b dir/sub/c dir/x"},
		{"-r -n team/dir team/new", 0, []string{"dry run: 3 to move", "would move team/dir/b -> team/new/b", "would move team/dir/sub/c -> team/new/sub/c", "would move team/dir/x -> team/new/x"}, "dir/b dir/sub/c dir/x"},
		{"-r team/dir team/new", 0, []string{"3 moved", "team/dir/b -> team/new/b", "team/dir/sub/c -> team/new/sub/c", "team/dir/x -> team/new/x"}, "new/b new/sub/c new/x"},
		{"-r team/dir team/new", 3, []string{"sluice: there are no blobs below team/dir/"}, "new/b new/sub/c new/x"},
		{"-r team/new team/new/old", 2, []string{"sluice: team/new/ and team/new/old/ contain each other: move to a prefix beside it"}, "new/b new/sub/c new/x"},
		{"team/new/b team/b -q", 0, nil, "b new/sub/c new/x"},
		{"team/none team/b", 3, []string{"sluice: team/none: the blob does not exist"}, "b new/sub/c new/x"},
	} {
		r := sluice(append([]string{"mv", "--url", s.URL}, strings.Fields(test.line)...)...)
		lines := strings.FieldsFunc(r.stderr, func(c rune) bool { return c == '\n' })
		slices.Sort(lines)
		if r.code != test.code || r.stdout != "" || !slices.Equal(lines, test.stderr) {
			t.Errorf("mv %s: %+v, want exit code %d and %q", test.line, r, test.code, test.stderr)
		}
		testenv.Equal(t, strings.Join(s.names, " "), test.names, "the names after mv %s", test.line)
	}
}
