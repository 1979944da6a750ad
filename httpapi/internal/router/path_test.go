package router

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// clientVectors is the part of the public client's recorded behavior that concerns paths.
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

// repeated is a text repeated count times, recorded as [text, count].
type repeated struct {
	text  string
	count int
}

func (r *repeated) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.text, &r.count})
}

func readClientVectors(t *testing.T) clientVectors {
	t.Helper()
	data := testenv.Must(os.ReadFile("../../../wire/testdata/client-http.json"))(t)
	var v clientVectors
	testenv.OK(t, json.Unmarshal(data, &v))
	return v
}

// requestURL parses a request target as the server does.
func requestURL(t *testing.T, target string) *url.URL {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil {
		t.Fatalf("target %.60q: %v", target, err)
	}
	return r.URL
}

// encodeName escapes a name in a path as the public client does.
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

// TestClientNames checks that every name arrives exactly as the client meant it.
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
			m := rt.Match(method, EscapedPath(requestURL(t, target)))
			if m.Outcome != Found || m.Params.Get("account") != "0x1" || m.Params.Get("blobName") != name {
				t.Errorf("%s: %s of %.40q has the outcome %d, %.40q", v.ID, method, name, m.Outcome, m.Params.values)
			}
		}
	}
	if sent < 35 {
		t.Errorf("only %d names were compared with the client's names", sent)
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
		m := rt.Match("GET", EscapedPath(requestURL(t, v.GetURL)))
		if m.Outcome != Found || m.Params.Get("account") != begin.RawAccount || m.Params.Get("blobName") != begin.RawBlobName {
			t.Errorf("%s: outcome %d, %q, want %q", id, m.Outcome, m.Params.values, begin)
		}
	}
}

func TestEscapedPath(t *testing.T) {
	for _, target := range []string{
		"/", "/a", "//a", "/a//b", "/a/../b", "/a%2Fb", "/a%2fb", "/%2e%2e/", "/é", "/\"%2F\"", "/a^b|c", "/a;b", "/%C3%A9", "/%ff",
		"/a#b", "/a+b", "//host/x", "/[x]",
	} {
		if got := EscapedPath(requestURL(t, target+"?q=/x")); got != target {
			t.Errorf("target %s: escaped path %s", target, got)
		}
	}
	if got := EscapedPath(requestURL(t, "http://host/a%2Fb")); got != "/a%2Fb" {
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
		for _, rt := range []*Router[string]{plain, based} {
			m := rt.Match("GET", path)
			if (m.Outcome == Found) != (m.Route != nil) || (m.Outcome == MalformedPath) != (m.Err != nil) ||
				(m.Outcome == UnknownPath) != (m.Pattern == "") {
				t.Errorf("%q: inconsistent %+v", path, m)
			}
			for _, s := range m.Params.segments {
				if s.kind != oneSegment {
					continue
				}
				if v := m.Params.Get(s.text); v == "" || strings.Contains(v, "/") {
					t.Errorf("%q: {%s} is %q", path, s.text, v)
				}
			}
		}
		with, without := based.Match("GET", "/sluice"+path), plain.Match("GET", path)
		if strings.HasPrefix(path, "/") && (with.Outcome != without.Outcome || with.Params.values != without.Params.values) {
			t.Errorf("%q: %+v with the base path, %+v without", path, with, without)
		}
		// Every name arrives, however it is escaped.
		for _, escaped := range []string{encodeName(name), url.PathEscape(name)} {
			m := plain.Match("PUT", "/v1/blobs/a/"+escaped)
			if m.Outcome != Found || m.Params.Get("blobName") != name {
				t.Errorf("%q as %q: outcome %d, %q", name, escaped, m.Outcome, m.Params.values)
			}
		}
	})
}
