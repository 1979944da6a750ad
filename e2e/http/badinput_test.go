package http

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// bad is a request that the server must refuse. It must not change anything. In target and body,
// the test replaces ACCOUNT with a fresh account, and UPLOAD with the id of that account's open
// upload. The upload has parts of 1,000 bytes.
type bad struct {
	name    string
	method  string
	target  string
	body    string
	headers e2e.Headers
	status  int
	code    string // any code if empty
}

const (
	putTarget   = "/v1/blobs/ACCOUNT/name"
	partsTarget = "/v1/multipart-uploads/UPLOAD/parts/"
)

func beginBody(name string) string {
	return `{"rawAccount":"ACCOUNT","rawBlobName":"` + name + `"}`
}

func badAccounts() []bad {
	var all []bad
	for _, account := range []string{"0x", "0xzz", "0X1g", "0x" + strings.Repeat("1", 65), strings.Repeat("1", 65), "UPPER", "-a", ".a",
		"a%20b", "%C3%A9", "a%00", "%FF"} {
		all = append(all,
			bad{"PUT account " + account, "PUT", "/v1/blobs/" + account + "/name", "x", nil, 400, "bad_account"},
			bad{"GET account " + account, "GET", "/v1/blobs/" + account + "/name", "", nil, 400, "bad_account"},
			bad{"list account " + account, "GET", "/v1/blobs/" + account, "", nil, 400, "bad_account"})
	}
	for _, account := range []string{"", "0x", "0xzz", "UPPER", "a/b", "0x" + strings.Repeat("1", 65)} {
		all = append(all, bad{"begin account " + account, "POST", "/v1/multipart-uploads",
			`{"rawAccount":"` + account + `","rawBlobName":"name"}`, nil, 400, "bad_account"})
	}
	// A slash, however it is encoded, does not belong to an account.
	all = append(all, bad{"PUT account a%2Fb", "PUT", "/v1/blobs/a%2Fb/name", "x", nil, 400, ""},
		bad{"list account a%2Fb", "GET", "/v1/blobs/a%2Fb", "", nil, 400, ""})
	return append(all, bad{"list uploads of a bad account", "GET", "/v1/multipart-uploads?account=0xzz", "", nil, 400, "bad_account"})
}

func badNames() []bad {
	var all []bad
	for _, name := range []string{"", "a/", "/", "a%2F", strings.Repeat("x", 1025), strings.Repeat("%C3%A9", 1025),
		strings.Repeat("%F0%9F%98%80", 513), "a%00", "a%0Ab", "a%09b", "a%1F", "a%7Fb", "%FF", "a%C0%AFb", "%ED%A0%80", "%F4%90%80%80"} {
		all = append(all,
			bad{fmt.Sprintf("PUT name %.20q", name), "PUT", "/v1/blobs/ACCOUNT/" + name, "x", nil, 400, "bad_name"},
			bad{fmt.Sprintf("GET name %.20q", name), "GET", "/v1/blobs/ACCOUNT/" + name, "", nil, 400, "bad_name"},
			bad{fmt.Sprintf("DELETE name %.20q", name), "DELETE", "/v1/blobs/ACCOUNT/" + name, "", nil, 400, "bad_name"})
	}
	for _, name := range []string{"", "a/", "/", strings.Repeat("x", 1025), strings.Repeat("é", 1025), strings.Repeat("😀", 513),
		`a\u0000`, `a\nb`, `a\tb`, `\u007f`} {
		all = append(all, bad{fmt.Sprintf("begin name %.20q", name), "POST", "/v1/multipart-uploads", beginBody(name), nil, 400, "bad_name"})
	}
	for _, name := range []string{`\ud800x`, `x\udc00`, `\udc00\ud800`, "\xff", "a\xc0\xafb"} {
		all = append(all, bad{fmt.Sprintf("begin with invalid text %.20q", name), "POST", "/v1/multipart-uploads", beginBody(name), nil, 400, "bad_json"})
	}
	return all
}

