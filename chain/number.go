package chain

import (
	"fmt"
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

// lastTime is the last time that RFC 3339 can represent: the year 9999's last microsecond.
var lastTime = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)

// time returns the time this many microseconds after 1970, at most lastTime.
func (n number) time() time.Time {
	return time.UnixMicro(int64(min(n, number(lastTime.UnixMicro())))).UTC()
}
