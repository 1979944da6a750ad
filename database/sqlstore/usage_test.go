package sqlstore

import (
	"fmt"
	"hash/crc32"
	"testing"

	"sluice/internal/testclock"
	"sluice/internal/testenv"
	"sluice/metastore"
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
		Names: value(t, s, `SELECT CAST((SELECT COALESCE(SUM(length(name_head) + length(name_tail) + CASE WHEN substr(metadata, 1, 16) = content THEN length(metadata) - 16 ELSE 0 END), 0) FROM blobs WHERE owner = $1)
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
	putFor(t, s, "x", "one", "efgh") // what is replaced is garbage
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
	holds(t, s, 1, `SELECT COUNT(*) FROM usage_sums`)

	for i := range 200 {
		remove(t, s, fmt.Sprint("x", i))
	}
	testenv.Must(s.Purge(t.Context(), 1000))(t)
	rows("x", 0)
}

// TestReplacedByAnEarlierVersion replaces a blob with metadata as a node does that does not know
// metadata, because no upgrade has reached it yet: the new content has no metadata, and what is
// counted for later changes is exact.
// SQLite has no such nodes.
func TestReplacedByAnEarlierVersion(t *testing.T) {
	s := openAtPostgres(t)
	b := metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(s.Now()), Owner: "x", Metadata: "of the first content"}
	testenv.Must(s.CommitBlob(t.Context(), b, nil, nil))(t)
	b.Content = metastore.NewContentID(s.Now())
	execute(t, s, `UPDATE blobs SET content = $4, size = $5, crc64 = $6, part_size = $7, sha256 = $8, content_type = $9,
			modified = $10, expires = $11, owner = $12, shared_second = $13
			WHERE account = $1 AND name_head = $2 AND name_hash = $3`,
		[]byte("a"), []byte("n"), []byte{}, b.Content[:], int64(0), int64(0), int64(0), nil, []byte{}, s.Now().UnixMicro(), nil, []byte("x"), int64(1))
	got, err := s.Blob(t.Context(), "a", "n")
	if err != nil || got.Content != b.Content || got.Metadata != "" {
		t.Errorf("the new content is %+v, %v", got, err)
	}
	page, err := s.ListBlobs(t.Context(), metastore.ListQuery{Account: "a", Limit: 1, Metadata: true})
	if err != nil || len(page.Blobs) != 1 || page.Blobs[0].Metadata != "" {
		t.Errorf("listed as %+v, %v", page.Blobs, err)
	}
	before := testenv.Must(s.Usage(t.Context(), "x"))(t)
	remove(t, s, "n")
	after, err := s.Usage(t.Context(), "x")
	if err != nil || before.Names-after.Names != 1 {
		t.Errorf("deleting the name of one byte changes the usage from %+v to %+v, %v", before, after, err)
	}
}

// TestOwnersOfAnOlderDatabase: rows that were stored before owners existed count towards no
// owner.
func TestOwnersOfAnOlderDatabase(t *testing.T) {
	s := openAt(t, olderSQLite(t, 2, `
		INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
			VALUES (x'61', x'62', x'', x'', x'00112233445566778899aabbccddeeff', 100, 1, 0, x'', 1);
		INSERT INTO uploads (id, account, name, content, part_size, content_type, create_only, state, bytes, revision, created, touched, size, crc64)
			VALUES (x'75', x'61', x'63', x'10112233445566778899aabbccddeeff', 10, x'', 0, 0, 0, 0, 1, 1, 0, 0);`), Options{})
	b, err := s.Blob(t.Context(), "a", "b")
	if err != nil || b.Owner != "" || b.Size != 100 {
		t.Fatalf("%+v, %v", b, err)
	}
	u, err := s.Upload(t.Context(), "u")
	if err != nil || u.Owner != "" || u.State != metastore.UploadOpen {
		t.Fatalf("%+v, %v", u, err)
	}
	testenv.OK(t, s.PutPart(t.Context(), "u", metastore.Part{Size: 3}, []metastore.Extent{{Size: 3, Body: []byte("abc")}}))
	putFor(t, s, "x", "c", "abcd")
	testenv.Must(s.CompleteUpload(t.Context(), "u", 1, 3, 1, nil))(t)
	putFor(t, s, "x", "b", "abcde")
	testenv.Equal(t, usageIsExact(t, s, "x"), metastore.Used{Bytes: 5, Objects: 1, Names: 1, Retained: 4 + 1024}, "the usage")
	testenv.Equal(t, usageRows(t, s, ""), 0, "rows without an owner")
}
