package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestFaultsApply checks that the list of faults is true: the lines that each
// replaces stand in its file once, and no name stands twice.
func TestFaultsApply(t *testing.T) {
	root := rootOf(t)
	faults, err := readFaults(root)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range faults {
		if names[f.name] {
			t.Errorf("%s stands twice", f.name)
		}
		names[f.name] = true
		text, err := os.ReadFile(filepath.Join(root, f.file))
		if err != nil {
			t.Error(err)
			continue
		}
		faulty, err := f.apply(string(text))
		if err != nil {
			t.Error(err)
		} else if faulty == string(text) {
			t.Errorf("%s changes nothing", f.name)
		}
	}
}

// TestSurvivorsAreThere checks that each line that survivors.txt excuses is
// still in its file.
func TestSurvivorsAreThere(t *testing.T) {
	root := rootOf(t)
	list, err := readSurvivors(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		text, err := os.ReadFile(filepath.Join(root, s.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(text), s.line) {
			t.Errorf("%s has no line %q", s.file, s.line)
		}
	}
}

// TestJudge: a mutation that lived must be listed, and a listed one must live.
func TestJudge(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"internal/mutants/survivors.txt": "p/a.go|BOUNDARY|x < 1|equal\n",
		"p/a.go":                         "x < 1\ny < 1\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700), os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const lived, killed = `{"line":%d,"type":"BOUNDARY","status":"LIVED"}`, `{"line":%d,"type":"BOUNDARY","status":"KILLED"}`
	for _, c := range []struct{ mutations, want string }{
		{fmt.Sprintf(lived+","+killed, 1, 2), ""},
		{fmt.Sprintf(lived+","+killed, 1, 1), ""}, // two of one line
		{fmt.Sprintf(lived+","+lived, 1, 2), "p/a.go|BOUNDARY|y < 1| survives"},
		{fmt.Sprintf(killed+","+killed, 1, 2), "p/a.go|BOUNDARY|x < 1| is noticed: remove the reason why it survives"},
	} {
		report := filepath.Join(root, "report")
		if err := os.WriteFile(report, []byte(`{"files":[{"file_name":"a.go","mutations":[`+c.mutations+`]}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := judge(root, "p", report, &out)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.mutations, err, c.want)
		}
		if !strings.Contains(out.String(), "mutations were noticed") {
			t.Errorf("%s: printed %q", c.mutations, &out)
		}
	}
}

// TestFaultList reads what a list may hold and what it may not.
func TestFaultList(t *testing.T) {
	const whole = "// a comment\nfirst\nfile: a/b.go\ntests: -run X ./a\n-\told\n+\tnew\n\nsecond\nfile: c.go\ntests: ./c\nsurvives: because\n-gone\n"
	faults, err := parseFaults(whole)
	if err != nil || len(faults) != 2 {
		t.Fatalf("%+v, %v", faults, err)
	}
	if f := faults[0]; f.name != "first" || f.file != "a/b.go" || len(f.tests) != 3 || f.old != "\told\n" || f.new != "\tnew\n" || f.survives != "" {
		t.Errorf("first: %+v", f)
	}
	if f := faults[1]; f.new != "" || f.survives != "because" {
		t.Errorf("second: %+v", f)
	}
	if got, err := faults[0].apply("x\n\told\ny\n"); err != nil || got != "x\n\tnew\ny\n" {
		t.Errorf("applied: %q, %v", got, err)
	}
	for _, text := range []string{"x\n", "\told\n\told\n", "\t\told\n"} {
		if got, err := faults[0].apply(text); err == nil {
			t.Errorf("applied to %q: %q", text, got)
		}
	}
	for _, bad := range []string{"name\n", "name\nfile: a\ntests: b\n", "name\nfile: a\n-x\n", "name\nwhat is this\n"} {
		if faults, err := parseFaults(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, faults)
		}
	}
}

func rootOf(t *testing.T) string {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}
