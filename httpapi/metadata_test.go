package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/metastore"
	"sluice/test/testclock"
	"sluice/wire"
)

// described are a blob's headers with everything that a writer can state.
var described = []string{
	"Cache-Control", "public, max-age=60", "Content-Disposition", `attachment; filename="a.txt"`, "Content-Language", "de",
	"blob-meta-color-of-roof", "red", "BLOB-META-X", "a : b",
}

// metadataOf returns a response's headers that describe its blob.
func metadataOf(res *http.Response) map[string]string {
	m := map[string]string{}
	for name, values := range res.Header {
		switch {
		case name == "Content-Disposition", name == "Content-Language", strings.HasPrefix(strings.ToLower(name), "blob-meta-"):
			m[name] = strings.Join(values, "|")
		}
	}
	return m
}

var describedAs = map[string]string{
	"Content-Disposition": `attachment; filename="a.txt"`, "Content-Language": "de", "Blob-Meta-Color-Of-Roof": "red", "Blob-Meta-X": "a : b",
}

// TestCacheControlOfReads checks who is sent a blob's Cache-Control or the service's, and that it
// never exceeds the blob's remaining life.
// Invariant 72.
func TestCacheControlOfReads(t *testing.T) {
	for _, test := range []struct {
		reads          access.Reads
		byDefault      string
		plain, stated  string // Cache-Control of blobs without and with one of their own
		dying, elapsed string // the same of stated and of plain ones that have 100 s left
	}{
		{access.ReadsPublic, "", "no-cache", "public, max-age=3600", "public, max-age=100", "no-cache"},
		{access.ReadsPublic, "public, max-age=600", "public, max-age=600", "public, max-age=3600", "public, max-age=100", "public, max-age=100"},
		{access.ReadsPublic, "public, max-age=50", "public, max-age=50", "public, max-age=3600", "public, max-age=100", "public, max-age=50"},
		{access.ReadsKey, "", "private, no-cache", "private, no-cache", "private, no-cache", "private, no-cache"},
		{access.ReadsPaid, "public, max-age=600", "private, no-store", "private, no-store", "private, no-store", "private, no-store"},
	} {
		clock := testclock.At(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
		s := start(t, setup{now: clock.Now, config: func(c *Config) {
			c.Reads, c.PublicCacheControl = test.reads, test.byDefault
		}})
		const own = "public, max-age=3600"
		expires := clock.Now().Add(time.Hour + 100*time.Second).Format(time.RFC3339)
		for name, headers := range map[string][]string{
			"plain": nil, "stated": {"Cache-Control", own}, "dying": {"Cache-Control", own, "Blob-Expires", expires}, "elapsed": {"Blob-Expires", expires},
		} {
			s.want(t, 204, "PUT", "/v1/blobs/0x1/"+name, strings.Repeat("x", 100), headers...)
		}
		clock.Advance(time.Hour)
		for name, want := range map[string]string{"plain": test.plain, "stated": test.stated, "dying": test.dying, "elapsed": test.elapsed} {
			for status, headers := range map[int][]string{200: nil, 304: {"If-None-Match", "*"}} {
				res, _ := s.want(t, status, "HEAD", "/v1/blobs/0x1/"+name, "", headers...)
				if got := res.Header.Get("Cache-Control"); got != want {
					t.Errorf("%+v: %s has Cache-Control %q, want %q", test, name, got, want)
				}
			}
		}
	}
}

// TestFreeHeadShowsMetadata: a paid read does not sell metadata.
func TestFreeHeadShowsMetadata(t *testing.T) {
	s := newService(t, func(c *Config) { c.Reads = access.ReadsPaid })
	s.want(t, 204, "PUT", "/v1/blobs/0x1/name", "content", described...)
	res, _ := s.do(t, "HEAD", "/v1/blobs/0x1/name", "")
	if got := metadataOf(res); res.StatusCode != 200 || !maps.Equal(got, describedAs) || res.Header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("HEAD: %d %v", res.StatusCode, res.Header)
	}
	res, _ = s.refused(t, 402, wire.CodePaymentRequired, "GET", "/v1/blobs/0x1/name", "")
	if got := metadataOf(res); len(got) != 0 {
		t.Errorf("402 with %v", got)
	}
}

// TestPreflights checks that a page may send each header for which it asks, and that nothing else
// in the request is in the response.
func TestPreflights(t *testing.T) {
	local := newService(t, nil)
	network := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	for _, s := range []*service{local, network.service} {
		own := ""
		if s == local {
			own = ", " + wire.HeaderFault
		}
		for asked, want := range map[string]string{
			"": "", "blob-meta-a,baggage,X-Requested-With": ", blob-meta-a, baggage, x-requested-with", "blob-meta-a b,blob-meta-<a>": "",
			strings.Repeat("a", 5000): "",
		} {
			res, _ := s.do(t, "OPTIONS", "/v1/blobs/0x1/name", "", "Origin", "http://localhost", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", asked)
			if got := res.Header.Get("Access-Control-Allow-Headers"); res.StatusCode != 204 || got != corsRequestHeaders+own+want {
				t.Errorf("%.60q: %d %q", asked, res.StatusCode, got)
			}
			if res.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("pages may send the browser's credentials")
			}
			if !slices.Contains(res.Header.Values("Vary"), "Access-Control-Request-Headers") {
				t.Errorf("Vary: %q", res.Header.Values("Vary"))
			}
		}
		for _, name := range []string{"Cache-Control", "Content-Disposition", "Content-Language", "Last-Event-ID"} {
			if !slices.Contains(strings.Split(corsRequestHeaders, ", "), name) {
				t.Errorf("%s is not allowed", name)
			}
		}
	}
}

// TestQuotaOfMetadata: metadata counts towards the stored bytes, even while it is being stored.
// Invariant 43.
func TestQuotaOfMetadata(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	const value = "0123456789"
	charge := int64(len("Blob-Meta-A:"+value) + 1)
	key, secret := h.key(t, access.NewKey{
		Scopes: []access.Scope{access.ScopeWrite}, Limits: keys.Limits{StoredBytes: 2*metastore.Charge("n", "") + 2*charge + metastore.RowCharge},
	})
	auth, long := []string{"X-Api-Key", secret}, strings.Repeat("v", metastore.RowCharge)
	for _, name := range []string{"n", "m"} {
		h.want(t, 204, "PUT", "/v1/blobs/ours/"+name, "", append(auth, "Blob-Meta-A", value)...)
	}
	// A replacement needs room for both.
	h.refused(t, 403, wire.CodeQuotaExceeded, "PUT", "/v1/blobs/ours/n", "", append(auth, "Blob-Meta-A", long)...)
	h.want(t, 204, "DELETE", "/v1/blobs/ours/m", "", auth...)
	h.want(t, 204, "PUT", "/v1/blobs/ours/n", "", append(auth, "Blob-Meta-A", long)...)
	used, err := h.meta.Usage(t.Context(), key.Group)
	if err != nil || used.Names != int64(len("nBlob-Meta-A:")+1+metastore.RowCharge) {
		t.Errorf("%+v is used, %v", used, err)
	}
	begin := fmt.Sprintf(`{"rawAccount": "ours", "rawBlobName": "u", "metadata": {"a": %q}}`, long)
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", "/v1/multipart-uploads", begin, auth...)
}
