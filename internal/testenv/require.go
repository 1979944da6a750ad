// Package testenv provides what the tests need from outside the Go toolchain: it finds programs,
// builds the sluice binary, and starts PostgreSQL and S3 servers.
//
// setup.sh in this folder installs the programs; `make test` runs it first. A test calls [Require]
// for each dependency. If one is missing, the test is skipped with a message on stderr, unless the
// environment variable SLUICE_TEST_REQUIRE names the dependency (in a comma-separated list) or is
// "all": then the test fails. [Require] is the only function that skips a test.
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

// Thing is an external dependency of a test.
type Thing string

// The dependencies that tests can require.
const (
	NPM         Thing = "npm"          // node, and the packages of e2e/client
	Strace      Thing = "strace"       // strace, and the right to trace a child
	Chromium    Thing = "chromium"     // a Chromium, and the packages of e2e/client
	Nginx       Thing = "nginx"        // an nginx with proxy_cache
	HAProxy     Thing = "haproxy"      // the load balancer
	Varnish     Thing = "varnish"      // the cache
	Mandoc      Thing = "mandoc"       // checks manual pages
	Shells      Thing = "shells"       // bash, zsh and fish
	PostgreSQL  Thing = "postgresql"   // the programs of a PostgreSQL server
	VersityGW   Thing = "versitygw"    // an S3 server over a folder
	OapiCodegen Thing = "oapi-codegen" // the generator of Go clients, and the modules of what it generates
	RootMount   Thing = "root-mount"   // the right to mount a tmpfs
	Port9090    Thing = "port-9090"    // port 9090 free on the loopback addresses
	Unix        Thing = "unix"         // signals, permission bits of files, and symbolic links
)

// Require returns if every thing is available. Otherwise it ends the test, which fails if
// SLUICE_TEST_REQUIRE names the missing thing and is skipped if not.
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

// required reports whether list names the thing.
func required(list string, thing Thing) bool {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(names, "all") || slices.Contains(names, string(thing))
}
