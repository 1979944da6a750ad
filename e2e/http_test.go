package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// client sends requests unmodified: it follows no redirects and requests no compression.
var client = &http.Client{
	Transport: &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// response is a complete HTTP response.
type response struct {
	proto  string // HTTP/1.1 or HTTP/2.0
	status int
	header http.Header
	body   []byte
	length int64 // Content-Length, -1 if it was not sent
}

// headers are alternating header names and values.
type headers []string

// request returns a request. The client sends its target byte for byte. target is relative to the
// base path.
func (s *server) request(method, target string, body io.Reader, h headers) (*http.Request, error) {
	req, err := http.NewRequest(method, s.scheme+"://"+s.host, body)
	if err != nil {
		return nil, err
	}
	req.URL = &url.URL{Scheme: s.scheme, Host: s.host, Opaque: s.base + target}
	for i := 0; i < len(h); i += 2 {
		if h[i] == "Host" {
			req.Host = h[i+1]
			continue
		}
		req.Header.Add(h[i], h[i+1])
	}
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	return req, nil
}

// try sends a request and reads the complete response.
func (s *server) try(method, target string, body []byte, h ...string) (response, error) {
	var source io.Reader
	if body != nil {
		source = bytes.NewReader(body)
	}
	req, err := s.request(method, target, source, h)
	if err != nil {
		return response{}, err
	}
	return s.send(req)
}

func (s *server) send(req *http.Request) (response, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return response{}, err
	}
	return collect(resp)
}

// collect reads a response to its end. It returns an error if the response sets a cookie.
func collect(resp *http.Response) (response, error) {
	body, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if cookies := resp.Header["Set-Cookie"]; cookies != nil {
		err = errors.Join(err, fmt.Errorf("the response sets the cookies %q", cookies))
	}
	return response{resp.Proto, resp.StatusCode, resp.Header, body, resp.ContentLength}, err
}

// do is like try, but ends the test on an error.
func (s *server) do(method, target string, body []byte, h ...string) response {
	s.t.Helper()
	r, err := s.try(method, target, body, h...)
	if err != nil {
		s.t.Fatalf("%s %.200s: %v\n%s", method, target, err, tail(s.log.String()))
	}
	return r
}

// must is like do, but ends the test if the response has another status.
func (s *server) must(status int, method, target string, body []byte, h ...string) response {
	s.t.Helper()
	r := s.do(method, target, body, h...)
	if r.status != status {
		s.t.Fatalf("%s %.200s: %v, want %d", method, target, r, status)
	}
	return r
}

// raw sends text on a new connection and reads one response.
func (s *server) raw(method, text string) response {
	s.t.Helper()
	connection := s.dial()
	s.write(connection, text)
	return s.answer(connection, method)
}

// answer reads one response from a connection.
func (s *server) answer(connection net.Conn, method string) response {
	s.t.Helper()
	r, err := readAnswer(bufio.NewReader(connection), method)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// readAnswer reads one response to a request with the given method.
func readAnswer(r *bufio.Reader, method string) (response, error) {
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return response{}, err
	}
	return collect(resp)
}

// String formats a response for a failure message.
func (r response) String() string {
	return fmt.Sprintf("%d %v %.300q", r.status, r.header, r.body)
}

// decode reads a JSON body.
func (r response) decode(t testing.TB, into any) {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q, want application/json", got)
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
}

// object reads a JSON object.
func (r response) object(t testing.TB) map[string]any {
	t.Helper()
	var o map[string]any
	r.decode(t, &o)
	return o
}

