package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// ownContexts makes a test's commands use contexts of its own. It returns their file.
func ownContexts(t *testing.T) string {
	t.Helper()
	dir := testenv.MemoryDir(t)
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} { // as os.UserConfigDir uses them
		t.Setenv(name, dir)
	}
	for _, name := range []string{"SLUICE_URL", "SLUICE_CONTEXT", "SLUICE_KEY", "SLUICE_KEY_FILE"} {
		t.Setenv(name, "")
	}
	config := testenv.Must(os.UserConfigDir())(t)
	return filepath.Join(config, "sluice", "contexts.yaml")
}

func TestContexts(t *testing.T) {
	file := ownContexts(t)
	if r := must(t, "context", "ls"); r.stdout != "" {
		t.Errorf("without contexts: %+v", r)
	}
	key := filepath.Join(testenv.MemoryDir(t), "key")
	testenv.OK(t, os.WriteFile(key, []byte("sluice_a_b\n"), 0o600))
	must(t, "context", "add", "prod", "https://blobs.example.org/sluice/", "--key-file", key)
	// Where no server listens.
	must(t, "context", "add", "local", "http://localhost:1")
	if r := must(t, "context", "ls"); r.stdout != "  local  http://localhost:1\n* prod   https://blobs.example.org/sluice  with a key\n" {
		t.Errorf("the list is %q", r.stdout)
	}
	must(t, "context", "use", "local")
	want := `{"name":"local","url":"http://localhost:1","key":false,"current":true}` + "\n" +
		`{"name":"prod","url":"https://blobs.example.org/sluice","key":true,"current":false}` + "\n"
	if r := must(t, "context", "ls", "--json"); r.stdout != want {
		t.Errorf("the list is %q, want %q", r.stdout, want)
	}
	must(t, "context", "rm", "local")
	for line, code := range map[string]int{"use gone": cli.ExitNotFound, "rm gone": cli.ExitNotFound, "add prod http://h": cli.ExitUsage, "add c http://h": cli.ExitUsage, "add cc h": cli.ExitUsage, "add cc": cli.ExitUsage} {
		if r := sluice(append([]string{"context"}, strings.Fields(line)...)...); r.code != code || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v, want exit code %d and a line", line, r, code)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info, err)
	}
}

// TestServerOfCommands checks how the flags, the environment and the contexts are combined.
func TestServerOfCommands(t *testing.T) {
	ownContexts(t)
	var f cli.ServerFlags
	if s, err := f.Server(""); err != nil || s.URL != "http://localhost:9090" {
		t.Errorf("by default: %+v, %v", s, err)
	}
	must(t, "context", "add", "prod", "https://prod.example")
	if s, err := f.Server(""); err != nil || s.Context != "prod" {
		t.Errorf("the current context: %+v, %v", s, err)
	}
	t.Setenv("SLUICE_URL", "http://variable.example")
	t.Setenv("SLUICE_KEY", "key")
	if s, err := f.Server(""); err != nil || s.URL != "http://variable.example" || s.Key != "key" {
		t.Errorf("a variable: %+v, %v", s, err)
	}
	if s, err := f.Server("prod"); err != nil || s.URL != "https://prod.example" || s.Key != "" {
		t.Errorf("an operand with a context: %+v, %v, want it without the key of the environment", s, err)
	}
	f.Context = "gone"
	if s, err := f.Server(""); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("an unknown context: %+v, %v", s, err)
	}
}
