package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// scratch is a module whose list of faults has one for each verdict.
var scratch = map[string]string{
	"go.mod": "module scratch\n\ngo 1.26\n",
	"double/double.go": `package double

func Double(n int) int {
	return n + n
}
`,
	"double/double_test.go": `package double

import (
	"os"
	"testing"
)

func TestDouble(t *testing.T) {
	t.Run("three", func(t *testing.T) {
		if Double(3) != 6 {
			t.Error("not 6")
		}
	})
}

func TestFails(t *testing.T) { t.Error("always") }

func TestLeavesAFile(t *testing.T) {
	if err := os.WriteFile("left", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNeedsAServer(t *testing.T) {
	if os.Getenv("SLUICE_TEST_REQUIRE") != "all" {
		t.Skip("no server")
	}
	t.Error("no server")
}
`,
	"quad/quad.go": `package quad

import "scratch/double"

func Quad(n int) int {
	return double.Double(double.Double(n))
}
`,
	"quad/quad_test.go": `package quad

import "testing"

func TestQuad(t *testing.T) {
	if Quad(1) != 4 {
		t.Error("not 4")
	}
}
`,
	"cmd/sluice/main.go": "package main\n\nfunc main() {}\n",
	"test/mutants/faults.txt": `wrong
file: double/double.go
tests: -run TestDouble/three ./double
-	return n + n
+	return n * n

wrong-in-a-dependency
file: double/double.go
tests: ./quad
-	return n + n
+	return n - n

panic
file: double/double.go
tests: ./quad
-	return n + n
+	panic(n)

the-same
file: double/double.go
tests: ./quad
-	return n + n
+	return 2 * n

the-same-with-a-reason
file: double/double.go
tests: -run TestDouble ./double
survives: it is equal
-	return n + n
+	return 2 * n

detected-in-spite-of-a-reason
file: double/double.go
tests: ./quad
survives: it is equal
-	return n + n
+	return 7

endless
file: double/double.go
tests: -run TestDouble ./double
-	return n + n
+	select {}

not-built
file: double/double.go
tests: -run TestDouble ./double
-	return n + n
+	return m + n

not-built-where-the-tests-do-not-import-it
file: cmd/sluice/main.go
tests: -run TestDouble ./double
-func main() {}
+func main() { x := 1 }

fails-without-it
file: double/double.go
tests: -run TestFails ./double
-	return n + n
+	return n

lacks-a-server
file: double/double.go
tests: -run TestNeedsAServer ./double
-	return n + n
+	return n

lacks-a-test
file: double/double.go
tests: -run TestDouble/four ./double
-	return n + n
+	return n
`,
}

// write makes the scratch module in a folder.
func write(t *testing.T, root string) {
	t.Helper()
	for name, text := range scratch {
		writeFile(t, root, name, text)
	}
	git := exec.Command("git", "init", "-q", root)
	git.Env = testenv.WithoutGit()
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// newPlan returns a plan for the scratch module's faults.
func newPlan(t *testing.T) plan {
	t.Helper()
	root := t.TempDir()
	write(t, root)
	results := filepath.Join(t.TempDir(), "results")
	return plan{root: root, results: results, workers: 2, spare: time.Second, limit: time.Minute, out: t.Output()}
}

func writeFile(t *testing.T, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	testenv.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	testenv.OK(t, os.WriteFile(name, []byte(text), 0o644))
}

// TestPlantAll plants a fault for each verdict. Only failures of tests that pass without the fault
// count. A second run plants again only faults that have no verdict by the tests, or have changed.
func TestPlantAll(t *testing.T) {
	t.Parallel()
	p := newPlan(t)
	if err := p.plantAll(t.Context()); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("error: %v", err)
	}
	first := []string{
		"detected-in-spite-of-a-reason: detected TestQuad", "endless: timed out TestDouble", "fails-without-it: unproven", "lacks-a-server: unproven",
		"lacks-a-test: unproven", "not-built-where-the-tests-do-not-import-it: not built", "not-built: not built", "panic: detected TestQuad",
		"the-same-with-a-reason: survives", "the-same: survives", "wrong-in-a-dependency: detected TestQuad", "wrong: detected TestDouble/three",
	}
	if got := results(t, p.results); !slices.Equal(got, first) {
		t.Errorf("the first run: %q", got)
	}
	writeFile(t, p.root, "quad/quad_test.go", "package quad")
	appendTorn(t, p.results)
	if err := p.plantAll(t.Context()); err == nil {
		t.Error("no error")
	}
	again := append(slices.Clone(first), "fails-without-it: unproven", "lacks-a-server: unproven", "lacks-a-test: unproven",
		"not-built-where-the-tests-do-not-import-it: not built", "not-built: not built",
		"detected-in-spite-of-a-reason: unproven", "panic: unproven", "the-same: unproven", "wrong-in-a-dependency: unproven")
	slices.Sort(again)
	if got := results(t, p.results); !slices.Equal(got, again) {
		t.Errorf("after the second run: %q", got)
	}
}

// appendTorn appends half a line, as a process leaves it that is killed while it writes.
func appendTorn(t *testing.T, name string) {
	t.Helper()
	text := testenv.Must(os.ReadFile(name))(t)
	testenv.OK(t, os.WriteFile(name, append(text, `{"fault":"wro`...), 0o644))
}

