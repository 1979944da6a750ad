package e2e

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostedBase is the hosted services' base path in these tests.
const hostedBase = "/sluice"

// hostedChoices returns the flags without which a hosted service does not start.
func hostedChoices(reads string) []string {
	return []string{"--profile", "hosted", "--base-path", hostedBase, "--external-url", "https://blobs.example.org" + hostedBase,
		"--reads", reads, "--receiver", "0x7a"}
}

// startHosted runs a hosted service with the given access to reads. It listens on free ports only.
// Its requests are sent without a key; see as.
func startHosted(t testing.TB, reads string, flags ...string) *server {
	t.Helper()
	return start(t, options{flags: slices.Concat(hostedChoices(reads), []string{"--admin-addr", "127.0.0.1:0", "--drain-wait", "0s"}, flags)})
}

// newKey creates a key with the key command.
func (s *server) newKey(args ...string) string {
	s.t.Helper()
	r := key(s.t, s.data, "create", args...)
	if !credential.MatchString(r.stdout) {
		s.t.Fatalf("key create prints %q, want only the secret", r.stdout)
	}
	return strings.TrimSpace(r.stdout)
}

// as returns the server as a key's holder sees it, or without a key if key is "".
func (s *server) as(key string) *server {
	at := *s
	at.key = key
	return &at
}

// asAdmin returns the server as the holder of an all-scopes key sees it.
func (s *server) asAdmin() *server {
	s.t.Helper()
	return s.as(s.newKey("--scopes", "admin", "--all-accounts"))
}

// TestRevokedKeyStaysRevoked revokes a key while the service runs. The key must stay revoked after
// a restart, and the other keys of its group must keep working.
func TestRevokedKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	early := strings.TrimSpace(key(t, data, "create", "--scopes", "read,write", "--accounts", "bob", "--group", "team").stdout)
	s := start(t, options{data: data, flags: append(hostedChoices("key"), "--admin-addr", "off", "--drain-wait", "0s")})
	late := s.newKey("--scopes", "read", "--accounts", "bob", "--group", "team")
	target := blobTarget("bob", "name")
	s.as(early).must(204, "PUT", target, []byte("kept"))
	s.as(late).must(200, "GET", target, nil)
	s.must(200, "GET", target, nil, "X-Api-Key", late)

	key(t, data, "revoke", early)
	s.await("a revoked key is still accepted", func() bool { return s.as(early).do("GET", target, nil).status == 401 })
	s.as(late).must(200, "GET", target, nil)
	s.stop()
	s.restart()
	checkProblem(t, s.as(early).do("GET", target, nil), 401, "credential_unknown")
	checkProblem(t, s.do("GET", target, nil, "X-Api-Key", early), 401, "credential_unknown")
	if r := s.as(late).must(200, "GET", target, nil); string(r.body) != "kept" {
		t.Errorf("after the restart the blob is %v", r)
	}
	key(t, data, "revoke", late)
	s.await("a revoked key is still accepted", func() bool { return s.as(late).do("GET", target, nil).status == 401 })
}

