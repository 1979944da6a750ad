package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/instance"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestVersionsOfAKilledServer kills a server while its clients write and delete the same blobs, and
// sets its clock back: each acknowledged commit is a version, once, and a name's versions ascend.
// In an account with locks, clients also lock and delete versions: no locked one goes.
// Invariants 209, 216.
func TestVersionsOfAKilledServer(t *testing.T) {
	t.Parallel()
	for about, setting := range e2e.VersionSettings {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ahead")
			setClock(t, file, 0)
			s := e2e.Start(t, e2e.Options{Dirty: true, Wrapper: []string{"env", "SLUICE_TEST_CLOCK=" + file}, Tuning: purging})
			v := e2e.NewVersioners(t, []*e2e.Server{s}, setting)
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
				v.Check(s)
				v.Write(5)
				v.Check(s)
			}
			s.Stop()
			e2e.CheckClean(t, nil, "--data", s.Data)
		})
	}
}

// setClock sets the clock of a server that the file was named for.
func setClock(t *testing.T, file string, ahead time.Duration) {
	t.Helper()
	testenv.OK(t, os.WriteFile(file+".next", []byte(ahead.String()), 0o600))
	testenv.OK(t, os.Rename(file+".next", file)) // the server reads a whole one
}

// goneBack serves an instance that will go back to this moment. It has a valid key, places that
// are blocked and public, kept versions and a mark, which are due, and a rule that would remove a
// blob.
type goneBack struct {
	*e2e.Server
	key string // its id
}

func newGoneBack(t *testing.T, o e2e.Options) goneBack {
	t.Helper()
	s := e2e.Start(t, o)
	for _, name := range waiting {
		s.Must(200, "POST", "/v1/admin/tasks/"+name+"/pause", nil)
	}
	s.Must(200, "PUT", "/v1/admin/versions/team", []byte(`{"keep":"on","for":"1s"}`), "If-Match", "*")
	for _, content := range []string{"first", "second"} {
		s.Must(204, "PUT", e2e.BlobTarget("team", "a"), []byte(content))
	}
	s.Must(200, "POST", e2e.BlobTarget("team", "a"), []byte(`{"copyTo":{"blobName":"copy"}}`), "Content-Type", "application/json")
	s.Must(204, "DELETE", e2e.BlobTarget("team", "a"), nil)
	s.Must(204, "PUT", e2e.BlobTarget("logs", "old"), []byte("old"))
	s.Must(200, "PUT", "/v1/admin/rules/logs", []byte(`{"rules":[{"id":"old","prefix":"old","expireOn":"2026-01-01T00:00:00Z"}]}`), "If-Match", "*")
	key := strings.Split(s.NewKey("--scopes", "read", "--accounts", "team", "--label", "returned"), "_")[1]
	s.Must(200, "PATCH", "/v1/admin/places/team?blob=copy", []byte(`{"block":"order 7"}`))
	s.Must(200, "PATCH", "/v1/admin/places/open", []byte(`{"mayOpen":true,"lists":"public"}`))
	return goneBack{s, key}
}

// waiting are the tasks that wait for the operator.
var waiting = []string{"versions", "rules"}

// named checks that a command has named all that has come back in a folder, in text and in JSON.
func (g goneBack) named(text, printed, data string) {
	g.T.Helper()
	lines := []string{"Valid keys, perhaps also such as had ended since then: 1. sluice key list --data " + data, "  " + g.key + " returned\n",
		"Blocked places", "  team/copy\n", "Places that are open to everybody", "  open/\n"}
	for _, name := range waiting {
		lines = append(lines, "The task "+name+" does nothing before sluice task resume "+name+" --data "+data)
	}
	for _, want := range lines {
		if !strings.Contains(text, want) {
			g.T.Errorf("the command does not print %q: %s", want, text)
		}
	}
	var found struct{ Returned instance.Returned }
	err := json.Unmarshal([]byte(printed), &found)
	if r := found.Returned; err != nil || r.KeyCount != 1 || r.Keys[0].ID != g.key || r.BlockedCount != 1 || r.PublicCount != 1 || fmt.Sprint(r.Waiting) != fmt.Sprint(waiting) {
		g.T.Errorf("the command prints %s, %v", printed, err)
	}
}