// TestTreeMustNotChange checks that a result is not kept if the tree is no longer the one that the
// fault was planted in, here by its test.
func TestTreeMustNotChange(t *testing.T) {
	t.Parallel()
	p := newPlan(t)
	writeFile(t, p.root, "test/mutants/faults.txt", "x\nfile: double/double.go\ntests: -run TestLeavesAFile ./double\n-\treturn n + n\n+\treturn n\n")
	if err := p.plantAll(t.Context()); err == nil || !strings.Contains(err.Error(), "the tree was changed while x was planted") {
		t.Errorf("error: %v", err)
	}
	if got := results(t, p.results); len(got) > 0 {
		t.Errorf("results: %q", got)
	}
}

// TestSummary checks which results the summary counts, and which it reports.
func TestSummary(t *testing.T) {
	planted := []planted{
		{fault{name: "a"}, "1"}, {fault{name: "b"}, "1"}, {fault{name: "c", survives: "because"}, "1"}, {fault{name: "d", survives: "because"}, "1"},
		{fault{name: "e", packages: []string{"./e"}}, "1"}, {fault{name: "f"}, "1"}, {fault{name: "g"}, "1"}, {fault{name: "h"}, "1"}, {fault{name: "i"}, "1"},
	}
	first, second := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")
	writeFile(t, "", first, `{"fault":"a","hash":"1","verdict":"unproven","seconds":600}
{"fault":"a","hash":"1","verdict":"detected","seconds":60}
{"fault":"a","hash":"2","verdict":"survives","seconds":600}
{"fault":"b","hash":"1","verdict":"timed out","seconds":30}
{"fault":"c","hash":"1","verdict":"survives","seconds":30}
{"fault":"d","hash":"1","verdict":"detected"}
`)
	writeFile(t, "", second, `{"fault":"e","hash":"1","verdict":"survives"}
{"fault":"f","hash":"1","verdict":"not built","detail":"x is not declared"}
{"fault":"g","hash":"1","verdict":"unproven","detail":"TestG fails"}
{"fault":"h","hash":"2","verdict":"detected"}
{"fault":"i","hash":"1","verdict":"det`)
	var out strings.Builder
	merged := testenv.Must(readJournal([]string{first, second}, &out))(t)
	const wantErr = `d is detected: remove the reason why it survives
e survives: no test of [./e] that matches "" detects it
f: not built: x is not declared (0.0 s)
g: unproven: TestG fails (0.0 s)
h was not planted in this tree
i was not planted in this tree`
	if err := merged.summarize(planted); err == nil || err.Error() != wantErr {
		t.Errorf("error\n%v\nwant\n%s", err, wantErr)
	}
	const want = `| faults | detected | timed out | survives with a reason | survives | not built | unproven | minutes |
|---|---|---|---|---|---|---|---|
| 9 | 2 | 1 | 1 | 1 | 1 | 1 | 2 |
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// TestShards checks that each fault is in exactly one shard.
func TestShards(t *testing.T) {
	var all []planted
	for i := range 10 {
		all = append(all, planted{fault: fault{name: fmt.Sprint(i)}})
	}
	for n := 1; n <= 12; n++ {
		var parts []string
		for k := 1; k <= n; k++ {
			shard := testenv.Must(part(all, fmt.Sprintf("%d/%d", k, n)))(t)
			for _, f := range shard {
				parts = append(parts, f.name)
			}
		}
		if got := strings.Join(parts, ""); got != "0123456789" {
			t.Errorf("%d parts: %s", n, got)
		}
	}
	for _, bad := range []string{"0/2", "3/2", "2", "1/2/3", "a/b", "1/0"} {
		if _, err := part(all, bad); err == nil {
			t.Errorf("%q was parsed", bad)
		}
	}
}

// TestFingerprints changes files, and checks for which faults that makes a difference.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root)
	writeFile(t, root, "e2e/e2e_test.go", "package e2e\n\nvar _ = testenv.BuildSluice(dir)\n")
	writeFile(t, root, "cmd/sluice/main_test.go", "package main\n")
	faults := []fault{
		{name: "double", packages: []string{"./double"}}, {name: "quad", packages: []string{"./quad"}},
		{name: "e2e", packages: []string{"./e2e"}}, {name: "both", packages: []string{"./double", "./quad"}},
	}
	before := hashes(t, root, faults)
	for _, c := range []struct{ file, changes string }{
		{"double/double.go", "double quad both"},
		{"double/double_test.go", "double both"},
		{"double/testdata/x", "double quad both"},
		{"quad/quad_test.go", "quad both"},
		{"cmd/sluice/main.go", "e2e"},
		{"cmd/sluice/main_test.go", ""},
		{"docs/x.md", ""},
		{"go.mod", "double quad e2e both"},
	} {
		name := filepath.Join(root, c.file)
		old, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		writeFile(t, root, c.file, string(old)+"// changed")
		after := hashes(t, root, faults)
		var changed []string
		for _, f := range faults {
			if before[f.name] != after[f.name] {
				changed = append(changed, f.name)
			}
		}
		if got := strings.Join(changed, " "); got != c.changes {
			t.Errorf("%s changes %q, not %q", c.file, got, c.changes)
		}
		before = after
	}
}

// results returns a results file's lines, sorted, without hashes and times.
func results(t *testing.T, name string) []string {
	t.Helper()
	text := testenv.Must(os.ReadFile(name))(t)
	var lines []string
	for line := range strings.Lines(string(text)) {
		var r result
		testenv.OK(t, json.Unmarshal([]byte(line), &r))
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Fault, r.Verdict, r.Test)))
	}
	slices.Sort(lines)
	return lines
}

// hashes returns the faults' fingerprints by name.
func hashes(t *testing.T, root string, faults []fault) map[string]string {
	t.Helper()
	prints := testenv.Must(readFingerprints(t.Context(), root))(t)
	all := map[string]string{}
	for _, f := range faults {
		all[f.name] = testenv.Must(prints.of(f))(t)
	}
	return all
}
