package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goclient "sluice/client"
	"sluice/internal/testenv"
)

const faultHeader = "Sluice-Fault"

// unanswered sends a request on a new connection and returns what the server sends until the
// connection ends.
func (s *server) unanswered(text string) string {
	s.t.Helper()
	connection := s.dial()
	s.write(connection, text)
	got, err := io.ReadAll(connection)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(got)
}

// setFaults replaces the rules of faults.
func (s *server) setFaults(rules ...string) {
	s.t.Helper()
	type rule struct {
		Rule string `json:"rule"`
	}
	list := []rule{}
	for _, text := range rules {
		list = append(list, rule{text})
	}
	s.must(200, "PUT", "/v1/local/faults", asJSON(s.t, map[string]any{"faults": list}))
}

// faultCounts are a server's rules and how often it has used each.
type faultCounts struct {
	Seed  int
	Rules []struct {
		Rule               string
		Requests, Injected int
	} `json:"faults"`
}

func (s *server) faults() (counts faultCounts) {
	s.t.Helper()
	s.must(200, "GET", "/v1/local/faults", nil).decode(s.t, &counts)
	return counts
}

func (s *server) wantCode(status int, code, method, target string, body []byte, h ...string) response {
	s.t.Helper()
	r := s.must(status, method, target, body, h...)
	if !strings.Contains(string(r.body), `"code":"`+code+`"`) {
		s.t.Errorf("%s %s: %v, want code %s", method, target, r, code)
	}
	return r
}

