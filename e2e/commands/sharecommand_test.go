package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestShareCommand gives a hosted service's links to callers without a key, as docs/cli.md does.
func TestShareCommand(t *testing.T) {
	t.Parallel()
	dir := testenv.MemoryDir(t)
	masters, secret := filepath.Join(dir, "masters"), filepath.Join(dir, "team.s3")
	testenv.OK(t, os.WriteFile(masters, []byte(strings.Repeat("01", 32)), 0o600))
	s := e2e.StartHosted(t, "key", "--s3-secret-key-file", masters)
	created := e2e.Key(t, s.Data, "create", "--scopes", "read,write", "--accounts", "team", "--s3", "--s3-secret-key-file", masters).Stdout
	testenv.OK(t, os.WriteFile(secret, []byte(created), 0o600))
	share := func(args ...string) string {
		t.Helper()
		r := s.Sluice(append([]string{"share", "--secret-file", secret}, args...)...)
		path, ok := strings.CutPrefix(strings.TrimSpace(r.Stdout), s.URL)
		if r.Code != 0 || !ok {
			t.Fatalf("share %q: %+v, want a URL of %s", args, r, s.URL)
		}
		return path
	}
	create := share("--write", "team/a/new file")
	s.Must(204, "PUT", create, []byte("created"))
	e2e.CheckProblem(t, s.Do("PUT", create, []byte("again")), 412, "precondition_failed")
	read := share("team/a/new file", "--for", "1h")
	r := s.Must(200, "GET", read, nil)
	testenv.Equal(t, string(r.Body), "created", "the read blob")
	testenv.Equal(t, r.Header.Get("Cache-Control"), "private, no-store", "Cache-Control")
	testenv.Equal(t, string(s.Must(206, "GET", read, nil, "Range", "bytes=1-2").Body), "re", "a range")
	s.Must(200, "HEAD", read, nil)
	below, query, _ := strings.Cut(share("team/a/"), "?")
	testenv.Equal(t, string(s.Must(200, "GET", below+"new%20file?"+query, nil).Body), "created", "the blob below the prefix")
	e2e.CheckProblem(t, s.Do("GET", create, nil), 403, "link_forbidden")
	e2e.CheckProblem(t, s.Do("DELETE", read, nil), 403, "link_forbidden")

	id, _, _ := strings.Cut(strings.TrimPrefix(created, "sluice_"), "_")
	e2e.Key(t, s.Data, "update", "--s3", "--s3-secret-key-file", masters, id)
	s.Await("the link is valid after its secret was replaced", func() bool { return s.Do("GET", read, nil).Status == 401 })
}
