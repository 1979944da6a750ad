// Package s3 has black-box tests of S3's interface by its real clients: command lines, SDKs, and
// the tests of another gateway.
package s3

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// start starts a local instance that serves S3.
func start(t *testing.T, flags ...string) *e2e.Server {
	t.Helper()
	return e2e.Start(t, e2e.Options{Flags: append([]string{"--s3-addr", "localhost:0"}, flags...)})
}

// client has the shared environment of one server's clients: a folder, which is also the home, and
// their variables.
type client struct {
	t       *testing.T
	dir     string
	environ []string
}

// newClient returns a server's client, with any credentials.
func newClient(t *testing.T, s *e2e.Server) *client {
	t.Helper()
	testenv.Require(t, testenv.S3Clients)
	dir := t.TempDir()
	environ := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "AWS_") || strings.HasPrefix(pair, "RCLONE_") || strings.HasPrefix(pair, "RESTIC_")
	})
	return &client{t, dir, append(environ, "HOME="+dir, "S3="+s.S3, "HOST="+strings.TrimPrefix(s.S3, "http://"),
		"AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any", "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true",
		"RCLONE_S3_PROVIDER=Other", "RCLONE_S3_ENDPOINT="+s.S3, "RCLONE_S3_ENV_AUTH=true", "RCLONE_CONFIG="+filepath.Join(dir, "rclone.conf"),
		"RESTIC_PASSWORD=secret", "RESTIC_REPOSITORY=s3:"+s.S3+"/team/restic", "RESTIC_CACHE_DIR="+filepath.Join(dir, "cache"))}
}

// write writes a file into the folder and returns its content.
func (c *client) write(name, content string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	testenv.OK(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	testenv.OK(c.t, os.WriteFile(path, []byte(content), 0o600))
	return content
}

// read returns a file's content.
func (c *client) read(name string) string {
	c.t.Helper()
	return string(testenv.Must(os.ReadFile(filepath.Join(c.dir, name)))(c.t))
}

// sh runs a script, in which a command that fails ends it, and returns its output. It fails the
// test if the script does.
func (c *client) sh(script string) string {
	c.t.Helper()
	out, err := c.try(script)
	if err != nil {
		c.t.Fatalf("%v: %s\n%s", err, script, out)
	}
	return out
}

// try is sh, and returns the script's error.
func (c *client) try(script string) (string, error) {
	command := exec.CommandContext(c.t.Context(), "bash", "-euo", "pipefail", "-c", `aws() { /usr/bin/aws --endpoint-url "$S3" "$@"; }`+"\n"+script)
	command.Dir, command.Env = c.dir, c.environ
	var out, diagnosis bytes.Buffer
	command.Stdout, command.Stderr = &out, &diagnosis
	err := command.Run()
	if err != nil {
		return out.String() + diagnosis.String(), err
	}
	return out.String(), nil
}

// bytesOf returns n bytes that are not compressible and differ between seeds.
func bytesOf(n int, seed uint64) string { return string(e2e.Content(seed, n)) }