// TestRevokedKeyCommitsNothing revokes a key while a client sends a PUT with it. The service must
// refuse the PUT like a new request, although the key was valid when it began. It completes a GET
// that began before.
func TestRevokedKeyCommitsNothing(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "key")
	secret, other := s.newKey("--scopes", "read,write", "--all-accounts"), s.newKey("--scopes", "read,write", "--all-accounts")
	large := content(1, 16<<20) // more than a connection's buffers hold
	s.as(other).must(204, "PUT", blobTarget("bob", "read"), large)
	request, err := s.as(secret).request("GET", blobTarget("bob", "read"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, name string) (body *io.PipeWriter, answer chan response) {
		source, sink := io.Pipe()
		request, err := s.as(key).request("PUT", blobTarget("bob", name), source, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer = make(chan response, 1)
		go func() {
			defer close(answer)
			r, err := s.send(request)
			if err != nil {
				t.Errorf("PUT: %v", err)
			}
			answer <- r
		}()
		if _, err := sink.Write(content(2, 4<<20)); err != nil { // returns when the service reads the body
			t.Fatal(err)
		}
		return sink, answer
	}
	body, refused := put(secret, "late")
	otherBody, stored := put(other, "fine")

	key(t, s.data, "revoke", secret)
	s.await("a revoked key is still accepted", func() bool { return s.as(secret).do("GET", blobTarget("bob", "none"), nil).status == 401 })
	for _, one := range []*io.PipeWriter{body, otherBody} {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkProblem(t, <-refused, 401, "credential_unknown")
	if r := <-stored; r.status != 204 {
		t.Errorf("the PUT with another key: %v", r)
	}
	s.as(other).must(404, "GET", blobTarget("bob", "late"), nil)
	if got, err := collect(reading); err != nil || !bytes.Equal(got.body, large) {
		t.Errorf("the GET that began before got %d bytes, %v", len(got.body), err)
	}
}

// TestKeyExpires checks that a key with a lifetime expires.
func TestKeyExpires(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "public")
	var brief *server
	longEnough(t, 3*time.Second, func(life time.Duration) bool {
		brief = s.as(s.newKey("--scopes", "write", "--all-accounts", "--expires", life.String()))
		return brief.do("PUT", blobTarget("bob", "name"), []byte("kept")).status == 204
	})
	s.await("an expired key is still accepted", func() bool { return brief.do("PUT", blobTarget("bob", "name"), nil).status == 401 })
	// Reads are public, but not with an invalid key.
	checkProblem(t, brief.do("GET", blobTarget("bob", "name"), nil), 401, "credential_unknown")
	s.must(200, "GET", blobTarget("bob", "name"), nil)
}

// TestInvalidCredentials checks that all malformed and wrong credentials get the same response.
func TestInvalidCredentials(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "key")
	good := s.newKey("--scopes", "admin", "--all-accounts")
	target := blobTarget("bob", "name")
	s.as(good).must(204, "PUT", target, []byte("kept"))
	checkProblem(t, s.do("GET", target, nil), 401, "credential_required")
	last := good[len(good)-1:]
	other := map[bool]string{true: "b", false: "a"}[last == "a"]
	var first string
	for i, h := range []headers{
		{"Authorization", "Bearer " + good[:len(good)-1] + other},
		{"Authorization", "Bearer " + good[:len(good)-1]},
		{"Authorization", "Bearer " + good + "a"},
		{"Authorization", "Bearer " + strings.ToUpper(good)},
		{"Authorization", "Bearer " + strings.Replace(good, "_", "_a", 1)},
		{"Authorization", "Bearer sluice_" + strings.Repeat("a", 16) + "_" + strings.Repeat("a", 56)},
		{"X-Api-Key", "nonsense"},
		{"X-Api-Key", "Bearer " + good},
	} {
		r := s.do("GET", target, nil, h...)
		checkProblem(t, r, 401, "credential_unknown")
		if got := r.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer ") {
			t.Errorf("%q: WWW-Authenticate is %q", h, got)
		}
		if i == 0 {
			first = member(t, r, "detail")
		} else if got := member(t, r, "detail"); got != first {
			t.Errorf("%q: %q, but a wrong secret gets %q", h, got, first)
		}
	}
	for _, h := range []headers{
		{"Authorization", "Bearer"}, {"Authorization", "Bearer "}, {"Authorization", "Basic " + good}, {"Authorization", good}, {"Authorization", ""},
		{"X-Api-Key", ""}, {"X-Api-Key", good, "X-Api-Key", good}, {"Authorization", "Bearer " + good, "X-Api-Key", good},
		{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good},
	} {
		checkProblem(t, s.do("GET", target, nil, h...), 401, "credential_unknown")
	}
	for _, h := range []headers{{"Authorization", "bearer " + good}, {"Authorization", "Bearer  " + good}, {"X-Api-Key", good}} {
		s.must(200, "GET", target, nil, h...)
	}
}

// TestHostedRefusesDevelopment checks that a hosted service does not start with a setting for
// development or without a required one, and that its message names the flag.
func TestHostedRefusesDevelopment(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	serve := func(flags []string, more ...string) result {
		return sluiceRuns(t, slices.Concat([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, flags, more)...)
	}
	needed := []string{"--base-path", "--external-url", "--reads", "--receiver"}
	if r := serve([]string{"--profile", "hosted"}); r.code != 2 || r.stdout != "" {
		t.Errorf("without required flags: exit code %d, standard output %q", r.code, r.stdout)
	} else {
		for _, flag := range needed {
			if !strings.Contains(r.stderr, flag) {
				t.Errorf("without required flags, %s is not named: %s", flag, r.stderr)
			}
		}
	}
	all := hostedChoices("key")
	for _, flag := range needed {
		at := slices.Index(all, flag)
		without := slices.Delete(slices.Clone(all), at, at+2)
		if flag == "--base-path" {
			without = append(without, "--external-url", "https://blobs.example.org")
		}
		r := serve(without)
		checkWrongUsage(t, r, flag+":")
		for _, other := range needed {
			if other != flag && strings.Contains(r.stderr, other+":") {
				t.Errorf("without %s the message also names %s: %s", flag, other, r.stderr)
			}
		}
		// An empty value counts as not set.
		checkWrongUsage(t, serve(append(slices.Clone(without), flag, "")), flag)
	}
	checkWrongUsage(t, serve(all, "--open-to-network"), "--open-to-network")
	checkWrongUsage(t, serve(all, "--allowed-hosts", "blobs.example.org"), "--allowed-hosts")
	checkWrongUsage(t, serve(all, "--cors-origins", "https://app.example.org"), "--cors-origins")
	checkWrongUsage(t, serve(all, "--reads", "everybody"), "--reads")
	checkWrongUsage(t, serve(all, "--external-url", "https://blobs.example.org/other"), "--external-url")
	checkWrongUsage(t, serve(all, "--trusted-proxies", "nginx"), "--trusted-proxies")
	checkWrongUsage(t, serve(all, "--receiver", "invalid"), "--receiver")
	if entries, err := filepath.Glob(filepath.Join(data, "*")); err != nil || len(entries) != 0 {
		t.Errorf("failed starts left %q, %v", entries, err)
	}
}