// text returns a JSON object's member as text. It ends the test if there is none.
func text(t testing.TB, o map[string]any, member string) string {
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

// problem is an error's body.
type problem struct {
	Type      *string `json:"type"`
	Title     *string `json:"title"`
	Status    *int    `json:"status"`
	Detail    *string `json:"detail"`
	Error     *string `json:"error"`
	Code      *string `json:"code"`
	RequestID *string `json:"requestId"`
}

// checkProblem fails the test unless r is an error response with this status and, if code is not
// empty, this code. It returns the code.
func checkProblem(t testing.TB, r response, status int, code string) string {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d: %v", r.status, status, r)
		return ""
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q, want application/problem+json", got)
	}
	if got := r.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q, want no-store", got)
	}
	var p problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Errorf("body %.300q: %v", r.body, err)
		return ""
	}
	for member, value := range map[string]*string{"type": p.Type, "title": p.Title, "detail": p.Detail,
		"error": p.Error, "code": p.Code, "requestId": p.RequestID} {
		if value == nil || *value == "" {
			t.Errorf("member %q is missing or empty: %s", member, r.body)
			return ""
		}
	}
	if p.Status == nil || *p.Status != status {
		t.Errorf("member status is not %d: %s", status, r.body)
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
	if got := r.header.Get("X-Request-Id"); got != *p.RequestID {
		t.Errorf("X-Request-Id is %q, requestId %q", got, *p.RequestID)
	}
	return *p.Code
}

// escape encodes a blob name as the public client does: with encodeURIComponent, except slashes.
func escape(name string) string {
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

// escapeAll percent-encodes every byte in a name.
func escapeAll(name string) string {
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, "%%%02x", name[i])
	}
	return b.String()
}

// blobTarget returns a blob's path.
func blobTarget(account, name string) string {
	return "/v1/blobs/" + account + "/" + escape(name)
}

// listed is a page of blobs.
type listed struct {
	Blobs []struct {
		Name string `json:"name"`
		Size int64  `json:"size"`
		ETag string `json:"etag"`
	} `json:"blobs"`
	Prefixes []string `json:"prefixes"`
	Next     string   `json:"next"`
}

// names lists all of an account's blobs.
func (s *server) names(account string) []string {
	s.t.Helper()
	var all []string
	after := ""
	for {
		var page listed
		s.must(200, "GET", "/v1/blobs/"+account+"?limit=1000&after="+url.QueryEscape(after), nil).decode(s.t, &page)
		for _, b := range page.Blobs {
			all = append(all, b.Name)
		}
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// openUploads lists the ids of an account's open uploads.
func (s *server) openUploads(account string) []string {
	s.t.Helper()
	var page struct {
		Uploads []struct {
			UploadID string `json:"uploadId"`
		} `json:"uploads"`
	}
	s.must(200, "GET", "/v1/multipart-uploads?account="+account, nil).decode(s.t, &page)
	ids := make([]string, len(page.Uploads))
	for i, u := range page.Uploads {
		ids[i] = u.UploadID
	}
	return ids
}

// begin begins an upload and returns its id.
func (s *server) begin(account, name string, partSize int, more ...any) string {
	s.t.Helper()
	o := map[string]any{"rawAccount": account, "rawBlobName": name, "rawPartSize": partSize}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	r := s.must(200, "POST", "/v1/multipart-uploads", asJSON(s.t, o), "Content-Type", "application/json")
	id := text(s.t, r.object(s.t), "uploadId")
	if !idForm.MatchString(id) {
		s.t.Errorf("uploadId %q does not match %v", id, idForm)
	}
	return id
}

// idForm matches an id: 128 random bits take at least 22 of these characters.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{22,}$`)

// partTarget returns a part's path.
func partTarget(uploadID string, index int) string {
	return fmt.Sprintf("/v1/multipart-uploads/%s/parts/%d", uploadID, index)
}

// parts uploads data as an open upload's parts, in order.
func (s *server) parts(uploadID string, data []byte, partSize int) {
	s.t.Helper()
	for i := 0; i*partSize < len(data); i++ {
		end := min(len(data), (i+1)*partSize)
		s.must(200, "PUT", partTarget(uploadID, i), data[i*partSize:end])
	}
}

// upload stores data in parts and returns the response to complete.
func (s *server) upload(account, name string, data []byte, partSize int) response {
	s.t.Helper()
	id := s.begin(account, name, partSize)
	s.parts(id, data, partSize)
	return s.must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
}

// number parses a decimal number.
func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// asJSON encodes a value as JSON.
func asJSON(t testing.TB, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
