package sqlstore

import (
	"fmt"
	"hash/crc32"
	"testing"

	"sluice/metastore"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// usageIsExact compares an owner's usage with the stored rows.
func usageIsExact(t *testing.T, s *Store, owner string) metastore.Used {
	t.Helper()
	got := testenv.Must(s.Usage(t.Context(), owner))(t)
	want := metastore.Used{
		Bytes: value(t, s, `SELECT CAST((SELECT COALESCE(SUM(size), 0) FROM blobs WHERE owner = $1)
			+ (SELECT COALESCE(SUM(p.size), 0) FROM parts p JOIN uploads u ON u.content = p.content WHERE u.state = 0 AND u.owner = $1) AS BIGINT)`, []byte(owner)),
		Uploads: value(t, s, `SELECT COUNT(*) FROM uploads WHERE state = 0 AND owner = $1`, []byte(owner)),
		Objects: value(t, s, `SELECT (SELECT COUNT(*) FROM blobs WHERE owner = $1)
			+ (SELECT COUNT(*) FROM parts p JOIN uploads u ON u.content = p.content WHERE u.state = 0 AND u.owner = $1)`, []byte(owner)),
		Names: value(t, s, `SELECT CAST((SELECT COALESCE(SUM(length(name_head) + length(name_tail) + COALESCE(length(metadata), 0)), 0) FROM blobs WHERE owner = $1)
			+ (SELECT COALESCE(SUM(length(name) + COALESCE(length(metadata), 0)), 0) FROM uploads WHERE state = 0 AND owner = $1) AS BIGINT)`, []byte(owner)),
		Channels: value(t, s, `SELECT COUNT(*) FROM channels WHERE owner = $1`, []byte(owner)),
		Retained: value(t, s, `SELECT CAST((SELECT COALESCE(SUM(charge), 0) FROM garbage WHERE owner = $1)
			+ (SELECT COALESCE(SUM(charge), 0) FROM uploads WHERE owner = $1)
			+ (SELECT COALESCE(SUM(charge), 0) FROM idempotency WHERE owner = $1) AS BIGINT)`, []byte(owner)),
	}
	if got != want {
		t.Fatalf("the usage of %s is %+v, but %+v is stored", owner, got, want)
	}
	return got
}

func usageRows(t *testing.T, s *Store, owner string) int64 {
	t.Helper()
	return value(t, s, `SELECT COUNT(*) FROM usage WHERE owner = $1`, []byte(owner))
}

// putFor commits an empty or inline blob for an owner.
func putFor(t *testing.T, s *Store, owner, name string, body string) {
	t.Helper()
	b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(s.Now()), Size: int64(len(body)), Owner: owner}
	var extents []metastore.Extent
	if body != "" {
		extents = []metastore.Extent{{Size: b.Size, Body: []byte(body), Blocks: []uint32{crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))}}}
	}
	testenv.Must(s.CommitBlob(t.Context(), b, extents, nil))(t)
}

// TestUsageRows counts the rows of usage: one for each change by an owner, and only the sums after
// purges with a limit.
// Invariants 39, 42.
func TestUsageRows(t *testing.T) {
	s := openAt(t, databasePath(t), Options{Now: testclock.New().Now})
	rows := func(owner string, want int64) {
		t.Helper()
		testenv.Equal(t, usageRows(t, s, owner), want, "rows of %s", owner)
		usageIsExact(t, s, owner)
	}
	putFor(t, s, "x", "one", "abc")
	putFor(t, s, "x", "one", "abcd")
	rows("x", 2)
	putFor(t, s, "x", "one", "efgh") // the replaced content is garbage
	putFor(t, s, "x", "empty", "")
	rows("x", 4)
	putFor(t, s, "y", "one", "abcd")
	rows("x", 5)
	rows("y", 1)
	putFor(t, s, "y", "two", "ab")
	remove(t, s, "two")
	rows("y", 3) // the usage and the garbage are one row
	putFor(t, s, "z", "z", "ab")
	remove(t, s, "z")
	rows("z", 2)
	putFor(t, s, "", "one", "abcd")
	putFor(t, s, "", "two", "abcd")
	rows("", 0)
	holds(t, s, 11, `SELECT COUNT(*) FROM usage`)

	for i := range 200 {
		putFor(t, s, "x", fmt.Sprint("x", i), "abc")
	}
	before := usageRows(t, s, "x")
	for calls := 0; ; calls++ {
		n := testenv.Must(s.Purge(t.Context(), 50))(t)
		usageIsExact(t, s, "x")
		usageIsExact(t, s, "y")
		now := usageRows(t, s, "x")
		if before-now > 50 {
			t.Fatalf("a purge with limit 50 changed %d rows to %d", before, now)
		}
		if before = now; n == 0 {
			break
		}
		if calls > 10 {
			t.Fatal("the purge does not end")
		}
	}
	rows("x", 0)
	rows("y", 0)
	holds(t, s, 3, `SELECT COUNT(*) FROM usage_sums`)

	for i := range 200 {
		remove(t, s, fmt.Sprint("x", i))
	}
	testenv.Must(s.Purge(t.Context(), 1000))(t)
	rows("x", 0)
}
