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

	goclient "sluice/client"
	"sluice/e2e"
	"sluice/test/testenv"
)

const faultHeader = "Sluice-Fault"

// getWith sends a GET with a fault and maybe more header lines on a new connection, and returns all
// bytes that the server sends until the connection ends.
func getWith(s *e2e.Server, target, fault, lines string) string {
	s.T.Helper()
	connection := s.Dial()
	lines = "Host: localhost\r\n" + faultHeader + ": " + fault + "\r\n" + lines
	s.Write(connection, "GET "+target+" HTTP/1.1\r\n"+lines+"\r\n")
	return string(testenv.Must(io.ReadAll(connection))(s.T))
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

// checkAllHappened fails the test if a rule has injected no fault.
func checkAllHappened(s *e2e.Server) {
	s.T.Helper()
	for _, r := range faults(s).Rules {
		if r.Injected == 0 {
			s.T.Errorf("no request had the fault %q", r.Rule)
		}
	}
}

// TestFaultsOfOneRequest makes faults happen to requests that name them, and checks that nothing
// but the response differs. The cases of conformance have one of each kind; here are other moments
// of a response, other operations, and the log.
// Invariant 77.
func TestFaultsOfOneRequest(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	content := bytes.Repeat([]byte("0123456789"), 30_000)
	const target, absent = "/v1/blobs/0x1/a", "/v1/blobs/0x1/none"
	s.Must(204, "PUT", target, content)
	for _, n := range []int{0, 1, len(content) - 1} {
		head, body, found := strings.Cut(getWith(s, target, fmt.Sprint("cut ", n), ""), "\r\n\r\n")
		whole := strings.HasPrefix(head, "HTTP/1.1 200 ") && strings.Contains(head, "Content-Length: 300000")
		if !found || !whole || body != string(content[:n]) {
			t.Errorf("cut %d: %d bytes after %q", n, len(body), head)
		}
	}
	if _, body, _ := strings.Cut(getWith(s, absent, "cut 10", ""), "\r\n\r\n"); len(body) != 10 {
		t.Errorf("an error that is cut is %q", body)
	}
	for _, other := range []string{target, absent, "/v1/info"} {
		if got := getWith(s, other, "drop-reply", ""); got != "" {
			t.Errorf("GET %s: a response was sent: %.100q", other, got)
		}
	}
	s.WantCode(418, "fault_injected", "DELETE", target, nil, faultHeader, "DELETE blob: status 418")
	s.WantCode(507, "storage_full", "POST", "/v1/sessions", nil, faultHeader, "full-disk")
	session := s.Session()
	s.Must(200, "GET", "/v1/sessions/"+session, nil, faultHeader, "expired-session")
	// Nothing is paid here.
	s.Must(200, "GET", target, nil, faultHeader, "expired-session", "Session-Id", session)
	r := s.WantCode(400, "bad_header", "GET", target, nil, faultHeader, "explode")
	if !strings.Contains(string(r.Body), `there is no fault \"explode\": want delay DURATION,`) {
		t.Errorf("a malformed rule: %v", r)
	}
	s.Holds(target, content)
	for _, fault := range []string{"status 418", "drop-reply"} {
		if want := `error="this fault was requested: ` + fault + `"`; !strings.Contains(s.SettledLog(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

// TestRulesOfFaults checks the rules from the command line and from /v1/local/faults: their counts,
// that a seed makes them repeatable, that they end, and that a foreign page cannot set them.
// Invariant 77.
func TestRulesOfFaults(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--fault", "GET info 50%: status 500", "--fault", "first 1: status 501"}, Damaged: true})
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
	if len(counts.Rules) != 2 || counts.Seed != 1 || counts.Rules[0].Rule != "GET info 50%: status 500" || counts.Rules[0].Requests != 40 || counts.Rules[0].Injected != strings.Count(first, "500") || counts.Rules[1].Injected != 1 {
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
	s.Must(403, "PUT", "/v1/local/faults", []byte(`{"faults": []}`), "Origin", "https://evil.example")
}

// TestHostedServicesHaveNoFaults checks that a hosted service ignores the header, and has no rules.
// Invariant 77.
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
// Invariant 77.
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
		getWith(s, "/v1/blobs/0x1/a", fault, "Session-Id: "+session.ID+"\r\n")
		s.Eventually(fault+": the charge is not as it should be", func() bool {
			after, err := c.Session(t.Context(), session.ID)
			testenv.OK(t, err)
			return after.ChunksetsLeft == before.ChunksetsLeft-left
		})
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
		checkAllHappened(s)
	}
	setFaults(s, "PUT: full-disk")
	if _, err := c.PutFile(t.Context(), "0x1", "full", file, goclient.PutOptions{}); !errors.Is(err, goclient.ErrStorageFull) {
		t.Errorf("a full disk: %v", err)
	}
}
