package client_test

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

// TestShortPages lists from a server that sends pages of one entry, whatever the limit: only a page
// without next is the last one.
// Invariant 74.
func TestShortPages(t *testing.T) {
	entries := []string{"a", "b", "c", "d"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := slices.Index(entries, r.URL.Query().Get("after")) + 1
		blobs, next := fmt.Sprintf(`[{"name": %q, "size": 1}]`, entries[at]), ""
		if at+1 < len(entries) {
			next = fmt.Sprintf(`, "next": %q`, entries[at])
		}
		body := fmt.Sprintf(`{"blobs": %s, "prefixes": []%s}`, blobs, next)
		if r.URL.Path == "/v1/multipart-uploads" {
			body = fmt.Sprintf(`{"uploads": [{"uploadId": %q, "account": "x", "name": "n", "state": "open"}]%s}`, entries[at], next)
		}
		w.Header().Set("Content-Type", "application/json")
		testenv.Check(t, testenv.Error(io.WriteString(w, body)))
	}))
	defer server.Close()
	c := testenv.Must(client.New(server.URL, client.Options{}))(t)
	var names, uploads, files []string
	for e, err := range c.List(t.Context(), "x", client.ListOptions{PageSize: 3}) {
		testenv.OK(t, err)
		names = append(names, e.Name)
	}
	for u, err := range c.Uploads(t.Context(), "x") {
		testenv.OK(t, err)
		uploads = append(uploads, u.ID)
	}
	folder := testenv.Must(fs.ReadDir(c.FS(t.Context(), "x", ""), "."))(t)
	for _, f := range folder {
		files = append(files, f.Name())
	}
	for label, got := range map[string][]string{"names": names, "uploads": uploads, "files": files} {
		if !slices.Equal(got, entries) {
			t.Errorf("%s: %q, want %q", label, got, entries)
		}
	}
}
