package exchange

import (
	"strconv"
	"time"
)

// timings are Server-Timing's values, until the response begins.
type timings struct {
	database, store, total time.Duration
}

// appendTo appends the field's value, in milliseconds (Server Timing, section 2).
func (t timings) appendTo(b []byte) []byte {
	b = appendMillis(append(b, "db;dur="...), t.database)
	b = appendMillis(append(b, ", store;dur="...), t.store)
	return appendMillis(append(b, ", total;dur="...), t.total)
}

func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Round(time.Microsecond).Seconds()*1000, 'f', 3, 64)
}
