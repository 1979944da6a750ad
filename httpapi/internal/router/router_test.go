package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// testRoutes returns a table with every kind of route that the service has.
func testRoutes() []Route[string] {
	var routes []Route[string]
	for _, s := range []string{
		"POST /v1/sessions",
		"POST /v1/sessions/{sessionId}/use",
		"GET /v1/sessions/{sessionId}",
		"POST /v1/sessions/micropaymentchannels",
		"GET /v1/sessions/micropaymentchannels/{channelId}",
		"POST /v1/sessions/micropaymentchannels/{channelId}/close",
		"GET /v1/blobs/{account}",
		"GET /v1/blobs/{account}/{blobName...}",
		"PUT /v1/blobs/{account}/{blobName...}",
		"DELETE /v1/blobs/{account}/{blobName...}",
		"POST /v1/multipart-uploads",
		"GET /v1/multipart-uploads",
		"PUT /v1/multipart-uploads/{uploadId}/parts/{partIdx}",
		"GET /v1/info",
		"GET /livez",
		"GET /openapi.yaml",
	} {
		method, pattern, _ := strings.Cut(s, " ")
		routes = append(routes, Route[string]{Method: method, Pattern: pattern, Value: s, Unprefixed: !strings.HasPrefix(pattern, "/v1")})
	}
	return routes
}

func newTestRouter(t testing.TB, base string) *Router[string] {
	t.Helper()
	rt := testenv.Must(New(base, testRoutes()))(t)
	return rt
}

func TestMatch(t *testing.T) {
	rt := newTestRouter(t, "")
	blob := "/v1/blobs/{account}/{blobName...}"
	for _, tc := range []struct {
		method, path string
		want         string   // pattern of the route
		values       []string // of its parameters
	}{
		{"GET", "/livez", "/livez", nil},
		{"HEAD", "/livez", "/livez", nil},
		{"POST", "/v1/sessions", "/v1/sessions", nil},
		{"POST", "/v1/%73essions", "/v1/sessions", nil},
		{"GET", "/v1/sessions/abc", "/v1/sessions/{sessionId}", []string{"abc"}},
		{"GET", "/v1/sessions/micropaymentchannel", "/v1/sessions/{sessionId}", []string{"micropaymentchannel"}},
		{"GET", "/v1/sessions/Micropaymentchannels", "/v1/sessions/{sessionId}", []string{"Micropaymentchannels"}},
		{"POST", "/v1/sessions/abc/use", "/v1/sessions/{sessionId}/use", []string{"abc"}},
		{"POST", "/v1/sessions/micropaymentchannels", "/v1/sessions/micropaymentchannels", nil},
		{"POST", "/v1/sessions/micropayment%63hannels", "/v1/sessions/micropaymentchannels", nil},
		{"GET", "/v1/sessions/micropaymentchannels/use", "/v1/sessions/micropaymentchannels/{channelId}", []string{"use"}},
		{"POST", "/v1/sessions/micropaymentchannels/c/close", "/v1/sessions/micropaymentchannels/{channelId}/close", []string{"c"}},
		{"PUT", "/v1/multipart-uploads/u/parts/0", "/v1/multipart-uploads/{uploadId}/parts/{partIdx}", []string{"u", "0"}},
		{"GET", "/v1/blobs/0x1", "/v1/blobs/{account}", []string{"0x1"}},
		{"GET", "/v1/blobs/0x1/", blob, []string{"0x1", ""}},
		{"PUT", "/v1/blobs/0x1/", blob, []string{"0x1", ""}},
		{"GET", "/v1/blobs/0x1/a", blob, []string{"0x1", "a"}},
		{"HEAD", "/v1/blobs/0x1/a", blob, []string{"0x1", "a"}},
		{"GET", "/v1/blobs/0x1/a/", blob, []string{"0x1", "a/"}},
		{"GET", "/v1/blobs/0x1//a", blob, []string{"0x1", "/a"}},
		{"GET", "/v1/blobs/0x1///", blob, []string{"0x1", "//"}},
		{"GET", "/v1/blobs/0x1/a//b", blob, []string{"0x1", "a//b"}},
		{"GET", "/v1/blobs/0x1/../b", blob, []string{"0x1", "../b"}},
		{"GET", "/v1/blobs/../b", blob, []string{"..", "b"}},
		{"GET", "/v1/blobs/0x1/.", blob, []string{"0x1", "."}},
		{"GET", "/v1/blobs/0x1/a%2Fb/c", blob, []string{"0x1", "a/b/c"}},
		{"GET", "/v1/blobs/0x1/a%2fb", blob, []string{"0x1", "a/b"}},
		{"GET", "/v1/blobs/0x1/a%252Fb", blob, []string{"0x1", "a%2Fb"}},
		{"GET", "/v1/blobs/0x1/a+b%20c", blob, []string{"0x1", "a+b c"}},
		{"GET", "/v1/blobs/0x1/%00%ff", blob, []string{"0x1", "\x00\xff"}},
		{"GET", "/v1/blobs/0x1/\"é", blob, []string{"0x1", "\"é"}},
		{"GET", "/v1/blobs/%30x1/a", blob, []string{"0x1", "a"}},
		{"GET", "/v1/blobs/0%2525/a", blob, []string{"0%25", "a"}},
	} {
		m := rt.Match(tc.method, tc.path)
		if m.Outcome != Found || m.Pattern != tc.want || m.Route.Pattern != tc.want {
			t.Errorf("%s %s: outcome %d, pattern %q, want %q", tc.method, tc.path, m.Outcome, m.Pattern, tc.want)
			continue
		}
		wantMethod := strings.Replace(tc.method, "HEAD", "GET", 1)
		if m.Route.Method != wantMethod {
			t.Errorf("%s %s: route for %s", tc.method, tc.path, m.Route.Method)
		}
		var values []string
		for _, s := range m.Params.segments {
			if s.kind != wordSegment {
				values = append(values, m.Params.Get(s.text))
			}
		}
		if !slices.Equal(values, tc.values) {
			t.Errorf("%s %s: parameters %q, want %q", tc.method, tc.path, values, tc.values)
		}
	}
}

