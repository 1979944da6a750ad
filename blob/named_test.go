package blob_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/database"
	"sluice/test/testenv"
)

// TestUploadsByKey walks through pages of random lists of uploads, of blobs and of folder markers,
// and compares them with the uploads.
// Invariant 185.
func TestUploadsByKey(t *testing.T) {
	f := newFixture(t, blob.Options{})
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "b", "/", "-", "é", "a/", "~", "\x7f"}
	var names []string
	for range 40 {
		name := "x"
		for range random.IntN(5) {
			name += pieces[random.IntN(len(pieces))]
		}
		at := blob.Place("a", name) // some are equal
		testenv.Must(f.Begin(t.Context(), blob.BeginOptions{Account: at.Account, Name: at.Name, Uneven: true, Metadata: strings.Repeat("m", random.IntN(300))}))(t)
		names = append(names, name)
	}
	slices.Sort(names)
	choose := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 300 {
		n := blob.NamedUploads{Account: "a", Limit: 1 + random.IntN(6), Bytes: int64(random.IntN(2) * random.IntN(3000))}
		n.Prefix, n.Delimiter = choose("", "x", "xa", "xa/", "xb", "y", names[random.IntN(len(names))]), choose("", "/", "a", "/a", "é")
		n.AfterName = choose("", "", "xa", "xa/", "xa/a/", "xz", names[random.IntN(len(names))])
		var want []string
		for _, name := range names {
			rest, selected := strings.CutPrefix(name, n.Prefix)
			if !selected || name <= n.AfterName {
				continue
			}
			if i := strings.Index(rest, n.Delimiter); n.Delimiter != "" && i >= 0 {
				group := n.Prefix + rest[:i+len(n.Delimiter)]
				if group != n.AfterName && !slices.Contains(want, group+" (group)") {
					want = append(want, group+" (group)")
				}
				continue
			}
			want = append(want, name)
		}
		slices.Sort(want)
		if got := walk(t, f, n); !slices.Equal(got, want) {
			t.Fatalf("%+v: %q, want %q", n, got, want)
		}
	}
}

// walk returns what all pages have.
func walk(t *testing.T, f *fixture, n blob.NamedUploads) (got []string) {
	t.Helper()
	for {
		page := testenv.Must(f.UploadsByKey(t.Context(), n))(t)
		bytes := 0
		for _, u := range page.Uploads {
			got = append(got, u.Name)
			bytes += len(u.Name) + len(u.Metadata) + database.EntryCharge
		}
		for _, group := range page.Groups {
			got = append(got, group+" (group)")
			bytes += len(group) + database.EntryCharge
		}
		// One of the markers and one of the others are returned in any case.
		if n.Bytes > 0 && int64(bytes) > n.Bytes && len(page.Uploads)+len(page.Groups) > 2 {
			t.Fatalf("a page of %d bytes has %d", n.Bytes, bytes)
		}
		if size := len(page.Uploads) + len(page.Groups); size > n.Limit || size == 0 && page.NextName != "" {
			t.Fatalf("a page of %d has %d entries: %s", n.Limit, size, fmt.Sprint(page))
		}
		if n.AfterName, n.AfterID = page.NextName, page.NextID; n.AfterName == "" {
			slices.Sort(got)
			return got
		}
	}
}
