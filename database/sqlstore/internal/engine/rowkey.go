package engine

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// NewRowID returns a key for a new row in a table to which rows are appended: 48 bits of
// milliseconds since 1970, 10 bits of microseconds within the last one, then 70 random bits. So
// keys that were made a microsecond apart sort by time. In keys from earlier versions the last 80
// bits are random.
func NewRowID(now time.Time) (id [16]byte) {
	rand.Read(id[7:])
	random := uint64(id[7] & 0x3f)
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|uint64(now.UnixMicro()%1000)<<6|random)
	return id
}

// RowKey identifies a row by its table and its key's values.
type RowKey [3]string

// EveryRow stands for the keys of all rows.
var EveryRow RowKey

// RowWatcher keeps rows in memory. The engine reports to it which rows a commit changes.
type RowWatcher interface {
	// BeginCommit is called before a COMMIT that changes the rows of keys.
	BeginCommit(keys []RowKey)
	// EndCommit is called after it has returned, and before any caller is answered. known reports
	// whether its outcome is known. After an unknown one it may be called with no keys.
	EndCommit(keys []RowKey, known bool)
}

// noWatcher is the RowWatcher when no rows are kept in memory.
type noWatcher struct{}

func (noWatcher) BeginCommit([]RowKey)     {}
func (noWatcher) EndCommit([]RowKey, bool) {}
