package e2e

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// credential matches the output of key create.
var credential = regexp.MustCompile(`^sluice_([a-z2-7]+)_([a-z2-7]+)\n$`)

// key runs a key command, which must succeed.
func key(t testing.TB, data, command string, args ...string) result {
	t.Helper()
	r := sluiceRuns(t, append([]string{"key", command, "--data", data}, args...)...)
	if r.code != 0 {
		t.Fatalf("key %s %q: exit code %d: %s", command, args, r.code, r.stderr)
	}
	return r
}

// keyState returns the state that key show prints.
func keyState(t *testing.T, data, id string) string {
	t.Helper()
	var shown struct{ ID, State string }
	if r := key(t, data, "show", "--json", id); json.Unmarshal([]byte(r.stdout), &shown) != nil || shown.ID != id {
		t.Fatalf("key show: %q", r.stdout)
	}
	return shown.State
}

// TestKeyCommandWhileAServerRuns creates and revokes keys while a server runs on the folder. The
// commands must not disturb the server, the keys must exist after its restart, and only key create
// may print the secret, once.
func TestKeyCommandWhileAServerRuns(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	r := key(t, s.data, "create", "--scopes", "read,write", "--all-accounts", "--label", "first")
	found := credential.FindStringSubmatch(r.stdout)
	if found == nil {
		t.Fatalf("key create prints %q, want only the secret", r.stdout)
	}
	id, secret := found[1], found[2]
	if !strings.Contains(r.stderr, id) || !strings.Contains(r.stderr, "first") {
		t.Errorf("key create prints %q on standard error", r.stderr)
	}
	s.must(204, "PUT", blobTarget("0x1", "name"), []byte("kept"))
	list := key(t, s.data, "list", "--json")
	if strings.Count(list.stdout, "\n") != 1 || !strings.Contains(list.stdout, id) {
		t.Errorf("key list prints %q", list.stdout)
	}
	for _, text := range []string{r.stderr, list.stdout, list.stderr, s.settledLog(), key(t, s.data, "show", id).stdout} {
		if strings.Contains(text, secret) {
			t.Errorf("%q contains the secret", text)
		}
	}
	s.stop()
	s.restart()
	if state := keyState(t, s.data, id); state != "active" {
		t.Errorf("after the restart the key is %s", state)
	}
	key(t, s.data, "revoke", id)
	if state := keyState(t, s.data, id); state != "revoked" {
		t.Errorf("the key is %s, want revoked", state)
	}
	if r := s.must(200, "GET", blobTarget("0x1", "name"), nil); string(r.body) != "kept" {
		t.Errorf("the blob is %v", r)
	}
}

// TestKeyCommandBeforeTheFirstStart checks that serve accepts a folder that the key command
// created.
func TestKeyCommandBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	found := credential.FindStringSubmatch(key(t, data, "create", "--scopes", "admin", "--accounts", "0xAB").stdout)
	if found == nil {
		t.Fatal("key create does not print only the secret")
	}
	s := start(t, options{data: data})
	s.must(204, "PUT", blobTarget("0x1", "name"), []byte("x"))
	if state := keyState(t, data, found[1]); state != "active" {
		t.Errorf("while the server runs the key is %s", state)
	}
}

// TestKeysOfAHostedService checks that the service accepts a key created while it runs, and no
// revoked one.
func TestKeysOfAHostedService(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--profile", "hosted", "--base-path", "/sluice", "--reads", "key", "--receiver", "0x1",
		"--external-url", "https://blobs.example.org/sluice", "--admin-addr", "off", "--drain-wait", "0s"}})
	target := blobTarget("0xab", "name")
	for _, method := range []string{"PUT", "GET", "DELETE"} {
		checkProblem(t, s.do(method, target, nil), 401, "")
	}
	secret := strings.TrimSpace(key(t, s.data, "create", "--scopes", "read,write", "--accounts", "bob,0xAB").stdout)
	bearer := []string{"Authorization", "Bearer " + secret}
	s.must(204, "PUT", target, []byte("kept"), bearer...)
	if r := s.must(200, "GET", target, nil, bearer...); string(r.body) != "kept" {
		t.Errorf("with a key the blob is %v", r)
	}
	checkProblem(t, s.do("PUT", blobTarget("0xcd", "name"), []byte("x"), bearer...), 403, "")
	key(t, s.data, "revoke", secret)
	s.await("a revoked key is still accepted", func() bool { return s.do("GET", target, nil, bearer...).status == 401 })
	if strings.Contains(s.settledLog(), strings.Split(secret, "_")[2]) {
		t.Error("the log contains the secret")
	}
}

// TestLimitsChangeWhileAServerRuns checks that a group's new limits, and a key's new accounts,
// apply to a running service.
func TestLimitsChangeWhileAServerRuns(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--profile", "hosted", "--base-path", "/sluice", "--reads", "key", "--receiver", "0x1",
		"--external-url", "https://blobs.example.org/sluice", "--admin-addr", "off", "--drain-wait", "0s"}})
	secret := strings.TrimSpace(key(t, s.data, "create", "--scopes", "read,write", "--accounts", "0xAB", "--group", "team").stdout)
	bearer := []string{"Authorization", "Bearer " + secret}
	put := func(account string) int {
		return s.do("PUT", blobTarget(account, "name"), []byte("x"), bearer...).status
	}
	if got := put("0xab"); got != 204 {
		t.Fatalf("PUT: %d", got)
	}
	set := func(args ...string) {
		t.Helper()
		if r := sluiceRuns(t, append([]string{"group", "set", "--data", s.data, "team"}, args...)...); r.code != 0 {
			t.Fatalf("group set %q: %+v", args, r)
		}
	}
	set("--stored-bytes", "1")
	s.await("the new quota does not apply", func() bool { return put("0xab") == 403 })
	show := sluiceRuns(t, "group", "show", "--data", s.data, "--json", "team")
	var shown struct{ Used map[string]int64 }
	if err := json.Unmarshal([]byte(show.stdout), &shown); err != nil || shown.Used["storedObjects"] != 1 {
		t.Errorf("group show: %+v, %v, want one object", show, err)
	}
	set("--default", "stored-bytes")
	s.await("the quota still applies", func() bool { return put("0xab") == 204 })
	key(t, s.data, "update", "--accounts", "0xcd", secret)
	s.await("the new accounts do not apply", func() bool { return put("0xab") == 403 && put("0xcd") == 204 })
}
