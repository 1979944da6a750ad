package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/access"
	"sluice/conformance"
	"sluice/httpapi"
)

// breakage is a way in which a proxy breaks the server behind it, and the cases that find it.
type breakage struct {
	name  string
	cases string // a regular expression of the names of cases; one of them must fail
	// wrap returns the proxy for one run.
	wrap func(next http.Handler) http.Handler
}

// TestBrokenServersAreFound runs cases against servers that are broken, one way each, until one
// fails. TestServersConform runs all cases against the servers themselves.
func TestBrokenServersAreFound(t *testing.T) {
	t.Parallel()
	operated, operator := openAdministered(t, nil)
	office, tenant := openAdministered(t, []string{account})
	for _, servers := range []struct {
		service   *httpapi.Server
		options   conformance.Options
		breakages []breakage
	}{
		{openService(t, access.ReadsPublic), conformance.Options{}, brokenBlobs()},
		{openService(t, access.ReadsPublic), conformance.Options{}, brokenVersions()},
		{openService(t, access.ReadsPaid), conformance.Options{}, brokenPayments()},
		{operated, conformance.Options{URL: "/sluice", Key: operator}, brokenPlaces()},
		{office, conformance.Options{URL: "/sluice", Key: tenant, Account: account}, brokenPermission()},
	} {
		for _, b := range servers.breakages {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				o := servers.options
				o.URL, o.Level, o.Match = serve(t, servers.service, b.wrap)+o.URL, conformance.Extended, regexp.MustCompile(b.cases)
				if !isFound(t, o) {
					t.Errorf("no case of %s fails", b.cases)
				}
			})
		}
	}
}

// isFound reports whether a case fails on a server.
func isFound(t *testing.T, o conformance.Options) bool {
	t.Helper()
	failed := errors.New("a case has failed")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	report, err := conformance.Run(ctx, o, func(r conformance.Result) {
		if r.Outcome == conformance.Failed {
			stop(failed)
		}
	})
	if err != nil && !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if report.Passed+report.Failed == 0 {
		t.Fatalf("no case of %s ran", o.Match)
	}
	return err != nil
}

func reversed(list []any) []any {
	slices.Reverse(list)
	return list
}

func withoutLast(list []any) []any { return list[:max(0, len(list)-1)] }

