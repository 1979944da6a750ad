package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// transferred is one line that the client's script prints: the outcome of one case.
type transferred struct {
	Case          string
	BlobName      string
	Size          int
	Sent          string
	Received      string
	ContentLength *int
	Message       string
	Error         string
}

// TestPublicClient uploads and downloads with the public npm client, unmodified, in its oldest and
// its newest version.
func TestPublicClient(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	tests := []struct {
		name    string
		version string
		base    string
		key     string
		cases   int
	}{
		{"0.1.0", "0.1.0", "", "", 25},
		{"0.1.0 with a key", "0.1.0", "", "a-key-that-means-nothing-here", 25},
		{"0.1.0 under a base path", "0.1.0", "/sluice", "", 25},
		{"0.0.4", "0.0.4", "", "", 21},
		{"0.0.4 with a key", "0.0.4", "", "a-key-that-means-nothing-here", 21},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options{addr: "localhost:0"}
			if test.base != "" {
				o.flags = []string{"--base-path", test.base}
			}
			s := start(t, o)
			lines := runClient(t, test.version, s.url, test.key)
			if len(lines) != test.cases {
				t.Errorf("the client ran %d cases, want %d", len(lines), test.cases)
			}
			for _, line := range lines {
				checkTransfer(t, s, line)
			}
		})
	}
}

// runClient uploads and downloads with the public client.
func runClient(t *testing.T, version, url, key string) []transferred {
	t.Helper()
	args := []string{version, url}
	if key != "" {
		args = append(args, key)
	}
	return script[transferred](t, "transfer.mjs", args...)
}

// script runs a script from the client folder and decodes the JSON lines that it prints.
func script[Line any](t *testing.T, name string, args ...string) []Line {
	t.Helper()
	return scriptIn[Line](t, nil, name, args...)
}

// scriptIn is like script, with additional environment variables.
func scriptIn[Line any](t *testing.T, environment []string, name string, args ...string) []Line {
	t.Helper()
	dir, err := testenv.ClientDir()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func checkTransfer(t *testing.T, s *server, line transferred) {
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
	// Other clients can read what the client stored.
	if r := s.do("GET", blobTarget("0x1", line.BlobName), nil); r.status != 200 || digest(r.body) != line.Sent {
		t.Errorf("%s: a plain GET got %d with %d bytes, or other bytes", line.Case, r.status, len(r.body))
	}
}
