package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestFailures checks that three errors are kept, and that the number of all errors is reported if
// there are more.
func TestFailures(t *testing.T) {
	for n := range 6 {
		var f Failures
		var all []error
		f.Add(nil)
		for i := range n {
			all = append(all, fmt.Errorf("failure (%d)", i))
			f.Add(all[i])
		}
		err := f.Err()
		if (err == nil) != (n == 0) {
			t.Fatalf("of %d failures: %v", n, err)
		}
		for i, one := range all {
			testenv.Equal(t, errors.Is(err, one), i < 3, "of %d failures: failure %d is kept", n, i)
		}
		if counted := err != nil && strings.Contains(err.Error(), fmt.Sprintf("%d failures", n)); counted != (n > 3) {
			t.Errorf("of %d failures: %v", n, err)
		}
	}
}
