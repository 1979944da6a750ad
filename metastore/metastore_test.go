package metastore_test

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"sluice/metastore"
)

// TestContentIDs creates ids at rising times, and many at the same time.
func TestContentIDs(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_123)
	var last metastore.ContentID
	for i := range 1000 {
		now := start.Add(time.Duration(i) * time.Duration(i) * time.Millisecond * 1_000_003)
		id := metastore.NewContentID(now)
		if i > 1 && bytes.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("the id of %v is %v, after %v", now, id, last)
		}
		last = id
		var ms int64
		for _, b := range id[:6] {
			ms = ms<<8 | int64(b)
		}
		if ms != now.UnixMilli() {
			t.Fatalf("the id of %d ms begins with %d", now.UnixMilli(), ms)
		}
		if raw, err := hex.DecodeString(id.String()); err != nil || !bytes.Equal(raw, id[:]) {
			t.Fatalf("%v is written %q", id[:], id.String())
		}
	}
	seen := map[metastore.ContentID]bool{}
	for range 10_000 {
		id := metastore.NewContentID(start)
		if seen[id] {
			t.Fatalf("%v was created twice", id)
		}
		seen[id] = true
	}
}
