package commands

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestKeyCommandWhileAServerRuns creates and revokes keys while a server runs on the folder. The
// commands must not disturb the server, the keys must exist after its restart, and only key create
// may print the secret, once.
func TestKeyCommandWhileAServerRuns(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	r := e2e.Key(t, s.Data, "create", "--scopes", "read,write", "--all-accounts", "--label", "first")
	found := e2e.Credential.FindStringSubmatch(r.Stdout)
	if found == nil {
		t.Fatalf("key create prints %q, want only the secret", r.Stdout)
	}
	id, secret := found[1], found[2]
	if !strings.Contains(r.Stderr, id) || !strings.Contains(r.Stderr, "first") {
		t.Errorf("key create prints %q on standard error", r.Stderr)
	}
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("kept"))
	list := e2e.Key(t, s.Data, "list", "--json")
	if strings.Count(list.Stdout, "\n") != 1 || !strings.Contains(list.Stdout, id) {
		t.Errorf("key list prints %q", list.Stdout)
	}
	for _, text := range []string{r.Stderr, list.Stdout, list.Stderr, s.SettledLog(), e2e.Key(t, s.Data, "show", id).Stdout} {
		if strings.Contains(text, secret) {
			t.Errorf("%q contains the secret", text)
		}
	}
	s.Stop()
	s.Restart()
	if state := e2e.KeyState(t, s.Data, id); state != "active" {
		t.Errorf("after the restart the key is %s", state)
	}
	e2e.Key(t, s.Data, "revoke", id)
	if state := e2e.KeyState(t, s.Data, id); state != "revoked" {
		t.Errorf("the key is %s, want revoked", state)
	}
	if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "name"), nil); string(r.Body) != "kept" {
		t.Errorf("the blob is %v", r)
	}
}

// TestKeyCommandBeforeTheFirstStart checks that serve accepts a folder that the key command
// created.
func TestKeyCommandBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	found := e2e.Credential.FindStringSubmatch(e2e.Key(t, data, "create", "--scopes", "admin", "--accounts", "0xAB").Stdout)
	if found == nil {
		t.Fatal("key create does not print only the secret")
	}
	s := e2e.Start(t, e2e.Options{Data: data})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("x"))
	if state := e2e.KeyState(t, data, found[1]); state != "active" {
		t.Errorf("while the server runs the key is %s", state)
	}
}

// TestKeysOfAHostedService checks that the service accepts a key created while it runs, and no
// revoked one.
func TestKeysOfAHostedService(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--profile", "hosted", "--base-path", "/sluice", "--reads", "key", "--receiver", "0x1",
		"--external-url", "https://blobs.example.org/sluice", "--admin-addr", "off", "--drain-wait", "0s"}})
	target := e2e.BlobTarget("0xab", "name")
	for _, method := range []string{"PUT", "GET", "DELETE"} {
		e2e.CheckProblem(t, s.Do(method, target, nil), 401, "")
	}
	secret := strings.TrimSpace(e2e.Key(t, s.Data, "create", "--scopes", "read,write", "--accounts", "bob,0xAB").Stdout)
	bearer := []string{"Authorization", "Bearer " + secret}
	s.Must(204, "PUT", target, []byte("kept"), bearer...)
	if r := s.Must(200, "GET", target, nil, bearer...); string(r.Body) != "kept" {
		t.Errorf("with a key the blob is %v", r)
	}
	e2e.CheckProblem(t, s.Do("PUT", e2e.BlobTarget("0xcd", "name"), []byte("x"), bearer...), 403, "")
	e2e.Key(t, s.Data, "revoke", secret)
	s.Await("a revoked key is still accepted", func() bool { return s.Do("GET", target, nil, bearer...).Status == 401 })
	if strings.Contains(s.SettledLog(), strings.Split(secret, "_")[2]) {
		t.Error("the log contains the secret")
	}
}

// TestLimitsChangeWhileAServerRuns checks that a group's new limits, and a key's new accounts,
// apply to a running service.
func TestLimitsChangeWhileAServerRuns(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--profile", "hosted", "--base-path", "/sluice", "--reads", "key", "--receiver", "0x1",
		"--external-url", "https://blobs.example.org/sluice", "--admin-addr", "off", "--drain-wait", "0s"}})
	secret := strings.TrimSpace(e2e.Key(t, s.Data, "create", "--scopes", "read,write", "--accounts", "0xAB", "--group", "team").Stdout)
	bearer := []string{"Authorization", "Bearer " + secret}
	put := func(account string) int {
		return s.Do("PUT", e2e.BlobTarget(account, "name"), []byte("x"), bearer...).Status
	}
	if got := put("0xab"); got != 204 {
		t.Fatalf("PUT: %d", got)
	}
	set := func(args ...string) {
		t.Helper()
		if r := e2e.SluiceRuns(t, append([]string{"group", "set", "--data", s.Data, "team"}, args...)...); r.Code != 0 {
			t.Fatalf("group set %q: %+v", args, r)
		}
	}
	set("--stored-bytes", "1")
	s.Await("the new quota does not apply", func() bool { return put("0xab") == 403 })
	show := e2e.SluiceRuns(t, "group", "show", "--data", s.Data, "--json", "team")
	var shown struct{ Used map[string]int64 }
	if err := json.Unmarshal([]byte(show.Stdout), &shown); err != nil || shown.Used["storedObjects"] != 1 {
		t.Errorf("group show: %+v, %v, want one object", show, err)
	}
	set("--default", "stored-bytes")
	s.Await("the quota still applies", func() bool { return put("0xab") == 204 })
	e2e.Key(t, s.Data, "update", "--accounts", "0xcd", secret)
	s.Await("the new accounts do not apply", func() bool { return put("0xab") == 403 && put("0xcd") == 204 })
}