// wait checks that a server deletes no versions and applies no rules before the operator has
// resumed each task, and does so then. meanwhile is called while they wait.
func (g goneBack) wait(n *e2e.Server, reason string, meanwhile func()) {
	g.T.Helper()
	n.Logged("a background task waits until it is resumed")
	due(n.T.(*testing.T), []*e2e.Server{n})
	var list wire.TaskList
	n.Must(200, "GET", "/v1/admin/tasks", nil).Decode(g.T, &list)
	waits := 0
	for _, one := range list.Tasks {
		if slices.Contains(waiting, one.Task) && strings.HasPrefix(one.Reason, reason) && (one.Task != "versions" || one.Due != nil && one.Due.Versions == 3 && one.Due.Bytes == 11) {
			waits++
		}
	}
	testenv.Equal(g.T, waits, len(waiting), "tasks that wait, %+v", list.Tasks)
	if line := n.Sluice("task", "list").Stdout; !strings.Contains(line, "; it would delete 3 versions with 11 B now\n") {
		g.T.Errorf("task list prints %s", line)
	}
	kept := func() (versions int64) {
		var page wire.AccountPage
		n.Must(200, "GET", "/v1/accounts", nil).Decode(g.T, &page)
		for _, a := range page.Accounts {
			versions += a.Versions
		}
		return versions
	}
	testenv.Equal(g.T, kept(), 3, "versions that are kept")
	meanwhile()
	resume := func(task string) {
		if r := n.Sluice("task", "resume", task); r.Code != 0 {
			g.T.Errorf("resume %s: %+v", task, r)
		}
	}
	resume("versions")
	n.Eventually("the versions stay", func() bool { return kept() == 0 })
	n.ListsOnly("logs", "old")
	resume("rules")
	n.Eventually("the rule is not applied", func() bool { return len(n.Names("logs")) == 0 })
	n.Stop()
	e2e.CheckClean(g.T, nil, "--data", n.Data)
}

// TestRestoredVersionsWait restores a backup with kept versions and a mark, which are due, and with
// a rule. They stay until the tasks are resumed, and newer commits elsewhere have other ids. The
// command lists the rights that have come back.
// Invariants 209, 215.
func TestRestoredVersionsWait(t *testing.T) {
	t.Parallel()
	g := newGoneBack(t, e2e.Options{})
	place, to := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "restored")
	e2e.Prints(t, "backup", place, "--data", g.Data)
	newer := g.Must(204, "PUT", e2e.BlobTarget("team", "a"), []byte("newer")).Header.Get("Blob-Version")
	text, printed := e2e.SluiceRuns(t, "restore", place, "--to", to), e2e.SluiceRuns(t, "restore", place, "--to", to+"2", "--json")
	g.named(text.Stdout, printed.Stdout, to)
	e2e.CheckClean(t, nil, "--data", to)
	n := e2e.Start(t, e2e.Options{Data: to, Dirty: true, Flags: observed, Tuning: purging})
	g.wait(n, "the instance was restored from a backup of ", func() {
		if id := n.Must(204, "PUT", e2e.BlobTarget("team", "a"), []byte("newer")).Header.Get("Blob-Version"); id == newer {
			t.Errorf("two commits are the version %s", id)
		}
	})
}

// TestRecoveredVersionsWait puts an older database into a data folder, and recovers it. The command
// lists the rights that have come back, and the tasks that wait until they are resumed.
// Invariants 100, 215.
func TestRecoveredVersionsWait(t *testing.T) {
	t.Parallel()
	g := newGoneBack(t, e2e.Options{Dirty: true, Flags: observed, Tuning: purging}) // it logs the setback as an error
	g.Stop()
	file := filepath.Join(g.Data, "meta.db")
	older := testenv.Must(os.ReadFile(file))(t)
	g.Restart()
	for _, task := range waiting {
		g.Must(200, "POST", "/v1/admin/tasks/"+task+"/resume", nil)
	}
	g.Eventually("the rule is not applied", func() bool { return len(g.Names("logs")) == 0 })
	if r := g.Sluice("key", "revoke", g.key); r.Code != 0 {
		t.Errorf("revoke: %+v", r)
	}
	g.Stop()
	testenv.OK(t, os.WriteFile(file, older, 0o600))
	g.Restart()
	g.Logged("run sluice recover")
	g.Stop()
	r := e2e.SluiceRuns(t, "recover", "--data", g.Data, "--yes", "--json")
	g.named(r.Stderr, r.Stdout, g.Data)
	g.Restart()
	g.wait(g.Server, "the instance was set back and recovered", func() {})
}
