// Package testenv says what the tests need from outside the Go toolchain, and
// what happens where it is missing.
//
// setup.sh, beside this file, installs what it can; `make test` runs it first.
// A test calls [Require] for each outside thing it needs. Where the thing is
// missing the test is skipped, loudly, unless the environment variable
// SLUICE_TEST_REQUIRE names the thing (a comma-separated list) or is "all":
// then the test fails. [Require] is the only place that skips a test.
package testenv

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Environment variable that turns skips into failures.
const requireVariable = "SLUICE_TEST_REQUIRE"

// Thing is something from outside that a test needs.
type Thing string

// The things that tests may need.
const (
	NPM        Thing = "npm"        // node, and the packages of e2e/client
	Strace     Thing = "strace"     // strace, and the right to trace a child
	Chromium   Thing = "chromium"   // a Chromium, and the packages of e2e/client
	Nginx      Thing = "nginx"      // an nginx that can be a caching proxy
	HAProxy    Thing = "haproxy"    // the load balancer
	PostgreSQL Thing = "postgresql" // the programs of a PostgreSQL server
	RootMount  Thing = "root-mount" // the right to mount a tmpfs
	Port9090   Thing = "port-9090"  // port 9090 free on the loopback addresses
)

// Require lets the test go on only when every thing is there. Otherwise it
// ends the test: as skipped, or, when SLUICE_TEST_REQUIRE asks for the thing,
// as failed.
func Require(t testing.TB, things ...Thing) {
	t.Helper()
	for _, thing := range things {
		err := check(thing)
		if err == nil {
			continue
		}
		if required(os.Getenv(requireVariable), thing) {
			t.Fatalf("%s is required by %s and missing: %v", thing, requireVariable, err)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED %s: it needs %s: %v\n", t.Name(), thing, err)
		t.Skipf("needs %s: %v", thing, err)
	}
}

// required reports whether the list names the thing.
func required(list string, thing Thing) bool {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(names, "all") || slices.Contains(names, string(thing))
}
