package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/places"
	"sluice/access/places/placestest"
	"sluice/blob"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// set sets a place of an account, for requests that begin after it returns.
func (s *service) set(t testing.TB, account, name string, exact bool, to places.Settings) {
	t.Helper()
	testenv.OK(t, testenv.Error(placestest.Change(t.Context(), s.meta, places.Place{Account: account, Name: name, Exact: exact}, func(now *places.Settings, _ places.Settings) (*actions.Act, error) {
		*now = to
		return nil, nil
	})))
	testenv.OK(t, s.places.Renew(t.Context()))
}

var kindsOfReads = []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid}

// readers are callers of one service: nobody, keys with and without read, and links of both.
func (l *linking) readers(t *testing.T) map[string]func(path, name string, list bool) (string, []string) {
	t.Helper()
	reader := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	writer := l.signer(t, access.NewKey{Scopes: scopeWrite, Accounts: []string{ours}})
	other := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{"theirs"}})
	key := func(k signing) func(path, name string, list bool) (string, []string) {
		return func(path, _ string, _ bool) (string, []string) { return path, keyHeader(k.credential) }
	}
	linked := func(k signing) func(path, name string, list bool) (string, []string) {
		return func(path, name string, list bool) (string, []string) {
			query := l.link(t, k, link.Read, ours, name)
			if list {
				return path + "&" + query[1:], nil
			}
			return path + query, nil
		}
	}
	return map[string]func(path, name string, list bool) (string, []string){
		"nobody":  func(path, _ string, _ bool) (string, []string) { return path, nil },
		"reader":  key(reader),
		"writer":  key(writer),
		"other":   key(other),
		"link":    linked(reader),
		"no link": linked(writer),
	}
}

// expected returns the status and the Cache-Control for a read. setting must be one that the
// account may have.
func expected(instance, setting access.Reads, caller, method string) (status int, cache string) {
	if setting == "" || setting == access.ReadsInstance {
		setting = instance
	}
	holds := caller == "reader" || caller == "link"
	status = http.StatusOK
	switch {
	case holds, setting == access.ReadsPublic, setting == access.ReadsFree:
	case setting == access.ReadsPaid && method == "GET":
		status = http.StatusPaymentRequired
	case setting == access.ReadsPaid:
	case caller == "nobody":
		status = http.StatusUnauthorized
	default:
		status = http.StatusForbidden
	}
	switch {
	case status != http.StatusOK:
		return status, "no-store"
	case strings.HasSuffix(caller, "link"), setting == access.ReadsPaid:
		return status, "private, no-store"
	case setting == access.ReadsPublic:
		return status, "public, max-age=60"
	default:
		return status, "private, no-cache"
	}
}

// TestReadsOfPlaces reads and lists with every setting, as every caller, on every kind of instance:
// set for the account, a prefix that is no folder, the blob, and with and without permission to
// open. Names are escaped in every way that a path allows.
// Invariant 197.
func TestReadsOfPlaces(t *testing.T) {
	for _, instance := range kindsOfReads {
		l := newLinking(t, instance, func(c *Config) { c.PublicCacheControl = "public, max-age=60" })
		const name = "team é/ph%2foto"
		l.store(t, name)
		readers := l.readers(t)
		for _, setting := range []access.Reads{"", "instance", "public", "key", "free"} {
			for at, exact := range map[string]bool{"": false, "team é/ph%": false, name: true} {
				for _, mayOpen := range []bool{true, false} {
					l.set(t, ours, "", false, places.Settings{MayOpen: mayOpen})
					l.set(t, ours, at, exact, places.Settings{Reads: string(setting), MayOpen: mayOpen && at == ""})
					inForce := setting
					if !mayOpen && setting.Opener(instance) {
						inForce = ""
					}
					for who, by := range readers {
						for i, escaped := range []string{"team%20%C3%A9/ph%252foto", "t%65am%20é%2Fph%252foto"} {
							method := []string{"GET", "HEAD"}[i]
							path, header := by("/v1/blobs/"+ours+"/"+escaped, name, false)
							res, body := l.do(t, method, path, "", header...)
							status, cache := expected(instance, inForce, who, method)
							if res.StatusCode != status || res.Header.Get("Cache-Control") != cache {
								t.Errorf("%s on %s, %q at %q, may open %t, by %s: %d %s %s; want %d %s", method, instance, setting, at, mayOpen, who, res.StatusCode, res.Header.Get("Cache-Control"), body, status, cache)
							}
							if shared := strings.HasPrefix(cache, "public"); res.StatusCode == 200 && shared && strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Authorization") {
								t.Errorf("a public response varies by the key")
							}
						}
					}
					l.set(t, ours, at, exact, places.Settings{})
				}
			}
		}
	}
}

