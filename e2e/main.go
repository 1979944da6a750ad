package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"sluice/test/testenv"
)

// Sluice is the binary under test, which Main builds.
var Sluice string

// tunedSluice returns the binary with Options.Tuning. The first call builds it.
var tunedSluice func() (string, error)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomized tests (0: a random one, which is logged)")

// Main builds the binary, runs the tests of a folder, and exits. Each folder's TestMain calls it.
func Main(m *testing.M) {
	flag.Parse()
	runMoreAtOnce()
	os.Exit(run(m))
}

// runMoreAtOnce lets twice as many tests run in parallel as there are processors, unless a flag
// sets their number: most of the time a test waits for processes and for the disk.
func runMoreAtOnce() {
	const parallel = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if given {
		return
	}
	if err := flag.Set(parallel, strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // testing has this flag
	}
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	tunedSluice = sync.OnceValues(func() (string, error) {
		tuned := filepath.Join(dir, "tuned")
		if err := os.Mkdir(tuned, 0o700); err != nil {
			return "", err
		}
		return testenv.BuildSluice(tuned, "tuned")
	})
	if Sluice, err = testenv.BuildSluice(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stopChromium(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