// TestFaultsOfOneRequest makes each kind of fault happen to a request that names it, and checks
// that nothing but the response differs.
func TestFaultsOfOneRequest(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true})
	content := bytes.Repeat([]byte("0123456789"), 30_000)
	const target = "/v1/blobs/0x1/a"
	s.must(204, "PUT", target, content)
	intact := func() {
		t.Helper()
		if r := s.must(200, "GET", target, nil); !bytes.Equal(r.body, content) {
			t.Errorf("the blob has %d bytes, want %d", len(r.body), len(content))
		}
	}

	began := time.Now()
	s.must(200, "GET", target, nil, faultHeader, "delay 300ms")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("a delayed request took %v", took)
	}

	r := s.wantCode(503, "fault_injected", "PUT", target, []byte("other"), faultHeader, "status 503")
	if r.header.Get("Retry-After") != "1" || !strings.Contains(string(r.body), `"retryable":true`) {
		t.Errorf("%v cannot be retried", r)
	}
	s.wantCode(418, "fault_injected", "DELETE", target, nil, faultHeader, "DELETE blob: status 418")
	intact()

	for _, n := range []int{0, 1, 70_000, len(content) - 1} {
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s: cut %d\r\n\r\n", target, faultHeader, n)
		head, body, found := strings.Cut(s.unanswered(request), "\r\n\r\n")
		if !found || !strings.HasPrefix(head, "HTTP/1.1 200 ") || !strings.Contains(head, "Content-Length: 300000") || body != string(content[:n]) {
			t.Errorf("cut %d: %d bytes after %q", n, len(body), head)
		}
	}
	request := fmt.Sprintf("GET /v1/blobs/0x1/none HTTP/1.1\r\nHost: localhost\r\n%s: cut 10\r\n\r\n", faultHeader)
	if _, body, _ := strings.Cut(s.unanswered(request), "\r\n\r\n"); len(body) != 10 {
		t.Errorf("an error that is cut is %q", body)
	}
	if r := s.must(200, "GET", target, nil, faultHeader, "cut 300000"); !bytes.Equal(r.body, content) {
		t.Error("a response that is not longer than its fault permits was cut")
	}

	request = "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n%s: drop-reply\r\n\r\nnew"
	if got := s.unanswered(fmt.Sprintf(request, "/v1/blobs/0x1/dropped", faultHeader)); got != "" {
		t.Errorf("a response was sent: %q", got)
	}
	if r := s.must(200, "GET", "/v1/blobs/0x1/dropped", nil); string(r.body) != "new" {
		t.Errorf("the request with the lost response has stored %q", r.body)
	}
	for _, other := range []string{target, "/v1/blobs/0x1/none", "/v1/info"} {
		if got := s.unanswered(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s: drop-reply\r\n\r\n", other, faultHeader)); got != "" {
			t.Errorf("GET %s: a response was sent: %.100q", other, got)
		}
	}

	began = time.Now()
	if r := s.must(206, "GET", target, nil, faultHeader, "slow 4KiB", "Range", "bytes=0-4095"); len(r.body) != 4096 {
		t.Errorf("a slow response has %d bytes", len(r.body))
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("4 KiB at 4 KiB a second took %v", took)
	}

	var session struct {
		SessionID     string
		ChunksetsLeft int
	}
	s.must(201, "POST", "/v1/sessions", nil).decode(t, &session)
	s.wantCode(410, "session_expired", "POST", "/v1/sessions/"+session.SessionID+"/use", nil, faultHeader, "expired-session")
	before := session.ChunksetsLeft
	s.must(200, "GET", "/v1/sessions/"+session.SessionID, nil, faultHeader, "expired-session").decode(t, &session)
	if session.ChunksetsLeft != before {
		t.Errorf("%d chunksets left, want %d", session.ChunksetsLeft, before)
	}
	// Nothing is paid here.
	s.must(200, "GET", target, nil, faultHeader, "expired-session", "Session-Id", session.SessionID)

	s.wantCode(507, "storage_full", "PUT", target, []byte("other"), faultHeader, "full-disk")
	s.wantCode(507, "storage_full", "POST", "/v1/sessions", nil, faultHeader, "full-disk")
	s.must(200, "HEAD", target, nil, faultHeader, "full-disk")
	intact()

	r = s.wantCode(400, "bad_header", "GET", target, nil, faultHeader, "explode")
	if !strings.Contains(string(r.body), `there is no fault \"explode\": want delay DURATION,`) {
		t.Errorf("a malformed rule: %v", r)
	}
	s.must(200, "GET", "/livez", nil, faultHeader, "status 500")
	s.must(200, "GET", "/v1/local/faults", nil, faultHeader, "status 500")
	for _, want := range []string{`error="this fault was requested: status 503"`, `error="this fault was requested: drop-reply"`} {
		if !strings.Contains(s.settledLog(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

// TestRulesOfFaults checks the rules from the command line and from /v1/local/faults: their counts,
// that a seed makes them repeatable, that they end, and that pages may send the header.
func TestRulesOfFaults(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--fault", "GET info 50%: status 500", "--fault", "first 1: status 501", "--fault-seed", "7"}, damaged: true})
	outcome := func() (statuses string) {
		for range 40 {
			statuses += fmt.Sprint(s.do("GET", "/v1/info", nil).status, " ")
		}
		return statuses
	}
	first := outcome()
	if strings.Count(first, "501") != 1 || strings.Count(first, "500") < 8 || strings.Count(first, "200") < 8 {
		t.Errorf("statuses %s", first)
	}
	counts := s.faults()
	if len(counts.Rules) != 2 || counts.Seed != 7 || counts.Rules[0].Rule != "GET info 50%: status 500" || counts.Rules[0].Requests != 40 || counts.Rules[0].Injected != strings.Count(first, "500") || counts.Rules[1].Injected != 1 {
		t.Errorf("%+v, statuses %s", counts, first)
	}
	s.setFaults("GET info 50%: status 500", "first 1: status 501")
	if again := outcome(); again != first {
		t.Errorf("with the same seed\n%s, and then\n%s", first, again)
	}
	s.must(200, "PUT", "/v1/local/faults", []byte(`{"seed": 8, "faults": [{"rule": "GET info 50%: status 500"}, {"rule": "first 1: status 501"}]}`))
	if other := outcome(); other == first {
		t.Error("another seed changes nothing")
	}
	for _, body := range []string{`{}`, `{"faults": [{}]}`, `{"faults": [{"rule": "explode"}]}`, `{"faults": [], "seed": -1}`, `{"faults": ` + strings.Repeat(" ", 2) + `[` + strings.Repeat(`{"rule": "drop-reply"},`, 100) + `{"rule": "drop-reply"}]}`} {
		if r := s.do("PUT", "/v1/local/faults", []byte(body)); r.status != 400 {
			t.Errorf("%.60s: %v", body, r)
		}
	}
	if counts := s.faults(); counts.Seed != 8 || len(counts.Rules) != 2 {
		t.Errorf("a malformed request has changed the rules: %+v", counts)
	}
	s.must(204, "DELETE", "/v1/local/faults", nil)
	if counts := s.faults(); len(counts.Rules) != 0 || counts.Seed != 8 || strings.Trim(outcome(), "20 ") != "" {
		t.Errorf("after DELETE: %+v", counts)
	}
	s.setFaults("status 500")
	s.stop()
	s.options.flags = nil
	s.restart()
	if counts := s.faults(); len(counts.Rules) != 0 || counts.Seed != 1 {
		t.Errorf("after a restart: %+v", counts)
	}
	preflight := []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "sluice-fault"}
	for _, target := range []string{"/v1/blobs/0x1/a", "/v1/local/faults"} {
		if r := s.must(204, "OPTIONS", target, nil, preflight...); !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), faultHeader) {
			t.Errorf("%s: a preflight allows %q", target, r.header.Get("Access-Control-Allow-Headers"))
		}
	}
	s.must(403, "PUT", "/v1/local/faults", []byte(`{"faults": []}`), "Origin", "https://evil.example")
}

