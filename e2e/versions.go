package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Versioners are clients that write and delete the same few blobs of an account that keeps
// versions, at several nodes at once. Each acknowledged commit and removal must be one version, for
// ever.
type Versioners struct {
	T     testing.TB
	Nodes []*Server

	made    atomic.Int64
	mu      sync.Mutex
	acked   map[string]string // versions with their contents; "": a mark
	unknown map[string]bool   // contents of requests without a response
	removed int               // removals without a response
}

// VersionedAccount is the account of Versioners.
const VersionedAccount = "versioned"

// NewVersioners lets the account keep versions.
func NewVersioners(t testing.TB, nodes []*Server) *Versioners {
	t.Helper()
	nodes[0].Must(200, "PUT", "/v1/admin/versions/"+VersionedAccount, []byte(`{"keep":"on"}`), "If-Match", "*")
	return &Versioners{T: t, Nodes: nodes, acked: map[string]string{}, unknown: map[string]bool{}}
}

// Made returns how many requests were begun.
func (v *Versioners) Made() int64 { return v.made.Load() }

// Write sends requests by several clients until each has sent a number of them, or has no response.
func (v *Versioners) Write(requests int) {
	v.T.Helper()
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			for n := range requests {
				if !v.write(v.Nodes[(i+n)%len(v.Nodes)], BlobTarget(VersionedAccount, fmt.Sprint("name", (i+n)%3)), (i+n)%5 == 4) {
					return
				}
			}
		})
	}
	clients.Wait()
	Client.CloseIdleConnections()
}

// write makes a request, and reports whether it had a response.
func (v *Versioners) write(on *Server, target string, remove bool) bool {
	method, content := "PUT", fmt.Sprint("content ", v.made.Add(1))
	if remove {
		method, content = "DELETE", ""
	}
	r, err := on.Try(method, target, []byte(content))
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil && remove:
		v.removed++
	case err != nil:
		v.unknown[content] = true
	case r.Status != http.StatusNoContent:
		v.T.Errorf("%s %s: %v", method, target, r)
	case !remove || r.Header.Get("Blob-Version") != "": // there may be no blob to remove
		id := r.Header.Get("Blob-Version")
		if _, twice := v.acked[id]; id == "" || twice {
			v.T.Errorf("%s %s has the version %q, of another commit or of none", method, target, id)
		}
		v.acked[id] = content
	}
	return err == nil
}

// Check compares a node's versions with the acknowledged ones, and the account's counts with both.
func (v *Versioners) Check(on *Server) {
	v.T.Helper()
	list := on.AllVersions(VersionedAccount)
	found := map[string]bool{}
	var kept, bytes, blobs, marks int64
	for i, b := range list {
		if i > 0 && b.Name == list[i-1].Name && !strictlyOlder(b.Version, list[i-1].Version) {
			v.T.Errorf("the version %s follows %s", b.Version, list[i-1].Version)
		}
		if b.Current {
			blobs++
		} else {
			kept, bytes = kept+1, bytes+b.Size
		}
		content, known := v.acked[b.Version]
		found[b.Version] = true
		if b.Deleted {
			if !known {
				marks++
			}
			continue
		}
		got := string(on.Must(200, "GET", "/v1/versions/"+VersionedAccount+"/"+b.Version+"/"+b.Name, nil).Body)
		if !known && v.unknown[got] {
			content, known, v.acked[b.Version] = got, true, got
			delete(v.unknown, got)
		}
		if !known || got != content {
			v.T.Errorf("%s of %s has %q, and %q was stored (%t)", b.Version, b.Name, got, content, known)
		}
	}
	for id, content := range v.acked {
		if !found[id] {
			v.T.Errorf("the acknowledged version %s of %q is not there", id, content)
		}
	}
	if len(found) != len(list) || marks > int64(v.removed) {
		v.T.Errorf("of %d versions %d are different, and %d marks are of nobody", len(list), len(found), marks)
	}
	var accounts struct {
		Accounts []struct{ Blobs, Versions, VersionBytes int64 }
	}
	on.Must(200, "GET", "/v1/accounts", nil).Decode(v.T, &accounts)
	if a := accounts.Accounts; len(a) != 1 || a[0].Blobs != blobs || a[0].Versions != kept || a[0].VersionBytes != bytes {
		v.T.Errorf("%d blobs and %d versions with %d bytes are counted as %+v", blobs, kept, bytes, a)
	}
}

// strictlyOlder reports whether a version's time is before another one's.
func strictlyOlder(a, b string) bool { return strings.Compare(a[:16], b[:16]) < 0 }

// ListedVersion is a version in a list.
type ListedVersion struct {
	Name, Version    string
	Size             int64
	Current, Deleted bool
}

// AllVersions returns an account's versions, in order.
func (s *Server) AllVersions(account string) (list []ListedVersion) {
	s.T.Helper()
	for query := ""; ; {
		var page struct {
			Versions          []ListedVersion
			Next, NextVersion string
		}
		s.Must(200, "GET", "/v1/versions/"+account+query, nil).Decode(s.T, &page)
		list = append(list, page.Versions...)
		if page.Next == "" {
			return list
		}
		query = "?after=" + page.Next + "&afterVersion=" + page.NextVersion
	}
}
