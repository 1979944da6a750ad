package e2e

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/test/testenv"

	_ "modernc.org/sqlite" // the driver that Execute opens
)

// Sluice runs a command on the server.
func (s *Server) Sluice(args ...string) Result {
	s.T.Helper()
	return SluiceRuns(s.T, append(args, "--url", s.URL)...)
}

// MakeTree writes files below a new folder.
func MakeTree(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o600)))
	}
	return dir
}

// RunIn runs a program in a folder and returns its output. It ends the test if the program fails.
func RunIn(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// Credential matches the output of key create.
var Credential = regexp.MustCompile(`^sluice_([a-z2-7]+)_([a-z2-7]+)\n$`)

// Key runs a key command, which must succeed.
func Key(t testing.TB, data, command string, args ...string) Result {
	t.Helper()
	r := SluiceRuns(t, append([]string{"key", command, "--data", data}, args...)...)
	if r.Code != 0 {
		t.Fatalf("key %s %q: exit code %d: %s", command, args, r.Code, r.Stderr)
	}
	return r
}

// S3Key runs a key command that adds an S3 secret, sealed with the key in a file, and returns the
// key's id and the secret.
func S3Key(t testing.TB, data, file, command string, args ...string) (id, secret string) {
	t.Helper()
	r := Key(t, data, command, append([]string{"--s3", "--s3-secret-key-file", file}, args...)...)
	for line := range strings.Lines(r.Stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "AWS_ACCESS_KEY_ID":
			id = value
		case "AWS_SECRET_ACCESS_KEY":
			secret = value
		}
	}
	if id == "" || secret == "" {
		t.Fatalf("key %s %q prints %q", command, args, r.Stdout)
	}
	return id, secret
}

// KeyState returns the state that key show prints.
func KeyState(t *testing.T, data, id string) string {
	t.Helper()
	var shown struct{ ID, State string }
	if r := Key(t, data, "show", "--json", id); json.Unmarshal([]byte(r.Stdout), &shown) != nil || shown.ID != id {
		t.Fatalf("key show: %q", r.Stdout)
	}
	return shown.State
}

// Execute runs statements on a data folder's database.
func Execute(t testing.TB, data string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "meta.db"))
	testenv.OK(t, err)
	var errs []error
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		errs = append(errs, err)
	}
	testenv.OK(t, errors.Join(append(errs, db.Close())...))
}
