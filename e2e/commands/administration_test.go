package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// afar is a machine that has a key for administrators and the URL of a server, and nothing else.
type afar struct {
	t     *testing.T
	dir   string
	flags []string
}

func newAfar(s *e2e.Server, key string) *afar {
	dir := s.T.(*testing.T).TempDir()
	file := filepath.Join(dir, "key")
	testenv.OK(s.T, os.WriteFile(file, []byte(key), 0o600))
	return &afar{s.T.(*testing.T), dir, []string{"--url", s.URL, "--key-file", file}}
}

// run runs a command, which has the exit code.
func (a *afar) run(code int, line string) e2e.Result {
	a.t.Helper()
	r := e2e.SluiceIn(a.t, a.dir, append(strings.Fields(line), a.flags...)...)
	if r.Code != code {
		a.t.Errorf("%s: %+v, want exit code %d", line, r, code)
	}
	return r
}

// TestAdministrationFromAfar makes the first key on the server's machine, and does everything else
// from another one: a tenant gets a key and limits, is watched, makes keys of its own, and loses
// them.
func TestAdministrationFromAfar(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key")
	first := strings.TrimSpace(e2e.Key(t, s.Data, "create", "--scopes", "admin", "--all-accounts").Stdout)
	operator := newAfar(s, first)
	put := func(key, name string) int {
		return s.Do("PUT", e2e.BlobTarget("team", name), []byte("x"), "Authorization", "Bearer "+key).Status
	}
	awaitPut := func(key string, want int) {
		t.Helper()
		s.Await("a change of the key does not apply", func() bool { return put(key, "n") == want })
	}
	tenant := strings.TrimSpace(operator.run(0, "key create --scopes admin --accounts team --group team --label tenant --stored-objects 1").Stdout)
	id, _, _ := strings.Cut(strings.TrimPrefix(tenant, "sluice_"), "_")
	awaitPut(tenant, 204)
	testenv.Equal(t, put(tenant, "second"), 403, "a second blob")
	var group struct {
		Used, Effective map[string]int64
	}
	testenv.OK(t, json.Unmarshal([]byte(operator.run(0, "group show team --json").Stdout), &group))
	if group.Used["storedObjects"] != 1 || group.Effective["storedObjects"] != 1 {
		t.Errorf("the group is %+v", group)
	}
	operator.run(0, "group set team --stored-objects 5")
	s.Await("the new limit does not apply", func() bool { return put(tenant, "second") == 204 })
	operator.run(0, "bucket alias photos team")
	testenv.Equal(t, operator.run(0, "bucket list").Stdout, "BUCKET  ACCOUNT\nphotos  team\n", "the aliases")
	testenv.Equal(t, operator.run(0, "check --recorded").Stdout, "No damage is recorded.\n", "the damage")

	anybody := func() int { return s.Do("GET", e2e.BlobTarget("team", "n"), nil).Status }
	operator.run(0, "place set team --may-open")
	operator.run(0, "place set team/n public")
	s.Await("the place is not public", func() bool { return anybody() == 200 })
	operator.run(0, "place block team/n order")
	s.Await("the place is not blocked", func() bool { return anybody() == 451 })
	for _, line := range []string{"stat team/n", "rm -n team/n"} {
		r := operator.run(4, line)
		if !regexp.MustCompile(`: order \(since \d{4}-\d\d-\d\dT.*Z\)`).MatchString(r.Stderr) {
			t.Errorf("%s of a blocked blob: %s", line, r.Stderr)
		}
	}
	operator.run(0, "place unblock team/n")
	s.Await("the place is blocked", func() bool { return anybody() == 200 })
	operator.run(0, "task start free_garbage")
	operator.run(0, "node list")

	customer := newAfar(s, tenant)
	reader := strings.TrimSpace(customer.run(0, "key create --scopes read --accounts team").Stdout)
	s.Await("the tenant's key does not read", func() bool {
		return s.Do("GET", e2e.BlobTarget("team", "n"), nil, "Authorization", "Bearer "+reader).Status == 200
	})
	for _, line := range []string{"key create --scopes read --all-accounts", "key create --scopes read --accounts team --group ops", "group set team --stored-objects 9", "bucket list", "upload ls", "check --recorded", "place block team x", "task list", "node list"} {
		customer.run(4, line)
	}
	customer.run(0, "upload ls team")
	if lines := strings.Count(customer.run(0, "key list").Stdout, "\n"); lines != 3 {
		t.Errorf("the tenant sees %d lines of keys, want its own two and the heading", lines)
	}

	renewed := strings.TrimSpace(operator.run(0, "key update --new-secret "+id).Stdout)
	awaitPut(tenant, 401)
	awaitPut(renewed, 204)
	operator.run(0, "key revoke "+id)
	awaitPut(renewed, 401)
	made := operator.run(0, "action list -n 2").Stdout
	if lines := strings.Count(made, "\n"); lines != 3 || strings.Count(made, "127.0.0.1  key.") != 2 || !strings.Contains(made, "key.revoke") || !strings.Contains(made, id) {
		t.Errorf("the last actions are\n%s", made)
	}
	operator.run(4, "key revoke "+first)
	if entries := testenv.Must(os.ReadDir(operator.dir))(t); len(entries) != 1 {
		t.Errorf("the commands left %v", entries)
	}
}
