package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequired(t *testing.T) {
	tests := []struct {
		list string
		want bool
	}{
		{"", false},
		{"all", true},
		{"npm", true},
		{"strace,npm", true},
		{"strace, npm", true},
		{"strace", false},
		{"npmx", false},
	}
	for _, test := range tests {
		Equal(t, required(test.list, NPM), test.want, "required(%q, npm)", test.list)
	}
}

// TestRequirePolicy runs this test binary again with a dependency that cannot exist. The inner test
// must be skipped without the variable and fail with it.
func TestRequirePolicy(t *testing.T) {
	if os.Getenv("SLUICE_TESTENV_INNER") == "1" {
		if testing.Short() {
			servers = append(servers, "unobtainium")
		}
		Require(t, "unobtainium")
		t.Fatal("Require returned although the dependency is missing")
	}
	self := Must(os.Executable())(t)
	run := func(require string, flags ...string) (string, error) {
		inner := exec.Command(self, append(flags, "-test.run=^TestRequirePolicy$", "-test.v")...)
		inner.Env = append(os.Environ(), "SLUICE_TESTENV_INNER=1", requireVariable+"="+require)
		out, err := inner.CombinedOutput()
		return string(out), err
	}
	if out, err := run(""); err != nil || !strings.Contains(out, "SKIPPED TestRequirePolicy: it needs unobtainium") {
		t.Errorf("not required: want a skip with a message, got %v:\n%s", err, out)
	}
	if out, err := run("all"); err == nil || !strings.Contains(out, "unobtainium is required by "+requireVariable) {
		t.Errorf("required: want a failure, got %v:\n%s", err, out)
	}
	if out, err := run("", "-test.short"); err != nil || !strings.Contains(out, "-short leaves out tests that need unobtainium") {
		t.Errorf("short: want a skip, got %v:\n%s", err, out)
	}
	if out, err := run("all", "-test.short"); err == nil || !strings.Contains(out, "unobtainium is required by "+requireVariable) {
		t.Errorf("short and required: want a failure, got %v:\n%s", err, out)
	}
}

func TestRootHoldsGoMod(t *testing.T) {
	root := Must(Root())(t)
	Check(t, Error(os.Stat(filepath.Join(root, "go.mod"))))
}