// TestHostedServicesHaveNoFaults checks that a hosted service ignores the header, and has no rules.
func TestHostedServicesHaveNoFaults(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "public").asAdmin()
	for _, rule := range []string{"status 503", "drop-reply", "nonsense"} {
		s.must(200, "GET", "/v1/info", nil, faultHeader, rule)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		s.wantCode(404, "route_not_found", method, "/v1/local/faults", []byte(`{"faults": []}`))
	}
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "PUT"}
	if r := s.must(204, "OPTIONS", "/v1/blobs/0x1/a", nil, preflight...); strings.Contains(r.header.Get("Access-Control-Allow-Headers"), faultHeader) {
		t.Error("a hosted service allows the header to pages")
	}
	if r := sluiceRuns(t, append([]string{"serve", "--fault", "drop-reply"}, hostedChoices("public")...)...); r.code != 2 || !strings.Contains(r.stderr, "--fault: requires the local profile") {
		t.Errorf("--fault: %+v", r)
	}
}

// TestFaultsOfPaidReads checks three faults. The server refuses an expired session with a paid
// read's error, returns the charge for a response that is cut before its first byte, and keeps the
// charge for a lost response.
func TestFaultsOfPaidReads(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	s.must(204, "PUT", "/v1/blobs/0x1/a", []byte("content"))
	s.wantCode(402, "session_expired", "GET", "/v1/blobs/0x1/a", nil, faultHeader, "expired-session", "Session-Id", "any")
	s.wantCode(402, "payment_required", "GET", "/v1/blobs/0x1/a", nil, faultHeader, "expired-session")
	c, payer, _ := newGoClient(t, s.url, "")
	session, err := payer.Ensure(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for fault, left := range map[string]int64{"cut 0": 0, "drop-reply": 1} {
		before, err := c.Session(t.Context(), session.ID)
		if err != nil {
			t.Fatal(err)
		}
		s.unanswered(fmt.Sprintf("GET /v1/blobs/0x1/a HTTP/1.1\r\nHost: localhost\r\nSession-Id: %s\r\n%s: %s\r\n\r\n", session.ID, faultHeader, fault))
		s.eventually(fault+": the charge is not as it should be", func() bool {
			after, err := c.Session(t.Context(), session.ID)
			if err != nil {
				t.Fatal(err)
			}
			return after.ChunksetsLeft == before.ChunksetsLeft-left
		})
	}
}

// TestFaultsOverHTTP2 checks that a lost or cut response ends its own stream with an error, and no
// other stream.
func TestFaultsOverHTTP2(t *testing.T) {
	t.Parallel()
	s := start(t, options{certs: newCertificates(t), dirty: true})
	content := bytes.Repeat([]byte("x"), 200_000)
	s.must(204, "PUT", "/v1/blobs/0x1/a", content)
	for _, fault := range []string{"drop-reply", "cut 0", "cut 100000"} {
		r, err := s.try("GET", "/v1/blobs/0x1/a", nil, faultHeader, fault)
		if err == nil || len(r.body) >= len(content) {
			t.Errorf("%s: %d bytes, %v", fault, len(r.body), err)
		}
		if r := s.must(200, "GET", "/v1/blobs/0x1/a", nil); r.proto != "HTTP/2.0" || !bytes.Equal(r.body, content) {
			t.Errorf("after %s: %s, %d bytes", fault, r.proto, len(r.body))
		}
	}
	if _, err := s.try("PUT", "/v1/blobs/0x1/dropped", []byte("new"), faultHeader, "drop-reply"); err == nil {
		t.Error("a response was sent")
	}
	if r := s.must(200, "GET", "/v1/blobs/0x1/dropped", nil); string(r.body) != "new" {
		t.Errorf("stored is %q", r.body)
	}
}

// TestGoClientSurvivesFaults transfers a file by the Go client while its requests meet each fault
// that a retry helps against, and checks the content.
func TestGoClientSurvivesFaults(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true, damaged: true})
	body := content(seed(t), 5<<20)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := goclient.New(s.url, goclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rules := range [][]string{
		{"PUT part first 2: drop-reply", "POST complete first 1: drop-reply"},
		{"PUT part first 2: status 503", "POST upload first 1: status 503", "POST complete first 1: status 429"},
		{"POST upload first 1: delay 50ms", "GET blob first 2: cut 300KiB"},
		{"GET blob first 2: cut 0", "GET blob first 1: status 502"},
		{"GET blob first 1: drop-reply", "GET blob first 1: slow 16MiB"},
	} {
		s.setFaults(rules...)
		name := fmt.Sprint("file", i)
		if _, err := c.PutFile(t.Context(), "0x1", name, file, goclient.PutOptions{PartSize: 1 << 20}); err != nil {
			t.Errorf("%q: storing: %v", rules, err)
			continue
		}
		target := filepath.Join(t.TempDir(), name)
		if _, err := c.DownloadFile(t.Context(), "0x1", name, target, goclient.DownloadOptions{}); err != nil {
			t.Errorf("%q: reading: %v", rules, err)
			continue
		}
		got, err := os.ReadFile(target)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%q: the content differs, %v", rules, err)
		}
		for _, r := range s.faults().Rules {
			if r.Injected == 0 {
				t.Errorf("%q: no request had the fault %q", rules, r.Rule)
			}
		}
	}
	s.setFaults("PUT: full-disk")
	if _, err := c.PutFile(t.Context(), "0x1", "full", file, goclient.PutOptions{}); !errors.Is(err, goclient.ErrStorageFull) {
		t.Errorf("a full disk: %v", err)
	}
}