func badPuts() []bad {
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	digests := []bad{
		{"PUT with a wrong digest", "PUT", putTarget, "x", e2e.Headers{"Content-Digest", e2e.WrongDigest()}, 400, "digest_mismatch"},
		{"PUT with a wrong representation digest", "PUT", putTarget, "x", e2e.Headers{"Repr-Digest", e2e.WrongDigest()}, 400, "digest_mismatch"},
		{"large PUT with a wrong digest", "PUT", putTarget, strings.Repeat("x", 3<<20), e2e.Headers{"Content-Digest", e2e.WrongDigest()}, 400, "digest_mismatch"},
		{"part with a wrong digest", "PUT", partsTarget + "0", "x", e2e.Headers{"Content-Digest", e2e.WrongDigest()}, 400, "digest_mismatch"},
		{"PUT with a malformed digest", "PUT", putTarget, "x", e2e.Headers{"Content-Digest", "sha-256=:AAAA:"}, 400, ""},
	}
	return append(digests,
		bad{"PUT of a range", "PUT", putTarget, "x", e2e.Headers{"Content-Range", "bytes 0-0/1"}, 400, ""},
		bad{"PUT gzipped", "PUT", putTarget, "x", e2e.Headers{"Content-Encoding", "gzip"}, 415, "content_encoding"},
		bad{"PUT with an unsupported encoding", "PUT", putTarget, "x", e2e.Headers{"Content-Encoding", "identity, br"}, 415, "content_encoding"},
		bad{"part gzipped", "PUT", partsTarget + "0", "x", e2e.Headers{"Content-Encoding", "gzip"}, 415, "content_encoding"},
		bad{"PUT with an expiry in the past", "PUT", putTarget, "x", e2e.Headers{"Blob-Expires", past}, 400, ""},
		bad{"PUT with an invalid expiry", "PUT", putTarget, "x", e2e.Headers{"Blob-Expires", "tomorrow"}, 400, ""},
		bad{"PUT with If-Match: * of a missing blob", "PUT", putTarget, "x", e2e.Headers{"If-Match", "*"}, 412, "precondition_failed"},
		bad{"PUT with If-Match of a missing blob", "PUT", putTarget, "x", e2e.Headers{"If-Match", `"no"`}, 412, "precondition_failed"},
	)
}

func badParts() []bad {
	var all []bad
	for _, index := range []string{"-1", "abc", "1.5", "+1", "0x1", "100000", "2147483648", "99999999999999999999", "%20", "1e2"} {
		all = append(all, bad{"part index " + index, "PUT", partsTarget + index, "x", nil, 400, "part_index"})
	}
	return append(all,
		bad{"too long part", "PUT", partsTarget + "0", strings.Repeat("x", 1001), nil, 400, "part_size"},
		bad{"empty part", "PUT", partsTarget + "0", "", nil, 400, "part_size"},
		bad{"complete with a wrong total", "POST", "/v1/multipart-uploads/UPLOAD/complete", `{"totalBytes":5}`, nil, 400, "total_mismatch"},
		bad{"complete with a negative total", "POST", "/v1/multipart-uploads/UPLOAD/complete", `{"totalBytes":-1}`, nil, 400, ""},
		bad{"complete with a wrong ETag", "POST", "/v1/multipart-uploads/UPLOAD/complete", `{"etag":"\"no\""}`, nil, 400, ""},
		bad{"complete with malformed JSON", "POST", "/v1/multipart-uploads/UPLOAD/complete", `{`, nil, 400, "bad_json"},
	)
}

func badJSON() []bad {
	var all []bad
	for _, path := range []string{"/v1/multipart-uploads", "/v1/sessions", "/v1/sessions/micropaymentchannels"} {
		for _, body := range []string{`{`, `[]`, `"x"`, `nul`, `null`, `5`, `{} {}`, `{}x`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, "{\"a\":\"\xff\"}",
			`{"a":"\ud800"}`, `{'a':1}`, `{"a":01}`, `{"a":1,}`} {
			all = append(all, bad{fmt.Sprintf("%s body %.20q", path, body), "POST", path, body, nil, 400, "bad_json"})
		}
		all = append(all, bad{path + " huge body", "POST", path, `{"a":"` + strings.Repeat("x", 64<<10) + `"}`, nil, 413, "too_large"})
	}
	for _, body := range []string{`{}`, ``, `{"rawAccount":"ACCOUNT"}`, `{"rawBlobName":"name"}`, `{"rawAccount":5,"rawBlobName":"name"}`,
		`{"rawAccount":"ACCOUNT","rawBlobName":["name"]}`, `{"rawAccount":null,"rawBlobName":"name"}`} {
		all = append(all, bad{"begin " + body, "POST", "/v1/multipart-uploads", body, nil, 400, ""})
	}
	for _, size := range []string{"0", "-1", "1.5", `"5"`, "1073741825", "1e30", "99999999999999999999", "true"} {
		all = append(all, bad{"begin part size " + size, "POST", "/v1/multipart-uploads",
			`{"rawAccount":"ACCOUNT","rawBlobName":"name","rawPartSize":` + size + `}`, nil, 400, ""})
	}
	for _, more := range []string{`"expires":"tomorrow"`, `"expires":"2001-01-01T00:00:00Z"`, `"ifNoneMatch":"x"`, `"contentType":5`, `"contentType":"a\nb"`} {
		all = append(all, bad{"begin " + more, "POST", "/v1/multipart-uploads",
			`{"rawAccount":"ACCOUNT","rawBlobName":"name",` + more + `}`, nil, 400, ""})
	}
	return all
}