func TestMatchRefuses(t *testing.T) {
	rt := newTestRouter(t, "")
	for _, tc := range []struct {
		method, path string
		want         Outcome
		allow        string
	}{
		{"GET", "/v1/sessions/micropaymentchannels", UnknownMethod, "OPTIONS POST"},
		{"POST", "/v1/sessions/micropaymentchannels/use", UnknownMethod, "GET HEAD OPTIONS"},
		{"PATCH", "/v1/blobs/0x1/a", UnknownMethod, "DELETE GET HEAD OPTIONS PUT"},
		{"get", "/v1/blobs/0x1/a", UnknownMethod, "DELETE GET HEAD OPTIONS PUT"},
		{"HEAD", "/v1/sessions", UnknownMethod, "OPTIONS POST"},
		{"PUT", "/v1/blobs/0x1", UnknownMethod, "GET HEAD OPTIONS"},
		{"OPTIONS", "/v1/multipart-uploads", Options, "GET HEAD OPTIONS POST"},
		{"OPTIONS", "/livez", Options, "GET HEAD OPTIONS"},
		{"OPTIONS", "/v1/nothing", UnknownPath, ""},
		{"OPTIONS", "*", UnknownPath, ""},
		{"GET", "/v1/blobs/a%2Fb/c", MalformedPath, "DELETE GET HEAD OPTIONS PUT"},
		{"GET", "/v1/blobs/a%2Fb", MalformedPath, "GET HEAD OPTIONS"},
		{"GET", "/v1/sessions/%2f", MalformedPath, "GET HEAD OPTIONS"},
		{"GET", "/v1/blobs/0x1/a%zz", MalformedPath, "DELETE GET HEAD OPTIONS PUT"},
		{"GET", "/v1/blobs/0x1/a%", MalformedPath, "DELETE GET HEAD OPTIONS PUT"},
		{"POST", "/v1/blobs/a%2Fb", UnknownMethod, "GET HEAD OPTIONS"},
		{"GET", "", UnknownPath, ""},
		{"GET", "/", UnknownPath, ""},
		{"GET", "//", UnknownPath, ""},
		{"GET", "//v1/info", UnknownPath, ""},
		{"GET", "/v1", UnknownPath, ""},
		{"GET", "/v1/", UnknownPath, ""},
		{"GET", "/v2/info", UnknownPath, ""},
		{"GET", "/V1/info", UnknownPath, ""},
		{"GET", "/v1/info/", UnknownPath, ""},
		{"GET", "/v1//info", UnknownPath, ""},
		{"GET", "/v1%2Finfo", UnknownPath, ""},
		{"GET", "/v1/inf%", UnknownPath, ""},
		{"POST", "/v1/sessions/", UnknownPath, ""},
		{"POST", "/v1/sessions//use", UnknownPath, ""},
		{"GET", "/v1/blobs", UnknownPath, ""},
		{"GET", "/v1/blobs/", UnknownPath, ""},
		{"GET", "/v1/blobs//a", UnknownPath, ""},
		{"GET", "/etc/passwd", UnknownPath, ""},
	} {
		m := rt.Match(tc.method, tc.path)
		if m.Outcome != tc.want || strings.Join(m.Allow, " ") != tc.allow || m.Route != nil {
			t.Errorf("%s %s: outcome %d, allow %q, want %d, %q", tc.method, tc.path, m.Outcome, m.Allow, tc.want, tc.allow)
		}
		if (m.Outcome == MalformedPath) != errors.Is(m.Err, ErrMalformedPath) {
			t.Errorf("%s %s: error %v", tc.method, tc.path, m.Err)
		}
	}
}

