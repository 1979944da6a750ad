package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// Client sends requests unmodified: it follows no redirects and requests no compression.
var Client = &http.Client{
	Transport: &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Response is a complete HTTP response.
type Response struct {
	Proto  string // HTTP/1.1 or HTTP/2.0
	Status int
	Header http.Header
	Body   []byte
	Length int64 // Content-Length, -1 if it was not sent
}

// Headers are alternating header names and values.
type Headers []string

// Collect reads a response to its end. It returns an error if the response sets a cookie.
func Collect(resp *http.Response) (Response, error) {
	body, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if cookies := resp.Header["Set-Cookie"]; cookies != nil {
		err = errors.Join(err, fmt.Errorf("the response sets the cookies %q", cookies))
	}
	return Response{resp.Proto, resp.StatusCode, resp.Header, body, resp.ContentLength}, err
}

// ReadAnswer reads one response to a request with the given method.
func ReadAnswer(r *bufio.Reader, method string) (Response, error) {
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return Response{}, err
	}
	return Collect(resp)
}

// String formats a response for a failure message.
func (r Response) String() string {
	return fmt.Sprintf("%d %v %.300q", r.Status, r.Header, r.Body)
}

// Decode reads a JSON body.
func (r Response) Decode(t testing.TB, into any) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q, want application/json", got)
	}
	decoder := json.NewDecoder(bytes.NewReader(r.Body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
}

// Object reads a JSON object.
func (r Response) Object(t testing.TB) map[string]any {
	t.Helper()
	var o map[string]any
	r.Decode(t, &o)
	return o
}

// Text returns a JSON object's member as text. It ends the test if there is none.
func Text(t testing.TB, o map[string]any, member string) string {
	t.Helper()
	value, ok := o[member]
	if !ok {
		t.Fatalf("member %q is missing in %v", member, o)
	}
	return fmt.Sprint(value)
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// internals matches package names, system errors, addresses and file names, which belong only in
// the log.
var internals = regexp.MustCompile(`(?i)\b(localfs|sqlstore|metastore|bytestore|sqlite|httpapi|goroutine|errno)\b|read tcp|write tcp|127\.0\.0\.1:\d|/tmp/|\.go\b|%!`)

// Problem is an error's body.
type Problem struct {
	Type      *string `json:"type"`
	Title     *string `json:"title"`
	Status    *int    `json:"status"`
	Detail    *string `json:"detail"`
	Error     *string `json:"error"`
	Code      *string `json:"code"`
	RequestID *string `json:"requestId"`
}

// CheckProblem fails the test unless r is an error response with this status and, if code is not
// empty, this code. It returns the code.
func CheckProblem(t testing.TB, r Response, status int, code string) string {
	t.Helper()
	if r.Status != status {
		t.Errorf("status %d, want %d: %v", r.Status, status, r)
		return ""
	}
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q, want application/problem+json", got)
	}
	if got := r.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q, want no-store", got)
	}
	var p Problem
	if err := json.Unmarshal(r.Body, &p); err != nil {
		t.Errorf("body %.300q: %v", r.Body, err)
		return ""
	}
	for member, value := range map[string]*string{"type": p.Type, "title": p.Title, "detail": p.Detail,
		"error": p.Error, "code": p.Code, "requestId": p.RequestID} {
		if value == nil || *value == "" {
			t.Errorf("member %q is missing or empty: %s", member, r.Body)
			return ""
		}
	}
	if p.Status == nil || *p.Status != status {
		t.Errorf("member status is not %d: %s", status, r.Body)
	}
	if leak := internals.FindString(*p.Detail); leak != "" {
		t.Errorf("the detail reveals the internal %q: %s", leak, *p.Detail)
	}
	if *p.Error != *p.Detail {
		t.Errorf("error %q and detail %q differ", *p.Error, *p.Detail)
	}
	if !codeForm.MatchString(*p.Code) {
		t.Errorf("code %q is not snake_case", *p.Code)
	}
	if code != "" && *p.Code != code {
		t.Errorf("code %q, want %q", *p.Code, code)
	}
	if got := r.Header.Get("X-Request-Id"); got != *p.RequestID {
		t.Errorf("X-Request-Id is %q, requestId %q", got, *p.RequestID)
	}
	return *p.Code
}

// Escape encodes a blob name as the public client does: with encodeURIComponent, except slashes.
func Escape(name string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()/"
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(plain, name[i]) >= 0 {
			b.WriteByte(name[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", name[i])
		}
	}
	return b.String()
}

// EscapeAll percent-encodes every byte in a name.
func EscapeAll(name string) string {
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, "%%%02x", name[i])
	}
	return b.String()
}

// BlobTarget returns a blob's path.
func BlobTarget(account, name string) string {
	return "/v1/blobs/" + account + "/" + Escape(name)
}

// VersionTarget returns a version's path, or without an id the blob's.
func VersionTarget(account, version, name string) string {
	if version == "" {
		return BlobTarget(account, name)
	}
	return "/v1/versions/" + account + "/" + version + "/" + Escape(name)
}

// IDForm matches an id: 128 random bits take at least 22 of these characters.
var IDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{22,}$`)

// PartTarget returns a part's path.
func PartTarget(uploadID string, index int) string {
	return fmt.Sprintf("/v1/multipart-uploads/%s/parts/%d", uploadID, index)
}

// Number parses a decimal number.
func Number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	testenv.OK(t, err)
	return n
}

// AsJSON encodes a value as JSON.
func AsJSON(t testing.TB, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	testenv.OK(t, err)
	return encoded
}

// LargestMetadata returns as many and as large headers as a blob may have: as a request sends them,
// and as a response has them.
func LargestMetadata() (h Headers, want map[string]string) {
	want = map[string]string{
		"Content-Disposition": "attachment; filename=" + strings.Repeat("f", 1024-len("attachment; filename=")),
		"Content-Language":    strings.Repeat("de,", 85),
		// The server sends no directive that it does not know, so a known one has the padding.
		"Cache-Control": "public, max-age=600, no-transform=" + strings.Repeat("x", 255-len("public, max-age=600, no-transform=")),
	}
	for i := range 32 {
		name := fmt.Sprintf("Blob-Meta-Name-%02d", i)
		want[name] = strings.Repeat("v", 2048/32-len(name))
	}
	for name, value := range want {
		h = append(h, strings.ToLower(name), value)
	}
	return h, want
}

// MetadataIn returns a response's headers that can describe a blob.
func MetadataIn(r Response) map[string]string {
	m := map[string]string{}
	for name, values := range r.Header {
		switch name {
		case "Content-Disposition", "Content-Language", "Cache-Control":
			m[name] = strings.Join(values, "|")
		default:
			if strings.HasPrefix(name, "Blob-Meta-") {
				m[name] = strings.Join(values, "|")
			}
		}
	}
	return m
}

// Span is a range of bytes, both ends included.
type Span struct{ First, Last int64 }
