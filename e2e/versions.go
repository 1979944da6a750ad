package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Versioners are clients that write and delete the same few blobs of an account that keeps
// versions, at several nodes at once. Each acknowledged commit and removal must be one version, for
// ever. In an account with locks versions may go, for each name has at most one without a lock, and
// clients delete some for good; but none with an acknowledged lock.
type Versioners struct {
	T     testing.TB
	Nodes []*Server

	locks   bool
	made    atomic.Int64
	mu      sync.Mutex
	acked   map[string]*acknowledged // by the version's id
	unknown map[string]bool          // contents of requests without a response
	removed int                      // removals without a response
}

// acknowledged is a version that a response has named.
type acknowledged struct {
	name, content string // "": a mark
	locked, gone  bool   // a response has acknowledged its lock, its deletion
}

// VersionedAccount is the account of Versioners.
const VersionedAccount = "versioned"

// VersionSettings are the settings for NewVersioners, by their subject.
var VersionSettings = map[string]string{"all versions": `{"keep":"on"}`, "locks": `{"keep":"on","most":1,"locks":{}}`}

// NewVersioners stores the setting for the account of the clients that it returns, which use nodes.
func NewVersioners(t testing.TB, nodes []*Server, setting string) *Versioners {
	t.Helper()
	nodes[0].Must(200, "PUT", "/v1/admin/versions/"+VersionedAccount, []byte(setting), "If-Match", "*")
	return &Versioners{T: t, Nodes: nodes, locks: strings.Contains(setting, "locks"), acked: map[string]*acknowledged{}, unknown: map[string]bool{}}
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
				on, name := v.Nodes[(i+n)%len(v.Nodes)], fmt.Sprint("name", (i+n)%3)
				if !v.write(on, name, n%4 == 0, (i+n)%5 == 4) || v.locks && !v.change(on, n%2 == 0) {
					return
				}
			}
		})
	}
	clients.Wait()
	Client.CloseIdleConnections()
}

// write makes a request, and reports whether it had a response.
func (v *Versioners) write(on *Server, name string, hold, remove bool) bool {
	method, content, target := "PUT", fmt.Sprint("content ", v.made.Add(1)), BlobTarget(VersionedAccount, name)
	if remove {
		method, content = "DELETE", ""
	}
	var fields []string
	if hold = hold && v.locks && !remove; hold {
		fields = []string{"Blob-Hold", "true"}
	}
	r, err := on.Try(method, target, []byte(content), fields...)
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
		if v.acked[id] != nil || id == "" {
			v.T.Errorf("%s %s has the version %q, of another commit or of none", method, target, id)
		}
		v.acked[id] = &acknowledged{name: name, content: content, locked: hold}
	}
	return err == nil
}

// change locks or deletes a version that another request has stored, and reports whether it had a
// response.
func (v *Versioners) change(on *Server, lock bool) bool {
	v.mu.Lock()
	var id string
	var of *acknowledged
	for id, of = range v.acked { // in a random order
		break
	}
	v.mu.Unlock()
	if of == nil {
		return true
	}
	v.made.Add(1)
	target := VersionTarget(VersionedAccount, id, of.name)
	method, body := "DELETE", ""
	if lock {
		until := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
		method, body = "PATCH", `{"retention":{"mode":"compliance","until":"`+until+`"}}`
	}
	r, err := on.Try(method, target, []byte(body))
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil:
	case r.Status == http.StatusOK && lock:
		of.locked = true
	case r.Status == http.StatusNoContent && !lock:
		of.gone = true
	case r.Status != http.StatusForbidden && r.Status != http.StatusNotFound:
		v.T.Errorf("%s %s: %v", method, target, r)
	}
	return err == nil
}

// Check compares a node's versions with the acknowledged ones, and the account's counts with both.
func (v *Versioners) Check(on *Server) {
	v.T.Helper()
	list := on.AllVersions(VersionedAccount)
	found := map[string]ListedVersion{}
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
		of := v.acked[b.Version]
		found[b.Version] = b
		if b.Deleted {
			if of == nil {
				marks++
			}
			continue
		}
		got := string(on.Must(200, "GET", VersionTarget(VersionedAccount, b.Version, b.Name), nil).Body)
		if of == nil && v.unknown[got] {
			of = &acknowledged{name: b.Name, content: got}
			v.acked[b.Version] = of
			delete(v.unknown, got)
		}
		if of == nil || got != of.content {
			v.T.Errorf("%s of %s has %q, and was stored as %+v", b.Version, b.Name, got, of)
		}
	}
	locked := 0
	for id, of := range v.acked {
		b, there := found[id]
		if there && of.gone || !there && (of.locked || !v.locks) {
			v.T.Errorf("of the version %s it is acknowledged that it is %+v; it is there: %t", id, of, there)
		}
		if !there || !of.locked {
			continue
		}
		if locked++; !b.Hold && b.Retention == nil {
			v.T.Errorf("the version %s has lost its lock", id)
		}
		CheckProblem(v.T, on.Do("DELETE", VersionTarget(VersionedAccount, id, of.name), nil), http.StatusForbidden, "locked")
	}
	if len(found) != len(list) || marks > int64(v.removed) || v.locks && locked == 0 {
		v.T.Errorf("of %d versions %d are different, %d marks are of nobody, and %d have locks", len(list), len(found), marks, locked)
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
	Hold             bool
	Retention        *struct{ Mode string }
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
