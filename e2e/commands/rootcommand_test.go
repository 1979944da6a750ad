package commands

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRootCommand checks the output and exit codes of root. No server runs.
func TestRootCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, odd := filepath.Join(dir, "one"), filepath.Join(dir, "\u202eodd")
	testenv.OK(t, os.WriteFile(one, []byte("L"), 0o600))
	testenv.OK(t, os.WriteFile(odd, nil, 0o600))
	const (
		oneRoot   = "0x13d7677cd070f930269e8605ec7f44089333ff2e220ad86213bea560555b1f68"
		emptyRoot = "0x32e125795508301f782e49219de017c5d0bc027e5b413a10f9bb250729905419"
	)
	absent := filepath.Join(dir, "absent")
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"root " + one, 0, oneRoot + "  " + one + "\n", ""},
		{"root " + odd + " " + one, 0, fmt.Sprintf("%s  \"%s/\\u202eodd\"\n%s  %s\n", emptyRoot, dir, oneRoot, one), ""},
		{"root --json -", 0, `{"file":"-","size":0,"root":"` + emptyRoot + `"}` + "\n", ""},
		{"root " + absent, 1, "", "sluice: open " + absent + ": no such file or directory\n"},
		{"root " + absent + " " + dir + " " + one, 5, oneRoot + "  " + one + "\n", "sluice: open " + absent + ": no such file or directory; read " + dir + ": is a directory\n"},
		{"root", 2, "", "sluice: root requires the argument FILE: sluice help root shows the usage\n"},
	} {
		r := e2e.SluiceRuns(t, strings.Fields(test.args)...)
		if r.Code != test.code || r.Stdout != test.stdout || r.Stderr != test.stderr {
			t.Errorf("%s: %+v, want exit code %d, %q and %q", test.args, r, test.code, test.stdout, test.stderr)
		}
	}
	command := exec.CommandContext(t.Context(), e2e.Sluice, "root", "-")
	command.Stdin = strings.NewReader("L")
	testenv.Equal(t, string(testenv.Must(command.Output())(t)), oneRoot+"  -\n", "the root of standard input")
}

// TestRootsOfThePublicClient computes the roots of files of random sizes with the public client and
// with the command.
// Invariant 221.
func TestRootsOfThePublicClient(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.NPM)
	compareRoots(t, rand.New(rand.NewPCG(7, 7)), 14)
}

// compareRoots compares the roots of so many files. Their sizes have all magnitudes up to three
// chunksets.
func compareRoots(t *testing.T, rng *rand.Rand, count int) {
	t.Helper()
	dir := t.TempDir()
	files := make([]string, count)
	for i := range files {
		data := make([]byte, rng.IntN(1<<rng.IntN(26)))
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		files[i] = filepath.Join(dir, fmt.Sprint(i))
		testenv.OK(t, os.WriteFile(files[i], data, 0o600))
	}
	want := e2e.Script[struct {
		Root string
		Size int64
	}](t, "roots.mjs", files...)
	lines := strings.Split(strings.TrimSuffix(e2e.SluiceRuns(t, append([]string{"root", "--json"}, files...)...).Stdout, "\n"), "\n")
	testenv.Equal(t, len(want), count, "roots by the public client")
	testenv.Equal(t, len(lines), count, "roots by the command")
	for i, line := range lines {
		var got struct {
			File, Root string
			Size       int64
		}
		testenv.OK(t, json.Unmarshal([]byte(line), &got))
		if got.File != files[i] || got.Root != want[i].Root || got.Size != want[i].Size {
			t.Errorf("%+v, and the public client has %+v", got, want[i])
		}
	}
}
