package commands

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRetryFor kills the server while commands transfer, and starts it again when they have
// reported that it is away. They end as if nothing had happened, except the one that must not wait.
func TestRetryFor(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	s := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true})
	content := e2e.Content(6, 512<<10)
	for _, name := range []string{"a", "b"} { // the system may have received the first one already
		s.Must(204, "PUT", "/v1/blobs/team/stored/"+name, content)
	}
	dir := e2e.MakeTree(t, map[string]string{"big": string(content), "got/none": ""})
	start := func(args ...string) (*exec.Cmd, *e2e.LogBuffer) {
		// The rate leaves the time to end the server.
		c := exec.CommandContext(t.Context(), e2e.Sluice, append(args, "--max-rate", "200KiB", "--url", s.URL)...)
		stderr := &e2e.LogBuffer{}
		c.Stderr = stderr
		testenv.OK(t, c.Start())
		return c, stderr
	}
	big := filepath.Join(dir, "big")
	put, putSays := start("put", big, "team/put", "--part-size", "64KiB")
	get, getSays := start("get", "-r", "team/stored/", filepath.Join(dir, "got"), "-j", "1")
	impatient, impatientSays := start("put", big, "team/impatient", "--part-size", "64KiB", "--retry-for", "0s")
	s.Eventually("the uploads do not begin", func() bool { return len(s.OpenUploads("team")) == 2 })
	s.Eventually("the download does not begin", func() bool { return len(filesWith(t, filepath.Join(dir, "got"), ".sluice-part")) == 1 })
	s.Kill()

	_ = impatient.Wait() // the exit code is checked
	if code := impatient.ProcessState.ExitCode(); code != 1 || strings.Contains(impatientSays.String(), "trying again") {
		t.Errorf("with --retry-for 0s: exit code %d, %s", code, impatientSays)
	}
	const away = "the server is away, trying again: "
	e2e.Await(t, "the commands do not report that the server is away", func() bool {
		return strings.Contains(putSays.String(), away) && strings.Contains(getSays.String(), away)
	})
	s.Restart()
	for _, c := range []*exec.Cmd{put, get} {
		if err := c.Wait(); err != nil {
			t.Errorf("%q: %v\n%s%s", c.Args, err, putSays, getSays)
		}
	}
	s.Holds(e2e.BlobTarget("team", "put"), content)
	for _, name := range []string{"a", "b"} {
		got := testenv.Must(os.ReadFile(filepath.Join(dir, "got", name)))(t)
		testenv.Equal(t, bytes.Equal(got, content), true, "the file %s is the blob", name)
	}
}
