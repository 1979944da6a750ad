package testenv

import (
	"errors"
	"fmt"
	"testing"
)

// OK ends the test if err is not nil.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Check fails the test, which goes on, if err is not nil.
func Check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

// Must takes a call's results. The function that it returns returns the value, and ends the test if
// the call returned an error:
//
//	data := testenv.Must(os.ReadFile(path))(t)
func Must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return v
	}
}

// AtEnd calls end, such as a Close, when the test ends. The test fails if it returns an error.
func AtEnd(tb testing.TB, end func() error) {
	tb.Cleanup(func() { Check(tb, end()) })
}

// Is fails the test, which goes on, unless err wraps target. A nil target is no error. The format
// names the call that returned err.
func Is(tb testing.TB, err, target error, format string, a ...any) {
	tb.Helper()
	if !errors.Is(err, target) {
		tb.Errorf("%s: got error %v, want %v", fmt.Sprintf(format, a...), err, target)
	}
}

// Error returns a call's error.
func Error[T any](_ T, err error) error { return err }

// Equal fails the test, which goes on, unless got is want. The format names got.
func Equal[T comparable](tb testing.TB, got, want T, format string, a ...any) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: got %+v, want %+v", fmt.Sprintf(format, a...), got, want)
	}
}
