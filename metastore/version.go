package metastore

import (
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Version names one commit of a blob, for ever: also if the store is set back, no other commit gets
// the same one. Its bytes are Modified in microseconds, and its content's id, from byte 8 on.
type Version [16]byte

// ParseVersion is the inverse of String. It reports whether s is such a text.
func ParseVersion(s string) (v Version, ok bool) {
	n, err := hex.Decode(v[:], []byte(s[:min(len(s), 2*len(v))]))
	return v, err == nil && n == len(v) && v.String() == s
}

// String returns the version as 32 hexadecimal digits in lower case.
func (v Version) String() string { return hex.EncodeToString(v[:]) }

// Modified returns the commit's time.
func (v Version) Modified() time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(v[:8]))).UTC()
}