// TestListsOfPlaces lists prefixes at, above and below places, as every caller.
// Invariant 197.
func TestListsOfPlaces(t *testing.T) {
	for _, instance := range kindsOfReads {
		l := newLinking(t, instance)
		readers := l.readers(t)
		l.store(t, "a/b/c")
		l.set(t, ours, "", false, places.Settings{MayOpen: true})
		for _, test := range []struct {
			set    map[string]string // by the prefix
			public string            // prefixes with lists for everybody, separated by spaces
			keyed  string
		}{
			{map[string]string{}, "", ""},
			{map[string]string{"a/": "public"}, "a/ a/b a/b/ a/b/c a/c", ""},
			{map[string]string{"": "public"}, "- a a/ a/b a/b/ a/b/c a/c zzz", ""},
			{map[string]string{"": "key"}, "", "- a a/ a/b a/b/ a/b/c a/c zzz"},
			{map[string]string{"": "public", "a/b": "key"}, "a/c zzz", "- a a/ a/b a/b/ a/b/c"},
			{map[string]string{"": "key", "a/": "public", "a/b/": "key"}, "a/c", "- a a/ a/b a/b/ a/b/c zzz"},
			{map[string]string{"a/": "key", "a/b": "instance"}, "", "- a a/ a/c"},
		} {
			for at, lists := range test.set {
				l.set(t, ours, at, false, places.Settings{Lists: lists, MayOpen: at == ""})
			}
			for prefix := range strings.FieldsSeq("- a a/ a/b a/b/ a/b/c a/c zzz") {
				lists := instance.Lists()
				switch {
				case strings.Contains(" "+test.public+" ", " "+prefix+" "):
					lists = access.ReadsPublic
				case strings.Contains(" "+test.keyed+" ", " "+prefix+" "):
					lists = access.ReadsKey
				}
				name := strings.TrimPrefix(prefix, "-")
				for who, by := range readers {
					if strings.Contains(who, "link") {
						continue // it names folders only
					}
					path, header := by("/v1/blobs/"+ours+"?prefix="+url.QueryEscape(name), name, true)
					res, body := l.do(t, "GET", path, "", header...)
					if status, _ := expected(lists, "", who, "GET"); res.StatusCode != status {
						t.Errorf("list of %q by %s on %s with %v: %d %s, want %d", name, who, instance, test.set, res.StatusCode, body, status)
					}
				}
			}
			for at := range test.set {
				l.set(t, ours, at, false, places.Settings{MayOpen: at == ""})
			}
		}
	}
}

// TestPublicListsDiscloseNothing: a list that everybody may read shows of a blob that they may not
// read neither checksums nor metadata, and of one that they must pay for no checksum from which it
// can be computed.
// Invariant 33.
func TestPublicListsDiscloseNothing(t *testing.T) {
	for _, instance := range []access.Reads{access.ReadsKey, access.ReadsPaid} {
		h := newHosted(t, instance, access.ScopeRead)
		h.set(t, ours, "", false, places.Settings{MayOpen: true, Lists: "public"})
		h.set(t, ours, "public/", false, places.Settings{Reads: "public"})
		h.set(t, ours, "blocked", false, places.Settings{Reads: "public", Blocked: &places.Block{}})
		for _, name := range []string{"a", "public/a", "blocked"} {
			for _, size := range []int{16, 17} {
				put := blob.PutOptions{Account: ours, Name: name + fmt.Sprint(size), ContentType: "text/x-secret", Metadata: "Blob-Meta-Secret: 1\n"}
				testenv.OK(t, testenv.Error(h.blobs.Put(t.Context(), put, strings.NewReader(strings.Repeat("x", size)), int64(size))))
			}
		}
		for _, headers := range [][]string{nil, h.right.headers} {
			_, text := h.want(t, 200, "GET", "/v1/blobs/"+ours+"?include=metadata", "", headers...)
			for _, b := range decodedAs[wire.BlobPage](t, text).Blobs {
				open := headers != nil || strings.HasPrefix(b.Name, "public/")
				described := open || instance == access.ReadsPaid && !strings.HasPrefix(b.Name, "blocked")
				summed := open || described && b.Size > 16
				if (b.ETag != "") != summed || (b.ContentType != "") != described || len(b.Metadata) == 1 != described {
					t.Errorf("reads %s, with a key %t: %+v", instance, headers != nil, b)
				}
			}
		}
	}
}