func TestBasePath(t *testing.T) {
	rt := newTestRouter(t, "/sluice")
	for path, want := range map[string]string{
		"/sluice/v1/info":        "/v1/info",
		"/sl%75ice/v1/info":      "/v1/info",
		"/sluice/livez":          "/livez",
		"/livez":                 "/livez",
		"/openapi.yaml":          "/openapi.yaml",
		"/sluice/v1/blobs/a//b":  "/v1/blobs/{account}/{blobName...}",
		"/v1/info":               "",
		"/sluice":                "",
		"/sluice/":               "",
		"/sluice/sluice/v1/info": "",
		"/Sluice/v1/info":        "",
		"//sluice/v1/info":       "",
		"/sluice//v1/info":       "",
		"/sluicev1/info":         "",
	} {
		m := rt.Match("GET", path)
		if m.Pattern != want || (m.Outcome == Found) != (want != "") {
			t.Errorf("%s: pattern %q, outcome %d, want %q", path, m.Pattern, m.Outcome, want)
		}
	}
	for base, path := range map[string]string{"/v1": "/v1/v1/info", "/livez": "/livez/livez", "/a.b-c_D9": "/a.b-c_D9/v1/info", "/azAZ09": "/azAZ09/v1/info"} {
		if m := newTestRouter(t, base).Match("GET", path); m.Outcome != Found {
			t.Errorf("base %s: %s is not found", base, path)
		}
	}
	if m := newTestRouter(t, "/livez").Match("GET", "/livez"); m.Pattern != "/livez" {
		t.Error("an unprefixed route of the base path's name is not found")
	}
	for _, base := range []string{"/", "sluice", "/a/b", "/a/", "//", "/..", "/.", "/a b", "/`", "/a:", "/a@", "/a[", "/%41", "/é", "/{a}"} {
		if _, err := New(base, testRoutes()); err == nil {
			t.Errorf("base path %q was accepted", base)
		}
	}
}

func TestRouteTable(t *testing.T) {
	rt := newTestRouter(t, "/sluice")
	want := testRoutes()
	got := rt.Routes()
	if len(got) != len(want) {
		t.Fatalf("%d routes, want %d", len(got), len(want))
	}
	for i := range got {
		testenv.Equal(t, got[i], want[i], "route %d", i)
	}

	for _, bad := range [][]string{
		{"GET /a", "GET /a"},
		{"GET /{a}", "GET /{b}"},
		{"GET /{a}", "PUT /{b}"},
		{"GET /a/{x...}", "GET /a/{y...}"},
		{"GET a"},
		{"GET /a//b"},
		{"GET /a/"},
		{"GET /{}"},
		{"GET /{...}"},
		{"GET /{a"},
		{"GET /a}"},
		{"GET /{a}b"},
		{"GET /b{a}"},
		{"GET /{a}{b}"},
		{"GET /%41"},
		{"GET /{a...}/b"},
		{"GET /{a}/{a}"},
		{"GET /{a}/{b}/{c}/{d}"},
	} {
		var routes []Route[string]
		for _, s := range bad {
			method, pattern, _ := strings.Cut(s, " ")
			routes = append(routes, Route[string]{Method: method, Pattern: pattern})
		}
		if _, err := New("", routes); err == nil {
			t.Errorf("routes %q were accepted", bad)
		}
	}
	if _, err := New("", []Route[string]{{Method: "GET", Pattern: "/a", Unprefixed: true}, {Method: "PUT", Pattern: "/a"}}); err == nil {
		t.Error("a pattern with an unprefixed and a prefixed route was accepted")
	}
}

