package commands

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestWatchNamesNoChangeThatItCouldNotPrint: a command that cannot print a change names no position
// behind it, from which another would miss it.
func TestWatchNamesNoChangeThatItCouldNotPrint(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", "/v1/blobs/team/a", []byte("x"))
	full := testenv.Must(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	t.Cleanup(func() { testenv.Check(t, full.Close()) })
	var stderr strings.Builder
	c := exec.CommandContext(t.Context(), e2e.Sluice, "watch", "--url", s.URL, "team", "--after", "start")
	c.Stdout, c.Stderr = full, &stderr
	if err := c.Run(); c.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "no space left on device") {
		t.Errorf("the command ends with %v: %s", err, &stderr)
	}
	if strings.Contains(stderr.String(), "continue with") {
		t.Errorf("stderr is %s", &stderr)
	}
}
