package httpapi

import (
	"strconv"
)

// decimal returns an amount as the interface represents it.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// gas returns an amount of gas, its price or a fee as text, and "" if it is 0.
func gas(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