func badSessions() []bad {
	all := []bad{
		{"session by a malformed micropayment", "POST", "/v1/sessions", `{"micropaymentUpdate":"AAAA"}`, nil, 400, "micropayment_malformed"},
		{"session by a micropayment of another type", "POST", "/v1/sessions", `{"micropaymentUpdate":5}`, nil, 400, ""},
		{"session refill without a micropayment", "POST", "/v1/sessions", `{"sessionId":"x"}`, nil, 400, "bad_parameter"},
		{"session refill of another type", "POST", "/v1/sessions", `{"sessionId":5}`, nil, 400, ""},
		{"session identity of another type", "POST", "/v1/sessions", `{"userIdentity":5}`, nil, 400, ""},
		{"idempotency key too long", "POST", "/v1/sessions", `{}`, e2e.Headers{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "bad_header"},
		{"idempotency key with a space", "POST", "/v1/sessions", `{}`, e2e.Headers{"Idempotency-Key", "a b"}, 400, "bad_header"},
		{"idempotency key empty", "POST", "/v1/sessions", `{}`, e2e.Headers{"Idempotency-Key", ""}, 400, "bad_header"},
	}
	channel := func(member string) bad {
		return bad{"channel with " + member, "POST", "/v1/sessions/micropaymentchannels", "{" + member + "}", nil, 400, ""}
	}
	for _, member := range []string{`"deposit":"-1"`, `"deposit":"x"`, `"deposit":1.5`, `"deposit":true`, `"asset":"0xzz"`, `"userIdentity":"0xzz"`,
		`"expires":"tomorrow"`, `"expires":"2001-01-01T00:00:00Z"`, `"paymentChannelId":"-1"`, `"paymentChannelId":9007199254740992`} {
		all = append(all, channel(member))
	}
	for _, member := range []string{`"deposit":"9223372036854775808"`, `"paymentChannelId":"9223372036854775808"`,
		`"deposit":"18446744073709551615"`} {
		huge := channel(member)
		huge.code = "number_too_large"
		all = append(all, huge)
	}
	return all
}

func badQueries() []bad {
	var all []bad
	for _, limit := range []string{"0", "-1", "abc", "1.5", ""} {
		all = append(all,
			bad{"list limit " + limit, "GET", "/v1/blobs/ACCOUNT?limit=" + limit, "", nil, 400, "bad_parameter"},
			bad{"accounts limit " + limit, "GET", "/v1/accounts?limit=" + limit, "", nil, 400, "bad_parameter"},
			bad{"uploads limit " + limit, "GET", "/v1/multipart-uploads?account=ACCOUNT&limit=" + limit, "", nil, 400, "bad_parameter"},
			bad{"status limit " + limit, "GET", "/v1/multipart-uploads/UPLOAD?limit=" + limit, "", nil, 400, "bad_parameter"})
	}
	return append(all, bad{"uploads without an account", "GET", "/v1/multipart-uploads", "", nil, 400, ""})
}

// TestBadInput sends requests that the server must refuse, and checks that it stored nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	number := 0
	for _, group := range [][]bad{badAccounts(), badNames(), badPuts(), badParts(), badJSON(), badSessions(), badQueries()} {
		for _, test := range group {
			number++
			account := fmt.Sprintf("account-%d", number)
			t.Run(test.name, func(t *testing.T) {
				at := *s
				at.T = t
				checkRefused(&at, test, account)
			})
		}
	}
}