// TestPublicClientSurvivesFaults transfers a blob by the public client, which repeats parts, while
// parts fail.
func TestPublicClientSurvivesFaults(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	s := start(t, options{dirty: true, damaged: true})
	for _, rules := range [][]string{
		{"PUT part first 2: drop-reply"},
		{"PUT part first 2: status 503"},
		{"PUT part first 1: status 500", "GET blob first 1: delay 100ms"},
		{"PUT part first 1: full-disk", "GET blob first 1: slow 64MiB"},
	} {
		s.setFaults(rules...)
		lines := script[struct{ Sent, Received, Error string }](t, "faults.mjs", s.url)
		if len(lines) != 1 || lines[0].Error != "" || lines[0].Sent == "" || lines[0].Sent != lines[0].Received {
			t.Errorf("%q: %+v", rules, lines)
		}
		for _, r := range s.faults().Rules {
			if r.Injected == 0 {
				t.Errorf("%q: no request had the fault %q", rules, r.Rule)
			}
		}
	}
	s.setFaults("GET blob: cut 1MiB")
	if lines := script[struct{ Sent, Received, Error string }](t, "faults.mjs", s.url); len(lines) != 1 || lines[0].Error == "" {
		t.Errorf("a response that was cut is taken for a complete one: %+v", lines)
	}
}
