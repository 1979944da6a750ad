package nodes

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRevokedKeyStaysRevoked revokes a key while the service runs. The key must stay revoked after
// a restart, and the other keys of its group must keep working.
func TestRevokedKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	early := strings.TrimSpace(e2e.Key(t, data, "create", "--scopes", "read,write", "--accounts", "bob", "--group", "team").Stdout)
	s := e2e.Start(t, e2e.Options{Data: data, Flags: append(e2e.HostedChoices("key"), "--admin-addr", "off", "--drain-wait", "0s")})
	late := s.NewKey("--scopes", "read", "--accounts", "bob", "--group", "team")
	target := e2e.BlobTarget("bob", "name")
	s.As(early).Must(204, "PUT", target, []byte("kept"))
	s.As(late).Must(200, "GET", target, nil)
	s.Must(200, "GET", target, nil, "X-Api-Key", late)

	e2e.Key(t, data, "revoke", early)
	s.Await("a revoked key is still accepted", func() bool { return s.As(early).Do("GET", target, nil).Status == 401 })
	s.As(late).Must(200, "GET", target, nil)
	s.Stop()
	s.Restart()
	e2e.CheckProblem(t, s.As(early).Do("GET", target, nil), 401, "credential_unknown")
	e2e.CheckProblem(t, s.Do("GET", target, nil, "X-Api-Key", early), 401, "credential_unknown")
	if r := s.As(late).Must(200, "GET", target, nil); string(r.Body) != "kept" {
		t.Errorf("after the restart the blob is %v", r)
	}
	e2e.Key(t, data, "revoke", late)
	s.Await("a revoked key is still accepted", func() bool { return s.As(late).Do("GET", target, nil).Status == 401 })
}

// TestRevokedKeyCommitsNothing revokes a key while a client sends a PUT with it. The service must
// refuse the PUT like a new request, although the key was valid when it began. It completes a GET
// that began before.
// Invariant 35.
func TestRevokedKeyCommitsNothing(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key")
	secret, other := s.NewKey("--scopes", "read,write", "--all-accounts"), s.NewKey("--scopes", "read,write", "--all-accounts")
	large := e2e.Content(1, 16<<20) // more than a connection's buffers hold
	s.As(other).Must(204, "PUT", e2e.BlobTarget("bob", "read"), large)
	request, err := s.As(secret).Request("GET", e2e.BlobTarget("bob", "read"), nil, nil)
	testenv.OK(t, err)
	reading, err := s.Client.Do(request)
	testenv.OK(t, err)
	put := func(key, name string) (body *io.PipeWriter, answer chan e2e.Response) {
		source, sink := io.Pipe()
		answer = make(chan e2e.Response, 1)
		go func() {
			defer close(answer)
			r, err := s.As(key).PutFrom(e2e.BlobTarget("bob", name), source, -1)
			if err != nil {
				t.Errorf("PUT: %v", err)
			}
			answer <- r
		}()
		if _, err := sink.Write(e2e.Content(2, 4<<20)); err != nil { // returns when the service reads the body
			t.Fatal(err)
		}
		return sink, answer
	}
	body, refused := put(secret, "late")
	otherBody, stored := put(other, "fine")

	e2e.Key(t, s.Data, "revoke", secret)
	s.Await("a revoked key is still accepted", func() bool { return s.As(secret).Do("GET", e2e.BlobTarget("bob", "none"), nil).Status == 401 })
	for _, one := range []*io.PipeWriter{body, otherBody} {
		testenv.OK(t, one.Close())
	}
	e2e.CheckProblem(t, <-refused, 401, "credential_unknown")
	if r := <-stored; r.Status != 204 {
		t.Errorf("the PUT with another key: %v", r)
	}
	s.As(other).Must(404, "GET", e2e.BlobTarget("bob", "late"), nil)
	if got, err := e2e.Collect(reading); err != nil || !bytes.Equal(got.Body, large) {
		t.Errorf("the GET that began before got %d bytes, %v", len(got.Body), err)
	}
}

// TestHostedRefusesDevelopment checks that a hosted service does not start with a setting for
// development or without a required one, and that its message names the flag.
// Invariant 46.
func TestHostedRefusesDevelopment(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	serve := func(flags []string, more ...string) e2e.Result {
		return e2e.SluiceRuns(t, slices.Concat([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, flags, more)...)
	}
	needed := []string{"--base-path", "--external-url", "--reads", "--receiver"}
	if r := serve([]string{"--profile", "hosted"}); r.Code != 2 || r.Stdout != "" {
		t.Errorf("without required flags: exit code %d, standard output %q", r.Code, r.Stdout)
	} else {
		for _, flag := range needed {
			if !strings.Contains(r.Stderr, flag) {
				t.Errorf("without required flags, %s is not named: %s", flag, r.Stderr)
			}
		}
	}
	all := e2e.HostedChoices("key")
	for _, flag := range needed {
		at := slices.Index(all, flag)
		without := slices.Delete(slices.Clone(all), at, at+2)
		if flag == "--base-path" {
			without = append(without, "--external-url", "https://blobs.example.org")
		}
		r := serve(without)
		e2e.CheckWrongUsage(t, r, flag+":")
		for _, other := range needed {
			if other != flag && strings.Contains(r.Stderr, other+":") {
				t.Errorf("without %s the message also names %s: %s", flag, other, r.Stderr)
			}
		}
		// An empty value counts as not set.
		e2e.CheckWrongUsage(t, serve(append(slices.Clone(without), flag, "")), flag)
	}
	e2e.CheckWrongUsage(t, serve(all, "--open-to-network"), "--open-to-network")
	e2e.CheckWrongUsage(t, serve(all, "--allowed-hosts", "blobs.example.org"), "--allowed-hosts")
	e2e.CheckWrongUsage(t, serve(all, "--cors-origins", "https://app.example.org"), "--cors-origins")
	e2e.CheckWrongUsage(t, serve(all, "--reads", "everybody"), "--reads")
	e2e.CheckWrongUsage(t, serve(all, "--external-url", "https://blobs.example.org/other"), "--external-url")
	e2e.CheckWrongUsage(t, serve(all, "--trusted-proxies", "nginx"), "--trusted-proxies")
	e2e.CheckWrongUsage(t, serve(all, "--receiver", "invalid"), "--receiver")
	if entries, err := filepath.Glob(filepath.Join(data, "*")); err != nil || len(entries) != 0 {
		t.Errorf("failed starts left %q, %v", entries, err)
	}
}
