package http

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
	"sluice/e2e"
	"sluice/internal/testenv"
)

const faultHeader = "Sluice-Fault"

// unanswered sends a request on a new connection and returns what the server sends until the
// connection ends.
func unanswered(s *e2e.Server, text string) string {
	s.T.Helper()
	connection := s.Dial()
	s.Write(connection, text)
	got, err := io.ReadAll(connection)
	testenv.OK(s.T, err)
	return string(got)
}

// setFaults replaces the rules of faults.
func setFaults(s *e2e.Server, rules ...string) {
	s.T.Helper()
	type rule struct {
		Rule string `json:"rule"`
	}
	list := []rule{}
	for _, text := range rules {
		list = append(list, rule{text})
	}
	s.Must(200, "PUT", "/v1/local/faults", e2e.AsJSON(s.T, map[string]any{"faults": list}))
}

// faultCounts are a server's rules and how often it has used each.
type faultCounts struct {
	Seed  int
	Rules []struct {
		Rule               string
		Requests, Injected int
	} `json:"faults"`
}

func faults(s *e2e.Server) (counts faultCounts) {
	s.T.Helper()
	s.Must(200, "GET", "/v1/local/faults", nil).Decode(s.T, &counts)
	return counts
}

// TestFaultsOfOneRequest makes each kind of fault happen to a request that names it, and checks
// that nothing but the response differs.
func TestFaultsOfOneRequest(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	content := bytes.Repeat([]byte("0123456789"), 30_000)
	const target = "/v1/blobs/0x1/a"
	s.Must(204, "PUT", target, content)
	intact := func() {
		t.Helper()
		if r := s.Must(200, "GET", target, nil); !bytes.Equal(r.Body, content) {
			t.Errorf("the blob has %d bytes, want %d", len(r.Body), len(content))
		}
	}

	began := time.Now()
	s.Must(200, "GET", target, nil, faultHeader, "delay 300ms")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("a delayed request took %v", took)
	}

	r := s.WantCode(503, "fault_injected", "PUT", target, []byte("other"), faultHeader, "status 503")
	if r.Header.Get("Retry-After") != "1" || !strings.Contains(string(r.Body), `"retryable":true`) {
		t.Errorf("%v cannot be retried", r)
	}
	s.WantCode(418, "fault_injected", "DELETE", target, nil, faultHeader, "DELETE blob: status 418")
	intact()

	for _, n := range []int{0, 1, 70_000, len(content) - 1} {
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s: cut %d\r\n\r\n", target, faultHeader, n)
		head, body, found := strings.Cut(unanswered(s, request), "\r\n\r\n")
		if !found || !strings.HasPrefix(head, "HTTP/1.1 200 ") || !strings.Contains(head, "Content-Length: 300000") || body != string(content[:n]) {
			t.Errorf("cut %d: %d bytes after %q", n, len(body), head)
		}
	}
	request := fmt.Sprintf("GET /v1/blobs/0x1/none HTTP/1.1\r\nHost: localhost\r\n%s: cut 10\r\n\r\n", faultHeader)
	if _, body, _ := strings.Cut(unanswered(s, request), "\r\n\r\n"); len(body) != 10 {
		t.Errorf("an error that is cut is %q", body)
	}
	if r := s.Must(200, "GET", target, nil, faultHeader, "cut 300000"); !bytes.Equal(r.Body, content) {
		t.Error("a response that is not longer than its fault permits was cut")
	}

	request = "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n%s: drop-reply\r\n\r\nnew"
	if got := unanswered(s, fmt.Sprintf(request, "/v1/blobs/0x1/dropped", faultHeader)); got != "" {
		t.Errorf("a response was sent: %q", got)
	}
	if r := s.Must(200, "GET", "/v1/blobs/0x1/dropped", nil); string(r.Body) != "new" {
		t.Errorf("the request with the lost response has stored %q", r.Body)
	}
	for _, other := range []string{target, "/v1/blobs/0x1/none", "/v1/info"} {
		if got := unanswered(s, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s: drop-reply\r\n\r\n", other, faultHeader)); got != "" {
			t.Errorf("GET %s: a response was sent: %.100q", other, got)
		}
	}

	began = time.Now()
	if r := s.Must(206, "GET", target, nil, faultHeader, "slow 4KiB", "Range", "bytes=0-4095"); len(r.Body) != 4096 {
		t.Errorf("a slow response has %d bytes", len(r.Body))
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("4 KiB at 4 KiB a second took %v", took)
	}

	var session struct {
		SessionID     string
		ChunksetsLeft int
	}
	s.Must(201, "POST", "/v1/sessions", nil).Decode(t, &session)
	s.WantCode(410, "session_expired", "POST", "/v1/sessions/"+session.SessionID+"/use", nil, faultHeader, "expired-session")
	before := session.ChunksetsLeft
	s.Must(200, "GET", "/v1/sessions/"+session.SessionID, nil, faultHeader, "expired-session").Decode(t, &session)
	if session.ChunksetsLeft != before {
		t.Errorf("%d chunksets left, want %d", session.ChunksetsLeft, before)
	}
	// Nothing is paid here.
	s.Must(200, "GET", target, nil, faultHeader, "expired-session", "Session-Id", session.SessionID)

	s.WantCode(507, "storage_full", "PUT", target, []byte("other"), faultHeader, "full-disk")
	s.WantCode(507, "storage_full", "POST", "/v1/sessions", nil, faultHeader, "full-disk")
	s.Must(200, "HEAD", target, nil, faultHeader, "full-disk")
	intact()

	r = s.WantCode(400, "bad_header", "GET", target, nil, faultHeader, "explode")
	if !strings.Contains(string(r.Body), `there is no fault \"explode\": want delay DURATION,`) {
		t.Errorf("a malformed rule: %v", r)
	}
	s.Must(200, "GET", "/livez", nil, faultHeader, "status 500")
	s.Must(200, "GET", "/v1/local/faults", nil, faultHeader, "status 500")
	for _, want := range []string{`error="this fault was requested: status 503"`, `error="this fault was requested: drop-reply"`} {
		if !strings.Contains(s.SettledLog(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

// TestRulesOfFaults checks the rules from the command line and from /v1/local/faults: their counts,
// that a seed makes them repeatable, that they end, and that pages may send the header.
func TestRulesOfFaults(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--fault", "GET info 50%: status 500", "--fault", "first 1: status 501", "--fault-seed", "7"}, Damaged: true})
	outcome := func() (statuses string) {
		for range 40 {
			statuses += fmt.Sprint(s.Do("GET", "/v1/info", nil).Status, " ")
		}
		return statuses
	}
	first := outcome()
	if strings.Count(first, "501") != 1 || strings.Count(first, "500") < 8 || strings.Count(first, "200") < 8 {
		t.Errorf("statuses %s", first)
	}
	counts := faults(s)
	if len(counts.Rules) != 2 || counts.Seed != 7 || counts.Rules[0].Rule != "GET info 50%: status 500" || counts.Rules[0].Requests != 40 || counts.Rules[0].Injected != strings.Count(first, "500") || counts.Rules[1].Injected != 1 {
		t.Errorf("%+v, statuses %s", counts, first)
	}
	setFaults(s, "GET info 50%: status 500", "first 1: status 501")
	if again := outcome(); again != first {
		t.Errorf("with the same seed\n%s, and then\n%s", first, again)
	}
	s.Must(200, "PUT", "/v1/local/faults", []byte(`{"seed": 8, "faults": [{"rule": "GET info 50%: status 500"}, {"rule": "first 1: status 501"}]}`))
	if other := outcome(); other == first {
		t.Error("another seed changes nothing")
	}
	for _, body := range []string{`{}`, `{"faults": [{}]}`, `{"faults": [{"rule": "explode"}]}`, `{"faults": [], "seed": -1}`, `{"faults": ` + strings.Repeat(" ", 2) + `[` + strings.Repeat(`{"rule": "drop-reply"},`, 100) + `{"rule": "drop-reply"}]}`} {
		if r := s.Do("PUT", "/v1/local/faults", []byte(body)); r.Status != 400 {
			t.Errorf("%.60s: %v", body, r)
		}
	}
	if counts := faults(s); counts.Seed != 8 || len(counts.Rules) != 2 {
		t.Errorf("a malformed request has changed the rules: %+v", counts)
	}
	s.Must(204, "DELETE", "/v1/local/faults", nil)
	if counts := faults(s); len(counts.Rules) != 0 || counts.Seed != 8 || strings.Trim(outcome(), "20 ") != "" {
		t.Errorf("after DELETE: %+v", counts)
	}
	setFaults(s, "status 500")
	s.Stop()
	s.Options.Flags = nil
	s.Restart()
	if counts := faults(s); len(counts.Rules) != 0 || counts.Seed != 1 {
		t.Errorf("after a restart: %+v", counts)
	}
	preflight := []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "sluice-fault"}
	for _, target := range []string{"/v1/blobs/0x1/a", "/v1/local/faults"} {
		if r := s.Must(204, "OPTIONS", target, nil, preflight...); !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), faultHeader) {
			t.Errorf("%s: a preflight allows %q", target, r.Header.Get("Access-Control-Allow-Headers"))
		}
	}
	s.Must(403, "PUT", "/v1/local/faults", []byte(`{"faults": []}`), "Origin", "https://evil.example")
}

