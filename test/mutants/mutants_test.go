package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestFaultsApply checks the list of faults against the code: the file of each contains the lines
// that it replaces exactly once, and is valid Go with the fault in it. Names are unique.
func TestFaultsApply(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	faults := testenv.Must(readFaults(root))(t)
	names := map[string]bool{}
	for _, f := range faults {
		if names[f.name] {
			t.Errorf("%s is listed twice", f.name)
		}
		names[f.name] = true
		text := testenv.Must(os.ReadFile(filepath.Join(root, f.file)))(t)
		faulty, err := f.apply(string(text))
		if err != nil {
			t.Error(err)
		} else if faulty == string(text) {
			t.Errorf("%s changes nothing", f.name)
		} else if filepath.Ext(f.file) == ".go" {
			_, err := parser.ParseFile(token.NewFileSet(), f.file, faulty, parser.SkipObjectResolution)
			testenv.Check(t, err)
		}
	}
}

// TestSurvivorsAreThere checks that each line of survivors.txt is still in its file.
func TestSurvivorsAreThere(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	list := testenv.Must(readSurvivors(root))(t)
	for s := range list {
		text := testenv.Must(os.ReadFile(filepath.Join(root, s.file)))(t)
		if !strings.Contains(string(text), s.line) {
			t.Errorf("%s has no line %q", s.file, s.line)
		}
	}
}

// TestJudge checks that a survivor must be listed, and that a listed mutation must survive.
func TestJudge(t *testing.T) {
	known := map[survivor]string{{"p/a.go", boundary, "x < 1"}: "equal"}
	x := mutation{file: "p/a.go", line: 1, column: 3, kind: boundary, change: "< becomes <=", text: "x < 1"}
	y := mutation{file: "p/a.go", line: 2, column: 3, kind: boundary, change: "< becomes <=", text: "y < 1"}
	const isDetected = "p/a.go|boundary|x < 1 does not survive: remove it from survivors.txt"
	for _, c := range []struct {
		mutations []mutation
		verdicts  []verdict
		tally     tally
		want      string
	}{
		{[]mutation{x, y}, []verdict{survived, detected}, tally{mutations: 2, listed: 1, detected: 1}, ""},
		{[]mutation{x, x}, []verdict{survived, detected}, tally{mutations: 2, listed: 1, detected: 1}, ""},
		{[]mutation{x, y}, []verdict{survived, survived}, tally{mutations: 2, listed: 1, survived: 1}, "survives: p/a.go:2:3: boundary: < becomes <=: y < 1"},
		{[]mutation{x, y}, []verdict{detected, timedOut}, tally{mutations: 2, detected: 1, timedOut: 1}, isDetected},
		{[]mutation{x, y}, []verdict{notCovered, detected}, tally{mutations: 2, notCovered: 1, detected: 1}, isDetected},
	} {
		got, err := judge("p", c.mutations, c.verdicts, known)
		if got != c.tally {
			t.Errorf("%v: %+v", c.verdicts, got)
		}
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%v: %v, want %q", c.verdicts, err, c.want)
		}
	}
	if _, err := judge("q", nil, nil, known); err != nil {
		t.Errorf("another package: %v", err)
	}
}

// TestFaultList checks which lists are parsed, and which are refused.
func TestFaultList(t *testing.T) {
	const whole = "// a comment\nfirst\nfile: a/b.go\ntests: -run X ./a\n-\told\n+\tnew\n\nsecond\nfile: c.go\ntests: ./c ./d\nsurvives: because\n-gone\n"
	faults, err := parseFaults(whole)
	if err != nil || len(faults) != 2 {
		t.Fatalf("%+v, %v", faults, err)
	}
	if f := faults[0]; f.name != "first" || f.file != "a/b.go" || f.pattern != "X" || !slices.Equal(f.packages, []string{"./a"}) || f.old != "\told\n" || f.new != "\tnew\n" || f.survives != "" {
		t.Errorf("first: %+v", f)
	}
	if f := faults[1]; f.new != "" || f.pattern != "" || !slices.Equal(f.packages, []string{"./c", "./d"}) || f.survives != "because" {
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
	for _, bad := range []string{
		"name\n", "name\nfile: a\ntests: ./b\n", "name\nfile: a\n-x\n", "name\nunknown\n",
		"name\nfile: a\ntests: b\n-x\n", "name\nfile: a\ntests: -short ./b\n-x\n",
	} {
		if faults, err := parseFaults(bad); err == nil {
			t.Errorf("%q was parsed as %+v", bad, faults)
		}
	}
}
