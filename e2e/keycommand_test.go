package e2e

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// credential is what key create prints.
var credential = regexp.MustCompile(`^sluice_([a-z2-7]+)_([a-z2-7]+)\n$`)

// key runs a command for keys that has to succeed.
func key(t testing.TB, data, command string, args ...string) result {
	t.Helper()
	r := sluiceRuns(t, append([]string{"key", command, "--data", data}, args...)...)
	if r.code != 0 {
		t.Fatalf("key %s %q: exit code %d: %s", command, args, r.code, r.stderr)
	}
	return r
}

// keyState gives what key show tells of the state.
func keyState(t *testing.T, data, id string) string {
	t.Helper()
	var shown struct{ ID, State string }
	if r := key(t, data, "show", "--json", id); json.Unmarshal([]byte(r.stdout), &shown) != nil || shown.ID != id {
		t.Fatalf("key show: %q", r.stdout)
	}
	return shown.State
}

// TestKeyCommandBesideAServer: keys are made and ended while a server runs on
// the folder, which does not mind; they are there after its restart; and the
// secret is printed once.
func TestKeyCommandBesideAServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	r := key(t, s.data, "create", "--scopes", "read,write", "--all-accounts", "--label", "first")
	found := credential.FindStringSubmatch(r.stdout)
	if found == nil {
		t.Fatalf("key create prints %q, want the secret alone", r.stdout)
	}
	id, secret := found[1], found[2]
	if !strings.Contains(r.stderr, id) || !strings.Contains(r.stderr, "first") {
		t.Errorf("key create tells %q", r.stderr)
	}
	s.must(204, "PUT", blobTarget("0x1", "name"), []byte("kept"))
	list := key(t, s.data, "list", "--json")
	if strings.Count(list.stdout, "\n") != 1 || !strings.Contains(list.stdout, id) {
		t.Errorf("key list prints %q", list.stdout)
	}
	for _, text := range []string{r.stderr, list.stdout, list.stderr, s.log.String(), key(t, s.data, "show", id).stdout} {
		if strings.Contains(text, secret) {
			t.Errorf("the secret stands in %q", text)
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

// TestKeyCommandBeforeTheFirstStart: the folder that it makes is one that serve
// takes.
func TestKeyCommandBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	found := credential.FindStringSubmatch(key(t, data, "create", "--scopes", "admin", "--accounts", "0xAB").stdout)
	if found == nil {
		t.Fatal("key create does not print the secret alone")
	}
	s := start(t, options{data: data})
	s.must(204, "PUT", blobTarget("0x1", "name"), []byte("x"))
	if state := keyState(t, data, found[1]); state != "active" {
		t.Errorf("under the server the key is %s", state)
	}
}

// TestKeysOfAHostedService: a key that is made while the service runs opens it,
// and one that is revoked does so no more.
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
	s.await("a revoked key is still taken", func() bool { return s.do("GET", target, nil, bearer...).status == 401 })
	if strings.Contains(s.log.String(), strings.Split(secret, "_")[2]) {
		t.Error("the secret stands in the log")
	}
}