// TestFreeReadsChargeNothing reads where reads are paid, and a place is free: whatever the client
// sends to pay, it is neither charged nor checked, nor is the price told.
// Invariant 197.
func TestFreeReadsChargeNothing(t *testing.T) {
	h := newHosted(t, access.ReadsPaid, access.ScopeRead)
	path := onBlob("GET", 200)(t, h).path
	session := h.newSession(t)
	left := func() string {
		_, body := h.want(t, 200, "GET", "/v1/sessions/"+session, "")
		return body
	}
	before := left()
	for _, reads := range []string{"public", "free"} {
		h.set(t, ours, "", false, places.Settings{MayOpen: true, Reads: reads})
		for _, payment := range [][]string{
			{wire.HeaderSessionID, session}, {wire.HeaderSessionID, "unknown"}, {wire.HeaderMicropayment, "nonsense"},
			{wire.HeaderMaxChunksets, "0"}, {wire.HeaderSessionID, session, "Range", "bytes=1-2"}, {wire.HeaderSessionID, session, wire.HeaderMicropayment, "x"},
		} {
			res, body := h.do(t, "GET", path, "", payment...)
			if res.StatusCode/100 != 2 {
				t.Errorf("%s with %v: %d %s", reads, payment, res.StatusCode, body)
			}
			for _, name := range []string{wire.HeaderChunksetsCharged, wire.HeaderChunksetPrice, wire.HeaderChunksetsRequired} {
				testenv.Equal(t, res.Header.Get(name), "", "%s of a read that is %s", name, reads)
			}
		}
	}
	testenv.Equal(t, left(), before, "the session")
	h.set(t, ours, "a/b", true, places.Settings{Blocked: &places.Block{Reason: "r"}})
	h.set(t, ours, "", false, places.Settings{})
	for _, payment := range [][]string{nil, {wire.HeaderSessionID, session}, {wire.HeaderSessionID, "unknown"}} {
		h.refused(t, 451, wire.CodeBlocked, "GET", path, "", payment...)
	}
	testenv.Equal(t, left(), before, "the session after blocked reads")
	h.set(t, ours, "a/b", true, places.Settings{})
	h.want(t, 200, "GET", path, "", wire.HeaderSessionID, session)
	if left() == before {
		t.Error("a paid read was not charged")
	}
}

// TestBlockedBlobs: whoever may read a blob is told that it is blocked, and why; nobody else is.
// It can be listed, replaced and deleted, and stays blocked.
// Invariant 198.
func TestBlockedBlobs(t *testing.T) {
	for _, instance := range kindsOfReads {
		l := newLinking(t, instance, func(c *Config) { c.URL = "https://blobs.example.org/base" })
		path := l.store(t, "folder/name")
		l.store(t, "folder/nam")
		readers := l.readers(t)
		writer := l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}})
		res, _ := l.want(t, 200, "HEAD", path, "", keyHeader(writer.credential)...)
		etag := res.Header.Get("ETag")
		l.set(t, ours, "folder/n", false, places.Settings{Reads: "instance"}) // which unblocks nothing
		for _, place := range []places.Place{{}, {Name: "fold"}, {Name: "folder/name"}, {Name: "folder/name", Exact: true}} {
			at, exact := place.Name, place.Exact
			l.set(t, ours, at, exact, places.Settings{Blocked: &places.Block{Reason: "court order 7"}})
			for who, by := range readers {
				for _, condition := range [][]string{nil, {"If-None-Match", etag}, {"If-Match", `"x"`}, {"Range", "bytes=0-1"}, {"Range", "bytes=900-"}} {
					for _, method := range []string{"GET", "HEAD"} {
						asked, header := by(path, "folder/name", false)
						res, body := l.do(t, method, asked, "", append(header, condition...)...)
						status, _ := expected(instance, "", who, method)
						if status == 200 || status == 402 {
							status = 451
						}
						linked, reason := "", ""
						if status == 451 {
							linked, reason = `<https://blobs.example.org/base>; rel="blocked-by"`, "court order 7"
						}
						if res.StatusCode != status || res.Header.Get("Link") != linked || method == "GET" && !strings.Contains(body, reason) || res.Header.Get("Cache-Control") != "no-store" {
							t.Errorf("%s %v by %s on %s, blocked at %q: %d %v %s", method, condition, who, instance, at, res.StatusCode, res.Header, body)
						}
						if res.Header.Get("ETag") != "" {
							t.Error("a blocked read has the blob's ETag")
						}
					}
				}
			}
			key := keyHeader(writer.credential)
			for _, body := range []string{`{"copyTo": {"blobName": "x"}}`, `{"moveTo": {"blobName": "x"}}`, `{"copyTo": {"account": "theirs", "blobName": "x"}}`, `{"copyTo": {"blobName": "folder/name"}}`} {
				l.refused(t, 451, wire.CodeBlocked, "POST", path, body, key...)
			}
			_, list := l.want(t, 200, "GET", "/v1/blobs/"+ours, "", key...)
			testenv.Equal(t, strings.Count(list, `"name":"folder/nam`), 2, "blobs in the list")
			l.want(t, 204, "PUT", path, "replaced", key...)
			l.refused(t, 451, wire.CodeBlocked, "GET", path, "", key...)
			l.want(t, 204, "DELETE", path, "", key...)
			l.refused(t, 451, wire.CodeBlocked, "GET", path, "", key...)
			l.store(t, "folder/name")
			if at == "folder/name" {
				l.want(t, 200, "GET", path[:len(path)-1], "", key...)
			}
			l.set(t, ours, at, exact, places.Settings{})
			l.want(t, 200, "GET", path, "", key...)
		}
	}
}

