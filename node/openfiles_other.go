//go:build !unix

package node

import "math"

// openFileLimit returns how many files this process may have open: there is no
// limit on this system.
func openFileLimit() (uint64, error) { return math.MaxUint64, nil }
