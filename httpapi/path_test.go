package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

// clientVectors is the part of the recorded behaviour of the public client
// that concerns paths.
type clientVectors struct {
	Names []struct {
		ID           string    `json:"id"`
		Name         string    `json:"name"`
		Repeat       *repeated `json:"name_repeat"`
		Target       string    `json:"get_request_target"`
		TargetLength int       `json:"get_request_target_length"`
		Naive        *bool     `json:"path_equals_naive_encoding"`
	} `json:"names"`
	Accounts map[string]struct {
		GetURL    string `json:"getUrl"`
		StartBody string `json:"startBody"`
	} `json:"accounts"`
}

// repeated is a name of one text many times, recorded as [text, count].
type repeated struct {
	text  string
	count int
}

func (r *repeated) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.text, &r.count})
}

func readClientVectors(t *testing.T) clientVectors {
	t.Helper()
	data, err := os.ReadFile("testdata/client-http.json")
	if err != nil {
		t.Fatal(err)
	}
	var v clientVectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// requestURL reads a request target as the server reads it off the wire.
func requestURL(t *testing.T, target string) *url.URL {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil {
		t.Fatalf("target %.60q: %v", target, err)
	}
	return r.URL
}

// encodeName spells a name in a path as the public client does.
func encodeName(name string) string {
	const plain = "-_.!~*'()/"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Every name reaches the handler exactly as the client meant it.
func TestClientNames(t *testing.T) {
	rt := newTestRouter(t, "")
	sent := 0
	for _, v := range readClientVectors(t).Names {
		name := v.Name
		if v.Repeat != nil {
			name = strings.Repeat(v.Repeat.text, v.Repeat.count)
		}
		target := "/v1/blobs/0x1/" + encodeName(name)
		if v.Naive != nil && *v.Naive {
			if v.Target != "" && v.Target != target {
				t.Errorf("%s: the client sends %q, this test %q", v.ID, v.Target, target)
			}
			if len(target) != v.TargetLength {
				t.Errorf("%s: the client sends %d characters, this test %d", v.ID, v.TargetLength, len(target))
			}
			sent++
		}
		for _, method := range []string{"GET", "PUT"} {
			m := rt.match(method, escapedPath(requestURL(t, target)))
			if m.outcome != routeFound || m.params.get("account") != "0x1" || m.params.get("blobName") != name {
				t.Errorf("%s: %s of %.40q gives outcome %d, %.40q", v.ID, method, name, m.outcome, m.params.values)
			}
		}
	}
	if sent < 35 {
		t.Errorf("only %d names were compared with what the client sent", sent)
	}
}

func TestClientAccounts(t *testing.T) {
	rt := newTestRouter(t, "")
	accounts := readClientVectors(t).Accounts
	if len(accounts) == 0 {
		t.Fatal("no accounts recorded")
	}
	for id, v := range accounts {
		var begin struct{ RawAccount, RawBlobName string }
		if err := json.Unmarshal([]byte(v.StartBody), &begin); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		m := rt.match("GET", escapedPath(requestURL(t, v.GetURL)))
		if m.outcome != routeFound || m.params.get("account") != begin.RawAccount || m.params.get("blobName") != begin.RawBlobName {
			t.Errorf("%s: outcome %d, %q, want %q", id, m.outcome, m.params.values, begin)
		}
	}
}

func TestEscapedPath(t *testing.T) {
	for _, target := range []string{
		"/", "/a", "//a", "/a//b", "/a/../b", "/a%2Fb", "/a%2fb", "/%2e%2e/", "/é", "/\"%2F\"", "/a^b|c", "/a;b", "/%C3%A9", "/%ff",
		"/a#b", "/a+b", "//host/x", "/[x]",
	} {
		if got := escapedPath(requestURL(t, target+"?q=/x")); got != target {
			t.Errorf("target %s: escaped path %s", target, got)
		}
	}
	if got := escapedPath(requestURL(t, "http://host/a%2Fb")); got != "/a%2Fb" {
		t.Errorf("absolute form: escaped path %s", got)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/v1/blobs/0x1/a", "/v1/blobs/a%2Fb/c", "/v1/sessions/%zz", "//", "/sluice/v1/info", "/v1/blobs/0x1/%", "*", ""} {
		f.Add(s, "a/../b%2F?")
	}
	f.Add("/v1/multipart-uploads/u/parts/0", "\xff\x00//")
	plain, based := newTestRouter(f, ""), newTestRouter(f, "/sluice")
	f.Fuzz(func(t *testing.T, path, name string) {
		for _, rt := range []*router{plain, based} {
			m := rt.match("GET", path)
			if (m.outcome == routeFound) != (m.route != nil) || (m.outcome == malformedPath) != (m.err != nil) ||
				(m.outcome == unknownPath) != (m.pattern == "") {
				t.Errorf("%q: inconsistent %+v", path, m)
			}
			for _, s := range m.params.segments {
				if s.kind != oneSegment {
					continue
				}
				if v := m.params.get(s.text); v == "" || strings.Contains(v, "/") {
					t.Errorf("%q: {%s} is %q", path, s.text, v)
				}
			}
		}
		with, without := based.match("GET", "/sluice"+path), plain.match("GET", path)
		if strings.HasPrefix(path, "/") && (with.outcome != without.outcome || with.params.values != without.params.values) {
			t.Errorf("%q: %+v with the base path, %+v without", path, with, without)
		}
		// Whatever the name, and however it is escaped, it arrives.
		for _, escaped := range []string{encodeName(name), url.PathEscape(name)} {
			m := plain.match("PUT", "/v1/blobs/a/"+escaped)
			if m.outcome != routeFound || m.params.get("blobName") != name {
				t.Errorf("%q as %q: outcome %d, %q", name, escaped, m.outcome, m.params.values)
			}
		}
	})
}