func brokenBlobs() []breakage {
	return []breakage{
		{"put is 200", "^(blob|put)/", status(puts, 204, 200)},
		{"absent is 403", "^(blob|get)/", status(gets, 404, 403)},
		{"put stores nothing", "^(blob|put)/", swallowing(puts, 204, "")},
		{"put keeps the first content", "^(blob|put)/", remembering(puts)},
		{"stale read", "^(blob|put|get)/", remembering(gets)},
		{"stale HEAD", "^(blob|put|head)/", remembering(heads)},
		{"delete does nothing", "^(blob|delete)/", swallowing(deletes, 204, "")},
		{"range is ignored", "^range/", without(gets, "Range")},
		{"range is shifted", "^range/", answers(gets, func(a *answer, _ *http.Request) {
			if a.status == 206 && len(a.body) > 1 {
				a.body = append(a.body[1:], a.body[0])
			}
		})},
		{"range has another size", "^range/", answers(gets, func(a *answer, _ *http.Request) {
			a.header.Set("Content-Range", strings.Replace(a.header.Get("Content-Range"), "/", "/1", 1))
		})},
		{"suffix is counted from the start", "^range/", requests(gets, func(r *http.Request) {
			r.Header.Set("Range", strings.Replace(r.Header.Get("Range"), "bytes=-", "bytes=0-", 1))
		})},
		{"only the first range", "^range/", requests(gets, func(r *http.Request) {
			first, _, _ := strings.Cut(r.Header.Get("Range"), ",")
			r.Header.Set("Range", first)
		})},
		{"unsatisfiable range is 200", "^range/", status(gets, 416, 200)},
		{"malformed range is 416", "^range/", answers(gets, func(a *answer, r *http.Request) {
			if r.Header.Get("Range") != "" && a.status == 200 {
				a.status = 416
			}
		})},
		{"errors of HEAD have no code", "^head/", losing(matches{"HEAD", "/"}, "Error-Code")},
		{"HEAD has a range", "^(range|head|get)/", answers(heads, func(a *answer, r *http.Request) {
			if r.Header.Get("Range") != "" {
				a.status = 206
			}
		})},
		{"no ETag", "^(blob|put|get)/", losing(gets, "Etag")},
		{"no Last-Modified", "^(blob|put|get|head)/", losing(gets, "Last-Modified")},
		{"no Accept-Ranges", "^(blob|put|get|head|range)/", losing(gets, "Accept-Ranges")},
		{"weak ETag", "^(blob|put|get|condition)/", answers(puts, func(a *answer, _ *http.Request) {
			a.header.Set("Etag", "W/"+a.header.Get("Etag"))
		})},
		{"the same ETag for all", "^(blob|put|get|condition|etag)/", answers(all, func(a *answer, _ *http.Request) {
			if a.header.Get("Etag") != "" {
				a.header.Set("Etag", `"1-0000000000000000"`)
			}
		})},
		{"Content-Type is lost", "^(blob|put|get)/", without(puts, "Content-Type")},
		{"no nosniff", "^(blob|put|get)/", losing(gets, "X-Content-Type-Options")},
		{"body is cut", "^(blob|put|get|range)/", answers(gets, func(a *answer, _ *http.Request) {
			if len(a.body) > 2000 {
				a.setBody(a.body[:2000])
			}
		})},
		{"large bodies are damaged", "^(blob|put|get|range)/", answers(gets, func(a *answer, _ *http.Request) {
			if len(a.body) > 1<<17 {
				a.body[1<<17]++
			}
		})},
		{"a digest is not verified", "^(put|digest)/", without(puts, "Content-Digest", "Repr-Digest")},
		{"Content-Encoding is stored", "^put/", without(puts, "Content-Encoding")},
		{"If-None-Match of PUT is ignored", "^(put|condition)/", without(puts, "If-None-Match")},
		{"If-Match of PUT is ignored", "^(put|condition)/", without(puts, "If-Match")},
		{"conditions of DELETE are ignored", "^(delete|condition)/", without(deletes, "If-Match", "If-None-Match", "If-Unmodified-Since")},
		{"GET is never 304", "^(get|condition)/", without(gets, "If-None-Match", "If-Modified-Since")},
		{"If-Range is ignored", "^(range|condition)/", without(gets, "If-Range")},
		{"metadata is not stored", "^metadata/", requests(puts, func(r *http.Request) {
			for name := range r.Header {
				if strings.HasPrefix(name, "Blob-Meta-") {
					r.Header.Del(name)
				}
			}
		})},
		{"a 304 loses metadata", "^(metadata|condition)/", answers(gets, func(a *answer, _ *http.Request) {
			if a.status == 304 {
				a.header.Del("Content-Language")
				a.header.Del("Content-Disposition")
				a.header.Del("Cache-Control")
			}
		})},
		{"a copy does nothing", "^copy/", swallowing(copies, 200, `{}`)},
		{"a move does nothing", "^move/", swallowing(copies, 200, `{}`)},
		{"a copy ignores the conditions on the source", "^copy/", without(copies, "If-Match", "If-None-Match", "If-Unmodified-Since")},
		{"a copy ignores the conditions on the destination", "^copy/", bodies(copies, func(o map[string]any) {
			delete(o, "ifMatch")
			delete(o, "ifNoneMatch")
		})},
		{"a copy loses metadata", "^copy/", bodies(copies, func(o map[string]any) {
			if o["copyTo"] != nil {
				o["replaceMetadata"] = true
			}
		})},
		{"a copy keeps the metadata that is to be replaced", "^copy/", bodies(copies, func(o map[string]any) {
			for _, member := range []string{"replaceMetadata", "contentType", "contentLanguage", "metadata"} {
				delete(o, member)
			}
		})},
		{"a copy removes its source", "^copy/", bodies(copies, func(o map[string]any) {
			if len(o) == 1 && o["copyTo"] != nil {
				o["moveTo"], o["copyTo"] = o["copyTo"], nil
			}
		})},
		{"a move keeps the source", "^move/", bodies(copies, func(o map[string]any) {
			if o["moveTo"] != nil {
				o["copyTo"], o["moveTo"] = o["moveTo"], nil
			}
		})},
		{"a move is not recorded", "^move/", without(copies, "Idempotency-Key")},
		{"expiry is ignored", "^expir", without(puts, "Blob-Expires")},
		{"names are normalised", "^name/", requests(all, func(r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/v1/blobs/") {
				r.URL.Path, r.URL.RawPath = path.Clean(r.URL.Path), ""
			}
		})},
		{"plus is a space", "^name/", requests(all, func(r *http.Request) {
			r.URL.Path, r.URL.RawPath = strings.ReplaceAll(r.URL.Path, "+", " "), ""
		})},
		{"names are decoded twice", "^name/", requests(all, func(r *http.Request) {
			r.URL.Path, r.URL.RawPath = strings.ReplaceAll(r.URL.Path, "%41", "A"), ""
		})},
		{"list is reversed", "^list/", entries(gets, "blobs", reversed)},
		{"list loses its last entry", "^list/", entries(gets, "blobs", withoutLast)},
		{"list has no prefixes", "^list/", entries(gets, "prefixes", func([]any) []any { return []any{} })},
		{"limit is ignored", "^list/", ignoring("limit")},
		{"prefix is ignored", "^list/", ignoring("prefix")},
		{"delimiter is ignored", "^list/", ignoring("delimiter")},
		{"after is ignored", "^list/", ignoring("after")},
		{"next is null", "^list/", answers(gets, func(a *answer, _ *http.Request) {
			a.edit(func(o map[string]any) {
				if o["next"] == nil {
					o["next"] = nil
				}
			})
		})},
		{"list has other sizes", "^list/", answers(gets, func(a *answer, _ *http.Request) {
			a.setBody(bytes.ReplaceAll(a.body, []byte(`"size":`), []byte(`"size":1`)))
		})},
		{"parts are stored in another order", "^upload/", requests(parts, func(r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/parts/0") {
				r.URL.Path = strings.TrimSuffix(r.URL.Path, "0") + "1"
			} else if strings.HasSuffix(r.URL.Path, "/parts/1") {
				r.URL.Path = strings.TrimSuffix(r.URL.Path, "1") + "0"
			}
		})},
		{"a part's first content stays", "^upload/", remembering(parts)},
		{"totals are not compared", "^upload/", requests(completes, func(r *http.Request) {
			r.Body, r.ContentLength = http.NoBody, 0
		})},
		{"complete does nothing", "^upload/", swallowing(completes, 200, `{"success": true}`)},
		{"complete cannot be repeated", "^upload/", func(next http.Handler) http.Handler {
			var seen sync.Map
			return answers(completes, func(a *answer, r *http.Request) {
				if _, again := seen.LoadOrStore(r.URL.Path, true); again && a.status == 200 {
					a.status = 404
				}
			})(next)
		}},
		{"abort does nothing", "^upload/", swallowing(matches{"DELETE", "/v1/multipart-uploads/"}, 204, "")},
		{"use takes two", "^session/", twice(uses)},
		{"use takes nothing", "^session/", swallowing(uses, 200, "")},
		{"use has a body", "^session/", answers(uses, func(a *answer, _ *http.Request) { a.setBody([]byte("{}")) })},
		{"Chunksets-Left is lost", "^session/", losing(uses, "Chunksets-Left")},
		{"Idempotency-Key is ignored", "^(session|sold|pay)/", without(all, "Idempotency-Key")},
		{"405 has no Allow", "^(method|error|operation)", losing(all, "Allow")},
		{"errors have no code", "^(get|error)/", answers(all, func(a *answer, _ *http.Request) {
			if a.status >= 400 {
				a.edit(func(o map[string]any) { delete(o, "code") })
			}
		})},
		{"errors are cached", "^(get|error)/", answers(all, func(a *answer, _ *http.Request) {
			if a.status >= 400 {
				a.header.Del("Cache-Control")
			}
		})},
		{"requests have no id", "^(error|request)", losing(all, "X-Request-Id")},
		{"foreign pages may write", "^local/", without(all, "Origin")},
		{"foreign hosts are served", "^local/", requests(all, func(r *http.Request) { r.Host = "localhost" })},
	}
}