// TestPrecedence: precedence does not depend on the table's order.
func TestPrecedence(t *testing.T) {
	patterns := []string{"/{a...}", "/{a}/{b}", "/{a}/w", "/w/{b}", "/w/w", "/w/{b...}"}
	want := map[string]string{"/w/w": "/w/w", "/w/x": "/w/{b}", "/x/w": "/{a}/w", "/x/y": "/{a}/{b}", "/w/x/y": "/w/{b...}",
		"/w/": "/w/{b...}", "/w": "/{a...}", "/": "/{a...}", "/x/": "/{a...}", "/x/y/z": "/{a...}"}
	for range len(patterns) {
		patterns = append(patterns[1:], patterns[0])
		var routes []Route[string]
		for _, p := range patterns {
			routes = append(routes, Route[string]{Method: "GET", Pattern: p})
		}
		rt := testenv.Must(New("", routes))(t)
		for path, pattern := range want {
			if m := rt.Match("GET", path); m.Pattern != pattern {
				t.Errorf("%s: %q, want %q", path, m.Pattern, pattern)
			}
		}
	}
}

func TestParamsUnknownName(t *testing.T) {
	m := newTestRouter(t, "").Match("GET", "/v1/blobs/0x1")
	defer func() {
		if recover() == nil {
			t.Error("no panic for a parameter that the pattern does not have")
		}
	}()
	m.Params.Get("blobName")
}

func TestMatchAllocates(t *testing.T) {
	rt := newTestRouter(t, "/sluice")
	if n := testing.AllocsPerRun(100, func() { rt.Match("GET", "/sluice/v1/blobs/0x1/folder/a.txt") }); n != 0 {
		t.Errorf("a match allocates %v times", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	rt := newTestRouter(b, "")
	for b.Loop() {
		rt.Match("GET", "/v1/blobs/0x1/folder/a.txt")
	}
}

// FuzzEscapedWords checks that a path matches the same route with its first letter escaped, for
// which the words of patterns are compared after decoding.
func FuzzEscapedWords(f *testing.F) {
	rt, err := New("", []Route[int]{
		{"GET", "/v1/info", false, 0}, {"GET", "/v1/sessions/{id}", false, 1}, {"POST", "/v1/sessions/{id}/use", false, 2},
		{"GET", "/v1/blobs/{account}", false, 3}, {"GET", "/v1/blobs/{account}/{name...}", false, 4}, {"GET", "/livez", false, 5},
		{"GET", "/{any}/words", false, 6},
	})
	testenv.OK(f, err)
	for _, path := range []string{"v1/info", "v1/inf", "v1/infox", "v1/info/", "v1/sessions/a", "v1/sessions/a/use", "v1/blobs/a", "v1/blobs/a/", "v1/blobs/a/b/c", "v1/blobs", "livez", "v1/words", "v"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if path == "" || strings.Contains(path, "%") || path[0] == '/' {
			return
		}
		plain := rt.Match("GET", "/"+path)
		escaped := rt.Match("GET", fmt.Sprintf("/%%%02X%s", path[0], path[1:]))
		if plain.Outcome != escaped.Outcome || plain.Pattern != escaped.Pattern || plain.Params.values != escaped.Params.values {
			t.Errorf("%q matches %v %s %q, and escaped %v %s %q", path, plain.Outcome, plain.Pattern, plain.Params.values, escaped.Outcome, escaped.Pattern, escaped.Params.values)
		}
	})
}
