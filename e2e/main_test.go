package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"sluice/internal/testenv"
)

// sluice is the binary under test, built once by TestMain.
var sluice string

var seedFlag = flag.Uint64("seed", 0, "seed of the randomized tests (0: a random one, which is logged)")

func TestMain(m *testing.M) {
	if runTransfer() || runPurchases() {
		return
	}
	flag.Parse()
	os.Exit(run(m))
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
	if sluice, err = testenv.BuildSluice(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
