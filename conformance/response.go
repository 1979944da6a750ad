package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// response is a complete response. The methods that expect something end the case if it is not so,
// and return the response.
type response struct {
	fail   func(reason string) // ends the case
	label  string              // the request
	status int
	header http.Header
	body   string
	length int64 // Content-Length; -1: not stated
}

func (r *response) fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
}

// want expects a status.
func (r *response) want(status int) *response {
	if r.status != status {
		r.fatalf("status %d, want %d: %s", r.status, status, printable(r.body))
	}
	return r
}

// wantHeader expects a header with exactly this value.
func (r *response) wantHeader(name, value string) *response {
	if got := strings.Join(r.header.Values(name), ", "); got != value {
		r.fatalf("%s is %q, want %q", name, got, value)
	}
	return r
}

// wantMatch expects a header with a value that matches a regular expression as a whole.
func (r *response) wantMatch(name, expression string) *response {
	if got := strings.Join(r.header.Values(name), ", "); !regexp.MustCompile(`^(?:` + expression + `)$`).MatchString(got) {
		r.fatalf("%s is %q, which does not match %s", name, got, expression)
	}
	return r
}

// wantToken expects a header with a list that contains a value, in any case of letters.
func (r *response) wantToken(name, value string) *response {
	for _, token := range strings.Split(strings.Join(r.header.Values(name), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(token), value) {
			return r
		}
	}
	r.fatalf("%s is %q, which does not contain %q", name, r.header.Values(name), value)
	return r
}

// wantNo expects that headers are absent.
func (r *response) wantNo(names ...string) *response {
	for _, name := range names {
		if got := r.header.Values(name); got != nil {
			r.fatalf("%s is %q, and must be absent", name, got)
		}
	}
	return r
}

// wantBody expects exactly these bytes and, if the response states a length, that it is theirs.
func (r *response) wantBody(body string) *response {
	if r.body != body {
		r.fatalf("the body has %d bytes (%s), want %d bytes (%s)", len(r.body), printable(r.body), len(body), printable(body))
	}
	if r.length >= 0 && r.length != int64(len(body)) {
		r.fatalf("Content-Length is %d, and the body has %d bytes", r.length, len(body))
	}
	return r
}

// wantLength expects a Content-Length.
func (r *response) wantLength(n int) *response {
	return r.wantHeader("Content-Length", strconv.Itoa(n))
}

// json parses the body, which must be one JSON value with this type's members.
func (r *response) json(into any) *response {
	r.wantMatch("Content-Type", `application/json(;.*)?`)
	if err := r.parsed(into); err != nil {
		r.fatalf("the body is not the expected JSON: %v: %s", err, printable(r.body))
	}
	return r
}

// parsed parses the body as JSON.
func (r *response) parsed(into any) error { return json.Unmarshal([]byte(r.body), into) }

// members parses the body as a JSON object.
func (r *response) members() map[string]any {
	var o map[string]any
	r.json(&o)
	return o
}

// problem is the body of an error response.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	Error     string `json:"error"`
	RequestID string `json:"requestId"`
	Reason    string `json:"reason"`

	StoredMicropayment string `json:"storedMicropayment"`
	ChunksetPrice      string `json:"chunksetPrice"`
	Required           any    `json:"required"`
	Available          any    `json:"available"`
}

// problem parses the body of an error response. Of another body it is empty.
func (r *response) problem() problem {
	var p problem
	if r.parsed(&p) != nil {
		return problem{}
	}
	return p
}

// refused expects an error response with a status and a code, in the form of RFC 9457, that no
// cache may store.
func (r *response) refused(status int, code string) *response {
	r.want(status)
	p := r.problem()
	if p.Code != code {
		r.fatalf("the code is %q, want %q: %s", p.Code, code, printable(r.body))
	}
	r.wantHeader("Content-Type", "application/problem+json").wantHeader("Cache-Control", "no-store")
	if p.Type != "urn:sluice:error:"+code || p.Title == "" || p.Status != status || p.Detail == "" || p.Error != p.Detail {
		r.fatalf("the error's body is not as documented: %s", printable(r.body))
	}
	return r.wantHeader("X-Request-Id", p.RequestID)
}

// refusedBecause is like refused, and expects a reason in the body.
func (r *response) refusedBecause(status int, code, reason string) *response {
	if p := r.refused(status, code).problem(); p.Reason != reason {
		r.fatalf("the reason is %q, want %q", p.Reason, reason)
	}
	return r
}

// printable returns the beginning of a body for a message.
func printable(body string) string { return fmt.Sprintf("%.200q", body) }

// quoted returns a text as a JSON string.
func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a form in JSON
	}
	return string(encoded)
}