// TestHostedServicesHaveNoFaults checks that a hosted service ignores the header, and has no rules.
func TestHostedServicesHaveNoFaults(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public").AsAdmin()
	for _, rule := range []string{"status 503", "drop-reply", "nonsense"} {
		s.Must(200, "GET", "/v1/info", nil, faultHeader, rule)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		s.WantCode(404, "route_not_found", method, "/v1/local/faults", []byte(`{"faults": []}`))
	}
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "PUT"}
	if r := s.Must(204, "OPTIONS", "/v1/blobs/0x1/a", nil, preflight...); strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), faultHeader) {
		t.Error("a hosted service allows the header to pages")
	}
	if r := e2e.SluiceRuns(t, append([]string{"serve", "--fault", "drop-reply"}, e2e.HostedChoices("public")...)...); r.Code != 2 || !strings.Contains(r.Stderr, "--fault: requires the local profile") {
		t.Errorf("--fault: %+v", r)
	}
}

// TestFaultsOfPaidReads checks three faults. The server refuses an expired session with a paid
// read's error, returns the charge for a response that is cut before its first byte, and keeps the
// charge for a lost response.
func TestFaultsOfPaidReads(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	s.Must(204, "PUT", "/v1/blobs/0x1/a", []byte("content"))
	s.WantCode(402, "session_expired", "GET", "/v1/blobs/0x1/a", nil, faultHeader, "expired-session", "Session-Id", "any")
	s.WantCode(402, "payment_required", "GET", "/v1/blobs/0x1/a", nil, faultHeader, "expired-session")
	c, payer, _ := e2e.NewGoClient(t, s.URL, "")
	session, err := payer.Ensure(t.Context(), 2)
	testenv.OK(t, err)
	for fault, left := range map[string]int64{"cut 0": 0, "drop-reply": 1} {
		before, err := c.Session(t.Context(), session.ID)
		testenv.OK(t, err)
		unanswered(s, fmt.Sprintf("GET /v1/blobs/0x1/a HTTP/1.1\r\nHost: localhost\r\nSession-Id: %s\r\n%s: %s\r\n\r\n", session.ID, faultHeader, fault))
		s.Eventually(fault+": the charge is not as it should be", func() bool {
			after, err := c.Session(t.Context(), session.ID)
			testenv.OK(t, err)
			return after.ChunksetsLeft == before.ChunksetsLeft-left
		})
	}
}

