package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestDatabaseThatWasSetBack restores an older database in a data folder. The server must serve
// blobs and refuse everything else, report the remedy, and go on after sluice recover.
// Invariant 99.
func TestDatabaseThatWasSetBack(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--reads", "paid"}}) // it logs the setback as an error
	data := e2e.Content(1, 100_000)
	kept, lost := e2e.BlobTarget("0x1", "kept"), e2e.BlobTarget("0x1", "lost")
	s.Must(204, "PUT", kept, data)
	channel := s.Open(s.Payer(1), 1000)
	session := channel.Buy(5).SessionID
	s.Stop()
	file := filepath.Join(s.Data, "meta.db")
	older := testenv.Must(os.ReadFile(file))(t)
	s.Restart()
	s.Must(204, "PUT", lost, data)
	s.Must(200, "POST", "/v1/sessions/"+session+"/use", []byte("{}"))
	gone := channel.Buy(5).SessionID
	s.Stop()
	testenv.OK(t, os.WriteFile(file, older, 0o600))
	s.Restart()

	s.Must(503, "GET", "/readyz", nil)
	for _, write := range [][2]string{
		{"PUT", lost}, {"DELETE", kept}, {"POST", "/v1/sessions/" + session + "/use"}, {"POST", e2e.Channels + "/" + channel.ID + "/close"}, {"POST", "/v1/multipart-uploads"},
	} {
		e2e.CheckProblem(t, s.Do(write[0], write[1], []byte("{}")), 503, "rolled_back")
	}
	e2e.CheckProblem(t, s.Do("GET", kept, nil, "Session-Id", session), 503, "rolled_back")
	s.Must(200, "HEAD", kept, nil)
	if r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--yes"); r.Code == 0 || !strings.Contains(r.Stderr, "in use") {
		t.Errorf("a recovery beside the server: %+v", r)
	}
	s.Logged("everything but reads is refused", "it lacks changes that it has acknowledged", "run sluice recover")
	s.Stop()

	report := filepath.Join(t.TempDir(), "report")
	declined := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--report", report) // nobody can be asked
	if _, err := os.Stat(report); declined.Code == 0 || !os.IsNotExist(err) {
		t.Errorf("a declined recovery leaves its report: %+v, %v", declined, err)
	}
	r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--yes", "--report", report)
	for _, want := range []string{"The instance is in generation 1.", "Objects that nothing refers to: 1, with", "Generation 2 has begun"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("the recovery lacks %q: %+v", want, r)
		}
	}
	testenv.Equal(t, string(testenv.Must(os.ReadFile(report))(t)), r.Stdout, "the report")
	s.Restart()
	s.Must(200, "GET", "/readyz", nil)
	s.Must(204, "PUT", lost, data)
	e2e.CheckProblem(t, s.Do("GET", "/v1/sessions/"+gone, nil), 410, "lost_in_rollback")
	e2e.CheckProblem(t, s.Do("GET", kept, nil, "Session-Id", gone), 402, "lost_in_rollback")
	channel.Amount, channel.Sequence = 5, channel.Sequence+1
	if id := channel.Buy(5).SessionID; !strings.HasSuffix(id, "-2") {
		t.Errorf("a session of the second generation has the id %s", id)
	}
	if r := e2e.SluiceRuns(t, "recover", "--data", s.Data, "--release"); r.Code != 0 {
		t.Errorf("a release: %+v", r)
	}
	records := testenv.Must(filepath.Glob(filepath.Join(s.Data, "bytes", "sluice-history-*")))(t)
	if !slices.ContainsFunc(records, func(name string) bool {
		return strings.HasPrefix(string(testenv.Must(os.ReadFile(name))(t)), "0000000000000002 ")
	}) {
		t.Errorf("there is no record of the second generation: %v", records)
	}
}
