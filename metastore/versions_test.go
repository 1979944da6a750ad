package metastore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/metastore"
)

// TestVersions writes and parses the ids of commits.
func TestVersions(t *testing.T) {
	b := metastore.Blob{Modified: time.UnixMicro(0x0006_1234_5678_9abc)}
	for i := range b.Content {
		b.Content[i] = byte(0xf0 + i)
	}
	v := metastore.VersionOf(&b)
	const text = "0006123456789abcf8f9fafbfcfdfeff"
	if v.String() != text || !v.Modified().Equal(b.Modified) {
		t.Fatalf("the version is %v at %v", v, v.Modified())
	}
	if parsed, ok := metastore.ParseVersion(text); !ok || parsed != v {
		t.Fatalf("parsed as %v, %t", parsed, ok)
	}
	for _, bad := range []string{"", "null", text[1:], text + "0", text + "00", strings.ToUpper(text), "g" + text[1:]} {
		if _, ok := metastore.ParseVersion(bad); ok {
			t.Errorf("%q was parsed", bad)
		}
	}
}

// TestKeptNames sorts the names of kept versions: by blob, and then the newest first.
func TestKeptNames(t *testing.T) {
	times := []int64{1<<63 - 1, 1_800_000_000_000_001, 1_800_000_000_000_000, 1, 0, -1, -1 << 63}
	var names []string
	for _, name := range []string{"a", "a\x01", "a/", "a/b", "ab", strings.Repeat("n", 3000)} {
		for _, at := range times {
			stored := metastore.KeptName(name, time.UnixMicro(at))
			names = append(names, stored)
			blob, modified, ok := metastore.KeptBlob(metastore.KeptOf("acct"), stored)
			if !ok || blob != (metastore.BlobName{Account: "acct", Name: name}) || modified.UnixMicro() != at {
				t.Errorf("%q at %d is read as %v at %v, %t", name, at, blob, modified, ok)
			}
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("the names are not sorted: %q", names)
	}
}

// TestHiddenAccounts tells an account's markers from the versions of blobs and of markers.
func TestHiddenAccounts(t *testing.T) {
	markers := metastore.MarkersOf("acct")
	for account, of := range map[string]string{"acct": "", markers: "acct", metastore.KeptOf("acct"): "", metastore.KeptOf(markers): ""} {
		got, ok := metastore.AccountOfMarkers(account)
		if ok != (of != "") || ok && got != of {
			t.Errorf("%q has the markers of %q, %t", account, got, ok)
		}
		if hidden := account != "acct"; metastore.IsHidden(account) != hidden {
			t.Errorf("%q is hidden: %t", account, !hidden)
		}
	}
}

// FuzzKeptBlob reads any name: it is refused, or is the one that its blob and time have.
func FuzzKeptBlob(f *testing.F) {
	f.Add("~~acct", metastore.KeptName("a/b", time.UnixMicro(1_800_000_000_000_000)))
	f.Add("~~~acct", metastore.KeptName("", time.UnixMicro(-1)))
	f.Add("~acct", "a")
	f.Fuzz(func(t *testing.T, account, name string) {
		blob, modified, ok := metastore.KeptBlob(account, name)
		if ok && (metastore.KeptOf(blob.Account) != account || metastore.KeptName(blob.Name, modified) != name) {
			t.Fatalf("%q/%q is read as %v at %v", account, name, blob, modified)
		}
	})
}

// FuzzParseVersion parses any text: it is refused, or String returns it.
func FuzzParseVersion(f *testing.F) {
	f.Add("0006123456789abcf8f9fafbfcfdfeff")
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := metastore.ParseVersion(s); ok && v.String() != s {
			t.Fatalf("%q was parsed as %v", s, v)
		}
	})
}
