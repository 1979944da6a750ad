package clients

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

// traceCommand runs a command of sluice under strace, and returns the record of some of its system
// calls.
func traceCommand(t *testing.T, calls string, args ...string) string {
	t.Helper()
	testenv.Require(t, testenv.Strace)
	record := filepath.Join(t.TempDir(), "trace")
	line := append([]string{"-f", "-q", "-y", "-e", "trace=" + calls, "-e", "signal=none", "-o", record, e2e.Sluice}, args...)
	if out, err := exec.CommandContext(t.Context(), "strace", line...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(record)
	testenv.OK(t, err)
	return string(text)
}

// TestFilesAreSentWithoutCopies counts the bytes that an upload sends with sendfile: all but the
// first ones of each part, which it sends with the header.
func TestFilesAreSentWithoutCopies(t *testing.T) {
	t.Parallel()
	const part, parts, buffer = 1 << 20, 4, 64 << 10
	s := e2e.Start(t, e2e.Options{})
	data := e2e.Content(1, part*parts)
	dir := e2e.MakeTree(t, map[string]string{"file": string(data)})
	record := traceCommand(t, "sendfile", "put", filepath.Join(dir, "file"), "team/file", "--part-size", "1MiB", "--url", s.URL, "-q")
	sent := int64(0)
	for line := range strings.Lines(record) {
		m := e2e.WholeCall.FindStringSubmatch(line)
		if m == nil {
			m = e2e.ResumedCall.FindStringSubmatch(line)
		}
		if m != nil {
			sent += max(0, e2e.Number(t, m[3]))
		}
	}
	if least := int64(part*parts - parts*buffer); sent < least || sent > part*parts {
		t.Errorf("%d bytes were sent with sendfile, want at least %d:\n%s", sent, least, e2e.Tail(record))
	}
	if got := s.Must(200, "GET", "/v1/blobs/team/file", nil).Body; !bytes.Equal(got, data) {
		t.Errorf("%d other bytes are stored", len(got))
	}
}

// TestDownloadsAreWrittenEarly checks that a download starts to write each range to disk when it
// has arrived, and syncs the file before it renames it.
func TestDownloadsAreWrittenEarly(t *testing.T) {
	t.Parallel()
	const ranges = 3 // of 16 MiB
	s := e2e.Start(t, e2e.Options{})
	data := e2e.Content(2, ranges<<24-1)
	s.Must(204, "PUT", "/v1/blobs/team/file", data)
	target := filepath.Join(t.TempDir(), "target")
	record := traceCommand(t, "sync_file_range,fsync,renameat", "get", "team/file", target, "--url", s.URL, "-q")
	var order []string
	for line := range strings.Lines(record) {
		name, args, _ := strings.Cut(line[strings.IndexByte(line, ' ')+1:], "(")
		// Not the state file, which the command also syncs and renames.
		if strings.Contains(args, ".sluice-part") && !strings.Contains(line, "resumed>") {
			order = append(order, strings.TrimSpace(name))
		}
	}
	if want := []string{"sync_file_range", "sync_file_range", "sync_file_range", "fsync", "renameat"}; !slices.Equal(order, want) {
		t.Errorf("the calls for the temporary file are %q, want %q:\n%s", order, want, e2e.Tail(record))
	}
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