// TestCopiesToMoreReaders copies and moves between places with all settings: to where more callers
// may read needs admin for the source, and from where not everybody may read needs read.
// Invariant 198.
func TestCopiesToMoreReaders(t *testing.T) {
	settings := []access.Reads{"key", "instance", "free", "public"} // from the fewest readers to the most
	h := newHosted(t, access.ReadsPaid, access.ScopeWrite)
	h.set(t, ours, "", false, places.Settings{MayOpen: true})
	keys := map[string][]string{}
	for who, scopes := range map[string][]access.Scope{"writer": {access.ScopeWrite}, "reader": {access.ScopeRead, access.ScopeWrite}, "admin": {access.ScopeAdmin}} {
		_, secret := h.key(t, access.NewKey{Scopes: scopes, Accounts: []string{ours}})
		keys[who] = keyHeader(secret)
	}
	for from, reads := range settings {
		h.set(t, ours, "from/", false, places.Settings{Reads: string(reads)})
		for to, reads := range settings {
			h.set(t, ours, "to/", false, places.Settings{Reads: string(reads)})
			for who, key := range keys {
				for _, verb := range []string{"copyTo", "moveTo"} {
					path, _ := h.store(t, ours, "from/a", "some bytes that are copied")
					needsAdmin, needsRead := to > from, verb == "copyTo" && from < 2
					res, body := h.do(t, "POST", path, `{"`+verb+`": {"blobName": "to/a"}}`, key...)
					allowed := who == "admin" || !needsAdmin && (who == "reader" || !needsRead)
					if (res.StatusCode == 200) != allowed || !allowed && !strings.Contains(body, string(wire.CodeScopeMissing)) {
						t.Errorf("%s from %s to %s by %s: %d %s", verb, settings[from], settings[to], who, res.StatusCode, body)
					}
					if needsAdmin && who == "reader" && !strings.Contains(body, "more callers may read") {
						t.Errorf("the reason is %s", body)
					}
				}
			}
		}
	}
}

// TestPlacesOfALocalInstance: it has no keys, so key means everybody without payment; blocks and
// free places hold.
// Invariant 198.
func TestPlacesOfALocalInstance(t *testing.T) {
	s := start(t, setup{config: func(c *Config) { c.Reads = access.ReadsPaid }})
	path := "/v1/blobs/" + ours + "/a"
	s.want(t, 204, "PUT", path, "x")
	s.refused(t, 402, wire.CodePaymentRequired, "GET", path, "")
	for _, reads := range []string{"key", "free", "public"} {
		s.set(t, ours, "", false, places.Settings{MayOpen: true, Reads: reads})
		s.want(t, 200, "GET", path, "")
		_, list := s.want(t, 200, "GET", "/v1/blobs/"+ours, "")
		if !strings.Contains(list, `"etag"`) {
			t.Errorf("reads %s: %s", reads, list)
		}
	}
	s.set(t, ours, "a", true, places.Settings{Blocked: &places.Block{}})
	res, _ := s.refused(t, 451, wire.CodeBlocked, "GET", path, "")
	testenv.Equal(t, res.Header.Get("Link"), `</>; rel="blocked-by"`, "Link")
	s.refused(t, 451, wire.CodeBlocked, "POST", path, `{"moveTo": {"blobName": "b"}}`)
}