// TestFaultsOverHTTP2 checks that a lost or cut response ends its own stream with an error, and no
// other stream.
func TestFaultsOverHTTP2(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Dirty: true})
	content := bytes.Repeat([]byte("x"), 200_000)
	s.Must(204, "PUT", "/v1/blobs/0x1/a", content)
	for _, fault := range []string{"drop-reply", "cut 0", "cut 100000"} {
		r, err := s.Try("GET", "/v1/blobs/0x1/a", nil, faultHeader, fault)
		if err == nil || len(r.Body) >= len(content) {
			t.Errorf("%s: %d bytes, %v", fault, len(r.Body), err)
		}
		if r := s.Must(200, "GET", "/v1/blobs/0x1/a", nil); r.Proto != "HTTP/2.0" || !bytes.Equal(r.Body, content) {
			t.Errorf("after %s: %s, %d bytes", fault, r.Proto, len(r.Body))
		}
	}
	if _, err := s.Try("PUT", "/v1/blobs/0x1/dropped", []byte("new"), faultHeader, "drop-reply"); err == nil {
		t.Error("a response was sent")
	}
	if r := s.Must(200, "GET", "/v1/blobs/0x1/dropped", nil); string(r.Body) != "new" {
		t.Errorf("stored is %q", r.Body)
	}
}

