// Package conformance runs the cases of sluice/conformance against the built binary.
package conformance

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/conformance"
	"sluice/e2e"
	"sluice/test/testenv"
)

// account is the one whose key the hosted network's run has.
const account = "0x00cd000000000000000000000000000000000000000000000000000000000001"

// TestCommand runs the command on a local instance, on one with paid reads, and on a hosted network
// under a path, with keys for one account and for all, and with keys of administrators.
func TestCommand(t *testing.T) {
	t.Parallel()
	local := e2e.Start(t, e2e.Options{})
	paid := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "7"}})
	hosted := e2e.StartHosted(t, "paid")
	scopes := []string{"--scopes", "read,write,channels"}
	ofOne := hosted.NewKey(append(scopes, "--accounts", account)...)
	ofAll := hosted.NewKey(append(scopes, "--all-accounts")...)
	administrator := hosted.NewKey("--scopes", "admin", "--accounts", account)
	operator := hosted.NewKey("--scopes", "admin", "--all-accounts")
	checked := map[string]bool{}
	for _, run := range []struct {
		name   string
		server *e2e.Server
		key    string
		flags  []string
	}{
		{"local", local, "", nil},
		{"paid reads", paid, "", nil},
		{"hosted", hosted, ofOne, []string{"--account", account}},
		{"hosted, key for all accounts", hosted, ofAll, []string{"--run", "^hosted/|^channel/"}},
		{"hosted, administrator", hosted, administrator, []string{"--account", account, "--run", "^admin/|^place/|^version/"}},
		{"hosted, operator", hosted, operator, []string{"--run", "^admin/|^place/|^version/"}},
	} {
		for _, name := range runCommand(t, run.server, run.name, run.key, run.flags) {
			checked[name] = true
		}
	}
	for _, c := range conformance.Cases() {
		if !checked[c.Name] {
			t.Errorf("%s was skipped by all servers", c.Name)
		}
	}
}

// runCommand runs the command, checks its output and that it has left nothing, and returns the
// cases that passed.
func runCommand(t *testing.T, s *e2e.Server, name, key string, flags []string) (passed []string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.xml")
	args := append([]string{"conformance", s.URL, "--level", "extended", "--json", "--junit", report}, flags...)
	if key != "" {
		file := filepath.Join(t.TempDir(), "key")
		testenv.OK(t, os.WriteFile(file, []byte(key), 0o600))
		args = append(args, "--key-file", file)
	}
	r := e2e.SluiceRuns(t, args...)
	if r.Code != 0 || r.Stderr != "" {
		t.Errorf("%s: exit code %d, %s", name, r.Code, r.Stderr)
	}
	var sum conformance.Report
	lines := bufio.NewScanner(strings.NewReader(r.Stdout))
	for lines.Scan() {
		var result struct{ Name, Outcome, Reason string }
		testenv.OK(t, json.Unmarshal(lines.Bytes(), &result))
		switch result.Outcome {
		case "passed":
			passed = append(passed, result.Name)
		case "failed":
			t.Errorf("%s: %s: %s", name, result.Name, result.Reason)
		case "skipped":
			if result.Reason == "" {
				t.Errorf("%s: %s was skipped without a reason", name, result.Name)
			}
		default:
			testenv.OK(t, json.Unmarshal(lines.Bytes(), &sum))
		}
	}
	if sum.Passed != len(passed) || sum.Failed != 0 || sum.Left == nil || len(sum.Left) != 0 {
		t.Errorf("%s: %d cases passed, and the sum is %+v", name, len(passed), sum)
	}
	checkJUnit(t, report, sum)
	checkNothingLeft(t, s, name)
	return passed
}

// checkJUnit compares the report's file with the sums.
func checkJUnit(t *testing.T, file string, sum conformance.Report) {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.OK(t, err)
	var suite struct {
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []struct{} `xml:"testcase"`
	}
	testenv.OK(t, xml.Unmarshal(text, &suite))
	if all := sum.Passed + sum.Failed + sum.Skipped; suite.Tests != all || len(suite.Cases) != all || suite.Failures != sum.Failed || suite.Skipped != sum.Skipped {
		t.Errorf("the report has %d, %d, %d and %d cases, want those of %+v", suite.Tests, len(suite.Cases), suite.Failures, suite.Skipped, sum)
	}
}