// TestBadCompletes checks that an upload stays open and unchanged if a complete does not match its
// parts.
func TestBadCompletes(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	tests := []struct {
		name  string
		parts map[int]int // sizes by index
	}{
		{"a gap", map[int]int{0: 1000, 2: 1000}},
		{"the first part is missing", map[int]int{1: 1000}},
		{"a short part in the middle", map[int]int{0: 1000, 1: 999, 2: 1000}},
		{"a part with a high index", map[int]int{0: 1000, 99_999: 1}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			at := *s
			at.T = t
			account := fmt.Sprintf("account-%d", i)
			id := at.Begin(account, "name", 1000)
			total := 0
			for index, size := range test.parts {
				at.Must(200, "PUT", e2e.PartTarget(id, index), e2e.Content(uint64(index), size))
				total += size
			}
			before := at.Must(200, "GET", "/v1/multipart-uploads/"+id, nil)
			for _, body := range []string{"", "{}", fmt.Sprintf(`{"totalBytes":%d}`, total)} {
				e2e.CheckProblem(t, at.Do("POST", "/v1/multipart-uploads/"+id+"/complete", []byte(body)), 400, "")
			}
			after := at.Must(200, "GET", "/v1/multipart-uploads/"+id, nil)
			if string(before.Body) != string(after.Body) {
				t.Errorf("the upload changed from %s to %s", before.Body, after.Body)
			}
			if names := at.Names(account); len(names) != 0 {
				t.Errorf("the account has the blobs %q", names)
			}
		})
	}
}

// TestBodyShorterThanDeclared ends bodies too early and checks that the server stores nothing.
func TestBodyShorterThanDeclared(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	id := s.Begin("0x1", "upload", 1<<20)
	for _, size := range []int{0, 10, 100_000} {
		for _, target := range []string{e2e.BlobTarget("0x1", "name"), e2e.PartTarget(id, 0)} {
			connection := s.Dial()
			s.Write(connection, "PUT "+target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", size))
			testenv.OK(t, connection.CloseWrite())
			e2e.CheckProblem(t, s.Answer(connection, "PUT"), 400, "incomplete_body")
		}
	}
	// A chunked body without its last chunk is incomplete too.
	connection := s.Dial()
	s.Write(connection, "PUT "+e2e.BlobTarget("0x1", "name")+" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	testenv.OK(t, connection.CloseWrite())
	e2e.CheckProblem(t, s.Answer(connection, "PUT"), 400, "incomplete_body")
	if names := s.Names("0x1"); len(names) != 0 {
		t.Errorf("the account has the blobs %q", names)
	}
	if state := s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t); e2e.Text(t, state, "bytes") != "0" {
		t.Errorf("the upload now has parts: %v", state)
	}
}

// TestBytesAfterTheBody checks that the server parses bytes after the declared body as the next
// request.
func TestBytesAfterTheBody(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	connection := s.Dial()
	s.Write(connection, "PUT "+e2e.BlobTarget("0x1", "name")+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello, and more\r\n\r\n")
	reader := bufio.NewReader(connection)
	if first, err := e2e.ReadAnswer(reader, "PUT"); err != nil || first.Status != 204 {
		t.Errorf("first response: %v, %v, want 204", first, err)
	}
	if second, err := e2e.ReadAnswer(reader, "GET"); err != nil || second.Status != 400 {
		t.Errorf("second response: %v, %v, want 400", second, err)
	}
	if rest, err := io.ReadAll(reader); err != nil || len(rest) != 0 {
		t.Errorf("the connection continued with %q, %v, want EOF", rest, err)
	}
	if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "name"), nil); string(r.Body) != "hello" {
		t.Errorf("the blob is %q", r.Body)
	}
}

