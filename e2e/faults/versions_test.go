package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/instance"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestVersionsOfAKilledServer kills a server while its clients write and delete the same blobs, and
// sets its clock back: what was acknowledged is a version, once, and a name's versions ascend.
// Invariant 209.
func TestVersionsOfAKilledServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ahead")
	setClock(t, file, 0)
	s := e2e.Start(t, e2e.Options{Dirty: true, Wrapper: []string{"env", "SLUICE_TEST_CLOCK=" + file}, Tuning: purging})
	v := e2e.NewVersioners(t, []*e2e.Server{s})
	for round := range 4 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			v.Write(100)
		}()
		before := v.Made()
		e2e.Await(t, "nothing is written", func() bool { return v.Made() > before+60 })
		s.Kill()
		<-ended
		setClock(t, file, -time.Duration(round)*time.Hour)
		s.Restart()
		v.Write(5)
		v.Check(s)
	}
	s.Stop()
	e2e.CheckClean(t, nil, "--data", s.Data)
}

// setClock sets the clock of a server that the file was named for.
func setClock(t *testing.T, file string, ahead time.Duration) {
	t.Helper()
	testenv.OK(t, os.WriteFile(file+".next", []byte(ahead.String()), 0o600))
	testenv.OK(t, os.Rename(file+".next", file)) // the server reads a whole one
}

// TestRestoredVersionsWait restores a backup with kept versions and a mark, which are due. They
// stay until the task is resumed, and newer commits elsewhere have other ids. The command lists the
// rights that have come back.
// Invariants 209, 215.
func TestRestoredVersionsWait(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(200, "POST", "/v1/admin/tasks/versions/pause", nil)
	s.Must(200, "PUT", "/v1/admin/versions/team", []byte(`{"keep":"on","for":"1s"}`), "If-Match", "*")
	for _, content := range []string{"first", "second"} {
		s.Must(204, "PUT", e2e.BlobTarget("team", "a"), []byte(content))
	}
	s.Must(200, "POST", e2e.BlobTarget("team", "a"), []byte(`{"copyTo":{"blobName":"copy"}}`), "Content-Type", "application/json")
	s.Must(204, "DELETE", e2e.BlobTarget("team", "a"), nil)
	key := strings.Split(s.NewKey("--scopes", "read", "--accounts", "team", "--label", "returned"), "_")[1]
	s.Must(200, "PATCH", "/v1/admin/places/team?blob=copy", []byte(`{"block":"order 7"}`))
	place, to := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "restored")
	e2e.Prints(t, "backup", place, "--data", s.Data)
	newer := s.Must(204, "PUT", e2e.BlobTarget("team", "a"), []byte("newer")).Header.Get("Blob-Version")

	r := e2e.SluiceRuns(t, "restore", place, "--to", to)
	for _, want := range []string{"Valid keys, perhaps also such as had ended since then: 1. sluice key list --data " + to, "  " + key + " returned\n", "Blocked places", "  team/copy\n"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("the restore does not print %q: %+v", want, r)
		}
	}
	var printed struct{ Returned instance.Returned }
	r = e2e.SluiceRuns(t, "restore", place, "--to", to+"2", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &printed); err != nil || printed.Returned.KeyCount != 1 || printed.Returned.Keys[0].ID != key || printed.Returned.BlockedCount != 1 || printed.Returned.PublicCount != 0 {
		t.Errorf("the restore prints %+v, %v", r, err)
	}
	e2e.CheckClean(t, nil, "--data", to)

	n := e2e.Start(t, e2e.Options{Data: to, Dirty: true, Flags: observed, Tuning: purging})
	n.Logged("a background task waits until it is resumed")
	due(t, []*e2e.Server{n})
	kept := func() int64 {
		var page wire.AccountPage
		n.Must(200, "GET", "/v1/accounts", nil).Decode(t, &page)
		return page.Accounts[0].Versions
	}
	testenv.Equal(t, kept(), 3, "versions that are kept")
	var list wire.TaskList
	n.Must(200, "GET", "/v1/admin/tasks", nil).Decode(t, &list)
	for _, one := range list.Tasks {
		if one.Task == "versions" && (!strings.HasPrefix(one.Reason, "the instance was restored from a backup of ") || one.Due == nil || one.Due.Versions != 3 || one.Due.Bytes != 11) {
			t.Errorf("the task is %+v", one)
		}
	}
	if line := n.Sluice("task", "list").Stdout; !strings.Contains(line, "; it would delete 3 versions with 11 B now\n") {
		t.Errorf("task list prints %s", line)
	}
	if id := n.Must(204, "PUT", e2e.BlobTarget("team", "a"), []byte("newer")).Header.Get("Blob-Version"); id == newer {
		t.Errorf("two commits are the version %s", id)
	}
	n.Must(200, "POST", "/v1/admin/tasks/versions/resume", nil)
	n.Eventually("the versions stay", func() bool { return kept() == 0 })
	n.Stop()
	e2e.CheckClean(t, nil, "--data", to)
}
