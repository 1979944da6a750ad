package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// Transferred is one line that the client's script prints: the outcome of one case.
type Transferred struct {
	Case          string
	BlobName      string
	Size          int
	Sent          string
	Received      string
	ContentLength *int
	Message       string
	Error         string
}

// RunClient uploads and downloads with the public client.
func RunClient(t *testing.T, version, url, key string) []Transferred {
	t.Helper()
	args := []string{version, url}
	if key != "" {
		args = append(args, key)
	}
	return Script[Transferred](t, "transfer.mjs", args...)
}

// Script runs a script from the client folder and decodes the JSON lines that it prints.
func Script[Line any](t *testing.T, name string, args ...string) []Line {
	t.Helper()
	return ScriptIn[Line](t, nil, name, args...)
}

// ScriptIn is like Script, with additional environment variables.
func ScriptIn[Line any](t *testing.T, environment []string, name string, args ...string) []Line {
	t.Helper()
	dir, err := testenv.ClientDir()
	testenv.OK(t, err)
	node := exec.CommandContext(t.Context(), "node", append([]string{name}, args...)...)
	node.Dir = dir
	node.Env = append(os.Environ(), environment...)
	var stderr strings.Builder
	node.Stderr = &stderr
	out, err := node.Output()
	if err != nil {
		t.Fatalf("node %s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	var lines []Line
	scanner := bufio.NewScanner(bytes.NewReader(out))
	for scanner.Scan() {
		var line Line
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("%s printed %q: %v", name, scanner.Text(), err)
		}
		lines = append(lines, line)
	}
	testenv.OK(t, scanner.Err())
	return lines
}

// CheckTransfer checks the public client's report about one transfer.
func CheckTransfer(t *testing.T, s *Server, line Transferred) {
	t.Helper()
	if line.Case == "absent" {
		if want := "Failed to download blob: 404 Not Found"; line.Message != want {
			t.Errorf("for a missing blob the client reports %q %s, want %q", line.Message, line.Error, want)
		}
		return
	}
	if line.Error != "" {
		t.Errorf("%s: %s", line.Case, line.Error)
		return
	}
	if len(line.Sent) != 64 || line.Received != line.Sent || line.ContentLength == nil || *line.ContentLength != line.Size {
		t.Errorf("%s: %+v", line.Case, line)
	}
	if line.BlobName == "" || line.Case == "overwrite" && line.BlobName != "ranged" {
		return
	}
	// Other clients can read the stored blob.
	if r := s.Do("GET", BlobTarget("0x1", line.BlobName), nil); r.Status != 200 || Digest(r.Body) != line.Sent {
		t.Errorf("%s: a plain GET got %d with %d bytes, or other bytes", line.Case, r.Status, len(r.Body))
	}
}