// TestHostileRequests sends malformed and contradictory requests.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	upload := s.Begin("0x1", "upload", 1000)
	tests := []struct {
		name    string
		request string
		status  int
	}{
		{"malformed escape", "GET /v1/blobs/0x1/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
		{"two lengths", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		{"negative length", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400},
		{"no host", "GET /v1/info HTTP/1.1\r\n\r\n", 400},
		{"headers of 40 KiB", "GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Pad: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", 431},
		{"length above 5 TiB", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5497558138881\r\n\r\n", 413},
		{"part declared too long", "PUT " + e2e.PartTarget(upload, 0) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000000\r\n\r\n", 400},
		{"too long chunked part", "PUT " + e2e.PartTarget(upload, 0) + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
			strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 400},
		{"chunked part empty", "PUT " + e2e.PartTarget(upload, 0) + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"malformed chunk", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		{"JSON declared huge", "POST /v1/multipart-uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n", 413},
		{"PUT refused before its body", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nIf-Match: \"x\"\r\n\r\n", 412},
		{"PUT with Expect: 100-continue", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nIf-Match: \"x\"\r\nExpect: 100-continue\r\n\r\n", 412},
		{"JSON nested deeply", fmt.Sprintf("POST /v1/multipart-uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 5+60_000, `{"a":`+strings.Repeat("[", 60_000)), 400},
		{"no host in HTTP/1.0", "GET /v1/info HTTP/1.0\r\n\r\n", 421},
		{"tunnel", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		{"not HTTP", "HELO there\r\n\r\n", 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			at := *s
			at.T = t
			if r := at.Raw(strings.Fields(test.request)[0], test.request); r.Status != test.status {
				t.Errorf("%v, want %d", r, test.status)
			} else if r.Header.Get("Content-Type") == "application/problem+json" {
				e2e.CheckProblem(t, r, test.status, "")
			}
		})
	}
	if names := s.Names("0x1"); len(names) != 0 {
		t.Errorf("the account has the blobs %q", names)
	}
}

// TestLateRefusals checks bodies that prove wrong only after the server has stored much of them. It
// must refuse them as cleanly as requests with wrong headers.
func TestLateRefusals(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	id := s.Begin("0x1", "upload", 5<<20)
	long, whole := e2e.Content(1, 6<<20), e2e.Content(1, 5<<20)
	tests := []struct {
		name    string
		target  string
		body    []byte
		chunked bool
		headers e2e.Headers
		code    string
	}{
		{"too long part", e2e.PartTarget(id, 0), long, false, nil, "part_size"},
		{"too long chunked part", e2e.PartTarget(id, 0), long, true, nil, "part_size"},
		{"part with a wrong digest", e2e.PartTarget(id, 0), whole, false, e2e.Headers{"Content-Digest", e2e.WrongDigest()}, "digest_mismatch"},
		{"chunked part with a wrong digest", e2e.PartTarget(id, 0), whole, true, e2e.Headers{"Content-Digest", e2e.WrongDigest()}, "digest_mismatch"},
		{"PUT with a wrong digest", e2e.BlobTarget("0x1", "name"), long, false, e2e.Headers{"Content-Digest", e2e.WrongDigest()}, "digest_mismatch"},
		{"chunked PUT with a wrong digest", e2e.BlobTarget("0x1", "name"), long, true, e2e.Headers{"Repr-Digest", e2e.WrongDigest()}, "digest_mismatch"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req, err := s.Request("PUT", test.target, bytes.NewReader(test.body), test.headers)
			testenv.OK(t, err)
			if test.chunked {
				req.ContentLength = -1
			}
			r, err := s.Send(req)
			testenv.OK(t, err)
			e2e.CheckProblem(t, r, 400, test.code)
		})
	}
	if names := s.Names("0x1"); len(names) != 0 {
		t.Errorf("the account has the blobs %q", names)
	}
	if state := s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t); e2e.Text(t, state, "bytes") != "0" {
		t.Errorf("the upload now has parts: %v", state)
	}
	s.Eventually("refused bodies left files", func() bool { return diskUse(s) < 5<<20 })
}

// TestSmallBodies checks that the server accepts chunked and empty bodies.
func TestSmallBodies(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	r := s.Raw("PUT", "PUT "+e2e.BlobTarget("0x1", "chunked")+" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
	if r.Status != 204 {
		t.Errorf("chunked: %v", r)
	}
	if got := s.Must(200, "GET", e2e.BlobTarget("0x1", "chunked"), nil); string(got.Body) != "hello world" {
		t.Errorf("chunked: the blob is %q", got.Body)
	}
	if r := s.Raw("PUT", "PUT "+e2e.BlobTarget("0x1", "empty")+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); r.Status != 204 {
		t.Errorf("empty: %v", r)
	}
	if got := s.Must(200, "GET", e2e.BlobTarget("0x1", "empty"), nil); len(got.Body) != 0 || got.Length != 0 {
		t.Errorf("empty: %v", got)
	}
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "identity"), []byte("x"), "Content-Encoding", "identity")
	sum := sha256.Sum256([]byte("digested"))
	field := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "digested"), []byte("digested"), "Content-Digest", field, "Repr-Digest", field)
	if got := s.Must(200, "GET", e2e.BlobTarget("0x1", "digested"), nil); got.Header.Get("Repr-Digest") != field {
		t.Errorf("Repr-Digest %q, want %q", got.Header.Get("Repr-Digest"), field)
	}
}

// TestContentLengthWithChunks sends a request with both a Content-Length and chunks. The chunks
// count, and the server closes the connection after its response: a proxy that used the length may
// take the next bytes for the body's end.
func TestContentLengthWithChunks(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	const smuggled = "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, request := range []string{
		"PUT " + e2e.BlobTarget("0x1", "both") + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\n",
	} {
		connection := s.Dial()
		s.Write(connection, request+smuggled)
		answers := bufio.NewReader(connection)
		method, _, _ := strings.Cut(request, " ")
		first, err := e2e.ReadAnswer(answers, method)
		if err != nil || first.Status >= 300 {
			t.Errorf("response to %q: %v, %v", request, first, err)
		}
		if second, err := e2e.ReadAnswer(answers, "GET"); err == nil {
			t.Errorf("the bytes after %q got the response %v", request, second)
		}
	}
	if got := s.Must(200, "GET", e2e.BlobTarget("0x1", "both"), nil); string(got.Body) != "hello" {
		t.Errorf("the blob is %q", got.Body)
	}
}

// TestNoResponseIsSniffed checks that every response, also of errors and preflights, forbids
// content sniffing.
func TestNoResponseIsSniffed(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("<script>"))
	for _, request := range [][2]string{
		{"GET", "/v1/info"}, {"GET", "/livez"}, {"GET", "/openapi.yaml"}, {"POST", "/v1/sessions"}, {"GET", "/v1/blobs/0x1"},
		{"GET", e2e.BlobTarget("0x1", "name")}, {"GET", e2e.BlobTarget("0x1", "<script>")}, {"OPTIONS", "/v1/info"}, {"PATCH", "/v1/info"}, {"GET", "/nothing"},
	} {
		if r := s.Do(request[0], request[1], nil); r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %v", request[0], request[1], r)
		}
	}
}

