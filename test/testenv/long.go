package testenv

import (
	"os"
	"testing"
	"time"
)

// longVariable is the environment variable that sets how long a test of make long runs.
const longVariable = "SLUICE_TEST_LONG"

// LongDuration returns for how long a test of `make long` repeats its work: SLUICE_TEST_LONG, or an
// hour if it is not set. Such a test is in a file with the build tag long, its name ends in Long,
// and it does its work at least once, however short the time is.
func LongDuration(t testing.TB) time.Duration {
	t.Helper()
	value := os.Getenv(longVariable)
	if value == "" {
		return time.Hour
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is not a positive duration such as 10m", longVariable, value)
	}
	return d
}