// checkNothingLeft checks that the server has no blob and no open upload.
func checkNothingLeft(t *testing.T, s *e2e.Server, name string) {
	t.Helper()
	at := s
	if s.Base == e2e.HostedBase {
		at = s.AsAdmin()
	}
	if accounts := at.Must(200, "GET", "/v1/accounts", nil); strings.TrimSpace(string(accounts.Body)) != `{"accounts":[]}` {
		t.Errorf("%s: blobs are left: %s", name, accounts.Body)
	}
	if open := at.OpenUploads(account); len(open) != 0 {
		t.Errorf("%s: uploads are left: %q", name, open)
	}
}

// TestOutput checks the lines for people, and the exit codes.
func TestOutput(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--fault", "HEAD blob: status 503"}})
	r := s.Sluice("conformance", "--level", "extended", "--run", "^(blob/empty|head/empty|paid/both)$")
	const failed = "FAIL  head/empty\n      HEAD /v1/blobs/"
	if r.Code != 1 || !strings.HasPrefix(r.Stdout, "ok    blob/empty\n"+failed) || !strings.Contains(r.Stdout, ": status 503, want 200: ") ||
		!strings.Contains(r.Stdout, "\nskip  paid/both: needs paid reads\n1 passed, 1 failed, 1 skipped: ") || r.Stderr != "sluice: "+s.URL+" does not conform: 1 of 2 cases failed\n" {
		t.Errorf("exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = s.Sluice("conformance", "--level", "extended", "--run", "^(blob/empty|head/empty|paid/both)$", "-q")
	if !strings.HasPrefix(r.Stdout, failed) || strings.Contains(r.Stdout, "skip  ") {
		t.Errorf("with -q:\n%s", r.Stdout)
	}
	r = s.Sluice("conformance", "--run", "^blob/empty$")
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "ok    blob/empty\n1 passed, 0 failed, 0 skipped: ") {
		t.Errorf("exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	list := e2e.SluiceRuns(t, "conformance", "--list", "--level", "seed")
	if list.Code != 0 || !strings.Contains(list.Stdout, "blob/round-trip") || strings.Contains(list.Stdout, "extended") {
		t.Errorf("exit code %d\n%s%s", list.Code, list.Stdout, list.Stderr)
	}
}

// TestOverHTTP2 runs the cases on a local instance over TLS and HTTP/2.
// Invariant 49.
func TestOverHTTP2(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t)})
	run(t, conformance.Options{URL: s.URL, Transport: s.Client.Transport}, nil)
}

// TestBehindNginx runs the cases on a hosted network behind the documented nginx.
// Invariant 52.
func TestBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.StartHosted(t, "public", "--trusted-proxies", "127.0.0.1")
	key := s.NewKey("--scopes", "read,write", "--accounts", account)
	run(t, conformance.Options{URL: s.BehindNginx().URL, Key: key, Account: account}, refusedByNginx)
}

// refusedByNginx are the cases with a request that nginx answers itself.
var refusedByNginx = map[string]bool{"condition/read/none-match-two-lines": true}

// TestThreeNodes sends each request to the next of three nodes over PostgreSQL and an object store.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{})
	c.Start(3)
	turns := &takingTurns{transport: e2e.Client.Transport, hosts: c.Hosts()}
	run(t, conformance.Options{URL: c.Nodes[0].URL, Transport: turns}, nil)
}

// takingTurns sends each request to the next host.
type takingTurns struct {
	transport http.RoundTripper
	hosts     []string
	sent      atomic.Int64
}

// RoundTrip sends a request.
func (t *takingTurns) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = t.hosts[t.sent.Add(1)%int64(len(t.hosts))]
	return t.transport.RoundTrip(r)
}

// run runs all cases. None may fail, except these.
func run(t *testing.T, o conformance.Options, except map[string]bool) {
	t.Helper()
	o.Level = conformance.Extended
	report, err := conformance.Run(t.Context(), o, func(r conformance.Result) {
		if failed := r.Outcome == conformance.Failed; failed != except[r.Name] {
			t.Errorf("%s: failed: %v %s", r.Name, failed, r.Reason)
		}
	})
	testenv.OK(t, err)
	if report.Passed < 300 || len(report.Left) > 0 {
		t.Errorf("%d cases passed, and %q are left", report.Passed, report.Left)
	}
}