// TestBodyTooSlow sends a body too slowly. The server must refuse it after the time that the
// minimum rate allows, and close the connection.
func TestBodyTooSlow(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	connection := s.Dial()
	s.Write(connection, "PUT "+e2e.BlobTarget("0x1", "name")+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
	answered := make(chan struct{})
	var trickle sync.WaitGroup
	trickle.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-answered:
				return
			case <-tick.C:
				if _, err := connection.Write([]byte("x")); err != nil {
					return // closed after the response
				}
			}
		}
	})
	reader := bufio.NewReader(connection)
	r, err := e2e.ReadAnswer(reader, "PUT")
	close(answered)
	trickle.Wait()
	testenv.OK(t, err)
	e2e.CheckProblem(t, r, 408, "body_too_slow")
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection stays open: %v", err)
	}
	if names := s.Names("0x1"); len(names) != 0 {
		t.Errorf("the account has the blobs %q", names)
	}
}

// checkRefused sends a request that the server must refuse.
func checkRefused(s *e2e.Server, test bad, account string) {
	s.T.Helper()
	// The account has one blob and one upload, which must not change.
	s.Must(204, "PUT", e2e.BlobTarget(account, "kept"), []byte("kept"))
	upload := s.Begin(account, "kept upload", 1000)
	fill := strings.NewReplacer("ACCOUNT", account, "UPLOAD", upload)
	var body []byte
	if test.method != "GET" && test.method != "DELETE" {
		body = []byte(fill.Replace(test.body))
	}
	r := s.Do(test.method, fill.Replace(test.target), body, test.headers...)
	e2e.CheckProblem(s.T, r, test.status, test.code)

	if names := s.Names(account); len(names) != 1 || names[0] != "kept" {
		s.T.Errorf("the account now has the blobs %q", names)
	}
	if uploads := s.OpenUploads(account); len(uploads) != 1 || uploads[0] != upload {
		s.T.Errorf("the account now has the uploads %q", uploads)
	}
	if state := s.Must(200, "GET", "/v1/multipart-uploads/"+upload, nil).Object(s.T); e2e.Text(s.T, state, "bytes") != "0" {
		s.T.Errorf("the upload now has parts: %v", state)
	}
}
