package chain

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// number is an unsigned 64-bit integer, which the API writes as a string of decimal digits.
type number uint64

// UnmarshalJSON accepts a string of decimal digits.
func (n *number) UnmarshalJSON(b []byte) error {
	text, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("%s is not a number in a string", b)
	}
	v, err := strconv.ParseUint(text, 10, 64)
	*n = number(v)
	return err
}

// time returns the time of a number of microseconds since 1970.
func (n number) time() time.Time { return time.UnixMicro(int64(min(n, math.MaxInt64))).UTC() }
