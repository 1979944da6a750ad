package s3

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// driversDir is the module that has the suites. For each it also lists the cases that do not pass,
// in the form of expectedFile: with each stands a part of every message that it fails with.
const driversDir = "testdata/drivers"

// TestDrivers runs the suites by which libraries test their drivers of S3, as their modules ship
// them, and compares the cases that do not pass with the list.
func TestDrivers(t *testing.T) {
	testenv.Require(t, testenv.Drivers)
	minio := testenv.Must(inDrivers(t, "list", "-m", "-f", "{{.Dir}}", "github.com/minio/minio-go/v7").Output())(t)
	for suite, run := range map[string]struct {
		args  []string
		cases int // at least
	}{
		"gocloud-thanos": {[]string{"test", "-json", "-count=1", "."}, 140},
		"distribution":   {[]string{"test", "-json", "-count=1", "-short", "github.com/distribution/distribution/v3/registry/storage/driver/s3-aws"}, 90},
		"minio-go":       {[]string{"run", "-exec", "env -C " + t.TempDir(), path.Join(strings.TrimSpace(string(minio)), "functional_tests.go")}, 80},
	} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			expected, _ := expectedFailures(t, filepath.Join(driversDir, suite+".txt"))
			cases := runDrivers(t, run.args)
			if len(cases) < run.cases {
				t.Fatalf("%d cases were run", len(cases))
			}
			t.Logf("%d of %d cases are listed", len(expected), len(cases))
			for _, name := range slices.Sorted(maps.Keys(cases)) {
				want, listed := expected[name]
				delete(expected, name)
				switch isOther := func(message string) bool { return !strings.Contains(message, want) }; {
				case listed && len(cases[name]) == 0:
					t.Errorf("%s is listed, and passes", name)
				case !listed && len(cases[name]) > 0, slices.ContainsFunc(cases[name], isOther):
					t.Errorf("%s does not pass, and the list has %q: %q", name, want, cases[name])
				}
			}
			for name := range expected {
				t.Errorf("%s is listed, and was not run", name)
			}
		})
	}
}

// inDrivers returns a go command in the folder of the suites' module.
func inDrivers(t *testing.T, args ...string) *exec.Cmd {
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = driversDir
	return command
}

// runDrivers runs a suite on its own service. It returns the messages of each case without
// subtests: none if it passes, its failures, or why it was left out.
func runDrivers(t *testing.T, args []string) map[string][]string {
	t.Helper()
	h := startHosted(t, "--reads", "key", "--log-requests", "none")
	host := strings.TrimPrefix(h.S3, "http://")
	command := inDrivers(t, args...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "AWS_") || strings.HasPrefix(pair, "S3_")
	}), "AWS_ACCESS_KEY_ID="+h.admin, "AWS_SECRET_ACCESS_KEY="+h.secret, "AWS_REGION=us-east-1", "REGION_ENDPOINT="+h.S3,
		"AWS_ACCESS_KEY="+h.admin, "AWS_SECRET_KEY="+h.secret, "S3_BUCKET=distribution", "S3_ENCRYPT=false", "S3_SECURE=false", "S3_ACCELERATE=false", "AWS_S3_FORCE_PATH_STYLE=true",
		"S3_ENDPOINT="+host, "S3_ACCESS_KEY="+h.admin, "S3_SECRET_KEY="+h.secret, "S3_INSECURE=true",
		"SERVER_ENDPOINT="+host, "ACCESS_KEY="+h.admin, "SECRET_KEY="+h.secret, "MINT_MODE=full", "RUN_ON_FAIL=1", "ENABLE_KMS=0", "TMPDIR="+t.TempDir())
	var out, diagnosis bytes.Buffer
	command.Stdout, command.Stderr = &out, &diagnosis
	if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	cases, said := map[string][]string{}, map[string]string{}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		var e struct {
			Action, Test, Output                string // of go test
			Name, Status, Message, Error, Alert string // of minio-go's program
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // a line that a test prints
		}
		if e.Name != "" {
			e.Test, e.Action, e.Output = strings.TrimPrefix(e.Name, "minio-go: "), strings.ToLower(e.Status), e.Message+" "+e.Error+" "+e.Alert
		}
		said[e.Test] += e.Output
		switch e.Action {
		case "pass":
			cases[e.Test] = append(cases[e.Test], []string{}...) // its key
		case "fail", "skip", "na":
			cases[e.Test] = append(cases[e.Test], said[e.Test])
		default:
			continue
		}
		said[e.Test] = ""
	}
	maps.DeleteFunc(cases, func(name string, _ []string) bool {
		isBelow := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		return name == "" || slices.ContainsFunc(slices.Collect(maps.Keys(cases)), isBelow)
	})
	if len(cases) == 0 {
		t.Fatalf("no case was run: %s", diagnosis.Bytes())
	}
	return cases
}
