package http

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestListings lists an account with every combination of parameters and compares the pages with a
// model.
func TestListings(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	names := []string{"a", "a/", "a/b", "a/b/c", "a//b", "a/é", "a0", "ab", "ab/c", "abc", "b", "b/x", "b/y", "b/z/1", "b/z/2", "c/d/e/f",
		"A", "~", "é", "é/x", "日本", "😀", "%", "%2F", "a b", "a+b", "a&b=c", "/", "//", "/x", "\U0010FFFF", "\U0010FFFF/x", "z"}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "/") })
	slices.Sort(names)
	for _, name := range names {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", name), []byte(name))
		s.Must(204, "PUT", e2e.BlobTarget("0x2", "not "+name), nil)
	}
	for _, prefix := range []string{"", "a", "a/", "a/b", "b/z", "é", "/", "nothing", "\U0010FFFF"} {
		for _, delimiter := range []string{"", "/", "//", "b", "é"} {
			want := entries(names, prefix, delimiter)
			for _, limit := range []int{1, 2, 5, 1000, 5000} {
				if got := pages(s, prefix, delimiter, limit); !slices.Equal(got, want) {
					t.Errorf("prefix %q, delimiter %q, limit %d: got %q, want %q", prefix, delimiter, limit, got, want)
				}
			}
			for _, after := range []string{"a", "a/", "a/b", "a/zzz", "b", "\U0010FFFF", "zzz"} {
				var page e2e.Listed
				s.Must(200, "GET", listTarget(prefix, delimiter, after, 1000), nil).Decode(t, &page)
				want := slices.DeleteFunc(slices.Clone(want), func(entry string) bool { return entry <= after })
				if got := page.Entries(); !slices.Equal(got, want) {
					t.Errorf("prefix %q, delimiter %q, after %q: got %q, want %q", prefix, delimiter, after, got, want)
				}
			}
		}
	}
}

// entries is the model. It returns names and prefixes together, in byte order.
func entries(names []string, prefix, delimiter string) []string {
	var all []string
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		entry := name
		if at := strings.Index(rest, delimiter); delimiter != "" && at >= 0 {
			entry = prefix + rest[:at+len(delimiter)]
		}
		all = append(all, entry)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func listTarget(prefix, delimiter, after string, limit int) string {
	return fmt.Sprintf("/v1/blobs/0x1?prefix=%s&delimiter=%s&after=%s&limit=%d",
		url.QueryEscape(prefix), url.QueryEscape(delimiter), url.QueryEscape(after), limit)
}

// pages returns all of a listing's pages. Only the last page may be short, and each page must
// continue where the previous one ended.
func pages(s *e2e.Server, prefix, delimiter string, limit int) []string {
	s.T.Helper()
	var all []string
	after := ""
	for {
		var page e2e.Listed
		s.Must(200, "GET", listTarget(prefix, delimiter, after, limit), nil).Decode(s.T, &page)
		got := page.Entries()
		if len(got) > limit || page.Next != "" && len(got) != min(limit, 1000) {
			s.T.Errorf("prefix %q, delimiter %q, limit %d: a page of %d entries, next %q", prefix, delimiter, limit, len(got), page.Next)
		}
		if len(got) == 0 && after != "" {
			s.T.Errorf("prefix %q, delimiter %q, limit %d: an empty page after %q", prefix, delimiter, limit, after)
		}
		all = append(all, got...)
		if page.Next == "" {
			return all
		}
		if page.Next <= after {
			s.T.Fatalf("next %q does not continue from %q", page.Next, after)
		}
		after = page.Next
	}
}
