// Package testenv provides the tests' needs from outside the Go toolchain: it finds programs,
// builds the sluice binary, and starts PostgreSQL and S3 servers.
//
// setup.sh in this folder installs the programs; `make test` runs it first. A test calls [Require]
// for each dependency. If one is missing, the test is skipped with a message on stderr, unless the
// environment variable SLUICE_TEST_REQUIRE names the dependency (in a comma-separated list) or is
// "all": then the test fails. With -short, which `make quick` uses, tests that need a foreign
// server, a browser or Node.js are left out. [Require] is the only function that skips a test.
package testenv

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// requireVariable is the environment variable that turns skips into failures.
const requireVariable = "SLUICE_TEST_REQUIRE"

// Require returns if every thing is available. Otherwise it ends the test, which fails if
// SLUICE_TEST_REQUIRE names the missing thing and is skipped if not. With -short it skips the test
// without a message if a thing is a foreign server, a browser or Node.js with npm packages. A thing
// that the variable names is never a reason.
func Require(t testing.TB, things ...Thing) {
	t.Helper()
	for _, thing := range things {
		isRequired := required(os.Getenv(requireVariable), thing)
		if testing.Short() && slices.Contains(servers, thing) && !isRequired {
			t.Skipf("-short leaves out tests that need %s", thing)
		}
		err := check(thing)
		if err == nil {
			continue
		}
		if isRequired {
			t.Fatalf("%s is required by %s and missing: %v", thing, requireVariable, err)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED %s: it needs %s: %v\n", t.Name(), thing, err)
		t.Skipf("needs %s: %v", thing, err)
	}
}

// required reports whether list names the thing.
func required(list string, thing Thing) bool {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(names, "all") || slices.Contains(names, string(thing))
}
