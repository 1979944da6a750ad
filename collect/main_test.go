package collect

import (
	"flag"
	"os"
	"testing"

	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// TestMain lets eight tests run at once: they wait for the chain most of the time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(fullnode.Keep(testenv.KeepPostgres(m)).Run())
}