// TestGoClientSurvivesFaults transfers a file by the Go client while its requests meet each fault
// that a retry helps against, and checks the content.
func TestGoClientSurvivesFaults(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Damaged: true})
	body := e2e.Content(e2e.Seed(t), 5<<20)
	file := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(file, body, 0o600))
	c, err := goclient.New(s.URL, goclient.Options{})
	testenv.OK(t, err)
	for i, rules := range [][]string{
		{"PUT part first 2: drop-reply", "POST complete first 1: drop-reply"},
		{"PUT part first 2: status 503", "POST upload first 1: status 503", "POST complete first 1: status 429"},
		{"POST upload first 1: delay 50ms", "GET blob first 2: cut 300KiB"},
		{"GET blob first 2: cut 0", "GET blob first 1: status 502"},
		{"GET blob first 1: drop-reply", "GET blob first 1: slow 16MiB"},
	} {
		setFaults(s, rules...)
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
		for _, r := range faults(s).Rules {
			if r.Injected == 0 {
				t.Errorf("%q: no request had the fault %q", rules, r.Rule)
			}
		}
	}
	setFaults(s, "PUT: full-disk")
	if _, err := c.PutFile(t.Context(), "0x1", "full", file, goclient.PutOptions{}); !errors.Is(err, goclient.ErrStorageFull) {
		t.Errorf("a full disk: %v", err)
	}
}

// TestPublicClientSurvivesFaults transfers a blob by the public client, which repeats parts, while
// parts fail.
func TestPublicClientSurvivesFaults(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Damaged: true})
	for _, rules := range [][]string{
		{"PUT part first 2: drop-reply"},
		{"PUT part first 2: status 503"},
		{"PUT part first 1: status 500", "GET blob first 1: delay 100ms"},
		{"PUT part first 1: full-disk", "GET blob first 1: slow 64MiB"},
	} {
		setFaults(s, rules...)
		lines := e2e.Script[struct{ Sent, Received, Error string }](t, "faults.mjs", s.URL)
		if len(lines) != 1 || lines[0].Error != "" || lines[0].Sent == "" || lines[0].Sent != lines[0].Received {
			t.Errorf("%q: %+v", rules, lines)
		}
		for _, r := range faults(s).Rules {
			if r.Injected == 0 {
				t.Errorf("%q: no request had the fault %q", rules, r.Rule)
			}
		}
	}
	setFaults(s, "GET blob: cut 1MiB")
	if lines := e2e.Script[struct{ Sent, Received, Error string }](t, "faults.mjs", s.URL); len(lines) != 1 || lines[0].Error == "" {
		t.Errorf("a response that was cut is taken for a complete one: %+v", lines)
	}
}
