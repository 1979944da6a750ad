package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
)

// retainedVersion is the schema version before charges for what is retained.
const retainedVersion = 15

// TestMigratesRetained: what ended before the migration counts towards no owner, what ends
// afterwards counts until it is freed or forgotten, and the sum stays exact while the previous
// version's node makes garbage, frees it, folds usage and forgets uploads and records.
func TestMigratesRetained(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	rows := rawBlob("a", "one", 10) + `
		UPDATE blobs SET owner = ` + b("x") + `;
		INSERT INTO garbage (content, since) VALUES (` + b("old garbage.....") + `, 1);
		INSERT INTO idempotency (id, request, outcome, created) VALUES (` + b("old") + `, ` + b("") + `, ` + b("") + `, 4000000000000000);
		INSERT INTO uploads (id, account, name, content, part_size, content_type, create_only, state, bytes, revision, created, touched, ended, size, crc64, owner, parts)
			VALUES (` + b("ended") + `, ` + b("a") + `, ` + b("ended") + `, ` + b("content of ended") + `, 5, ` + b("type") + `, 0, 2, 5, 0, 1, 1, 4000000000000000, 0, 0, ` + b("x") + `, 1);
		INSERT INTO parts (content, idx, size, crc64) VALUES (` + b("content of ended") + `, 0, 5, 0);
		INSERT INTO usage (owner, id, bytes, uploads, objects, names) VALUES (` + b("x") + `, ` + b("1") + `, 10, 0, 1, 3);`
	onOlder(t, retainedVersion, rows, func(t *testing.T, s *Store) {
		older := func(statement string) {
			t.Helper()
			executeOlder(t, s, statement)
		}
		retains := func(want int64, after string) {
			t.Helper()
			testenv.Equal(t, usageIsExact(t, s, "x").Retained, want, "bytes retained after %s", after)
		}
		must := func(_ any, err error) {
			t.Helper()
			testenv.OK(t, err)
		}
		const row = metastore.RowCharge
		retains(0, "the migration")
		must(s.Purge(t.Context(), 100))
		holds(t, s, 0, `SELECT COUNT(*) FROM parts`)
		putFor(t, s, "x", "one", "abcd")
		retains(row+10, "an overwrite")
		must(s.BeginUpload(t.Context(), metastore.Upload{ID: "u", Account: "a", Name: "name", Content: metastore.NewContentID(s.Now()), PartSize: 5, Owner: "x"}))
		must(s.OpenChannel(t.Context(), ledger.Channel{ID: "c", PaymentChannelID: 1, Expires: s.Now().Add(time.Hour)},
			&database.Idempotency{Scope: "s", Key: "k", Owner: "x"}))
		const all = row + 10 + row + 4 + row
		retains(all, "a begin and a record")

		// The previous version deletes and folds without knowing retained.
		older(`INSERT INTO garbage (content, since) VALUES (` + b("older garbage...") + `, 1)`)
		retains(all, "garbage of the previous version")
		older(`INSERT INTO usage (owner, id, bytes, uploads, objects, names, channels) VALUES (` + b("x") + `, ` + b("older") + `, 0, 0, 0, 0, 0)`)
		older(`DELETE FROM usage WHERE owner = ` + b("x"))
		older(`DELETE FROM usage_sums WHERE owner = ` + b("x"))
		if used, err := s.Usage(t.Context(), "x"); err != nil || used != (metastore.Used{Retained: all}) {
			t.Errorf("after a fold of the previous version the usage is %+v, %v, want %d retained", used, err, int64(all))
		}
		counted := func(want int64, after string) {
			t.Helper()
			used, err := s.Usage(t.Context(), "x")
			sum := value(t, s, `SELECT CAST((SELECT COALESCE(SUM(charge), 0) FROM garbage WHERE owner = $1)
				+ (SELECT COALESCE(SUM(charge), 0) FROM uploads WHERE owner = $1)
				+ (SELECT COALESCE(SUM(charge), 0) FROM idempotency WHERE owner = $1) AS BIGINT)`, []byte("x"))
			if err != nil || used.Retained != want || sum != want {
				t.Errorf("%d bytes are retained after %s, and the rows have %d, %v; want %d", used.Retained, after, sum, err, want)
			}
		}
		older(`DELETE FROM garbage`)
		counted(2*row+4, "freeing by the previous version")
		older(`UPDATE uploads SET state = 2, ended = 1 WHERE id = ` + b("u"))
		counted(2*row+4, "an abort of the previous version")
		older(`DELETE FROM uploads`)
		counted(row, "forgetting uploads by the previous version")
		older(`DELETE FROM idempotency`)
		counted(0, "forgetting records by the previous version")
		must(s.Purge(t.Context(), 100))
		counted(0, "a purge")
		holds(t, s, 0, `SELECT COUNT(*) FROM retained_sums`)
	})
}

// TestRetainedCostsNoStatement: when a blob has an owner, its commit, overwrite and delete run one
// statement that counts usage, and the same others as without an owner.
func TestRetainedCostsNoStatement(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	var statements []statement
	record(s, &statements)
	run := func(owner string) (texts []string) {
		statements = nil
		putFor(t, s, owner, "one "+owner, "abc")
		putFor(t, s, owner, "one "+owner, "abcd")
		remove(t, s, "one "+owner)
		for _, one := range statements {
			texts = append(texts, one.text)
		}
		return texts
	}
	without, with := run(""), run("x")
	usage := 0
	for _, text := range with {
		if strings.Contains(text, "INTO usage") {
			usage++
		} else if strings.Contains(text, "retained") {
			t.Errorf("a write runs %s", text)
		}
	}
	if usage != 3 || len(with) != len(without)+3 {
		t.Errorf("with an owner %d statements are run, %d of usage, and %d without", len(with), usage, len(without))
	}
}

// TestManyEndedUploads measures what the outcomes of many uploads with parts, metadata and types
// take in the database after a purge: no more than they count.
func TestManyEndedUploads(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	const uploads, parts = 100, 40
	size := func() int64 {
		t.Helper()
		return value(t, s, `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`)
	}
	before := size()
	metadata := strings.Repeat("m", 4096)
	for i := range uploads {
		id := fmt.Sprint("upload", i)
		u := metastore.Upload{
			ID: id, Account: "a", Name: fmt.Sprint("name", i), Content: metastore.NewContentID(s.Now()), PartSize: 1, Owner: "x",
			ContentType: strings.Repeat("t", 200), Metadata: metadata,
		}
		testenv.Must(s.BeginUpload(t.Context(), u))(t)
		for k := range parts {
			testenv.OK(t, s.PutPart(t.Context(), id, metastore.Part{Index: k, Size: 1}, []metastore.Extent{{Part: k, Size: 1, Body: []byte("b")}}))
		}
		testenv.Must(s.AbortUpload(t.Context(), id))(t)
	}
	garbage := testenv.Must(s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, uploads))(t)
	for _, g := range garbage {
		extents := testenv.Must(s.Extents(t.Context(), g.Content, metastore.Position{}, parts))(t)
		var positions []metastore.Position
		for _, e := range extents {
			positions = append(positions, metastore.Position{Part: e.Part, Offset: e.Offset})
		}
		testenv.OK(t, s.DropExtents(t.Context(), g.Content, positions))
		testenv.OK(t, s.DropContent(t.Context(), g.Content))
	}
	for n := 1; n > 0; {
		n = testenv.Must(s.Purge(t.Context(), 1000))(t)
	}
	used := usageIsExact(t, s, "x")
	taken := size() - before
	t.Logf("%d ended uploads count %d bytes and take %d", uploads, used.Retained, taken)
	if used.Occupied() != used.Retained || used.Retained < uploads*metastore.RowCharge || taken > used.Retained {
		t.Errorf("%d ended uploads take %d bytes, and count %+v", uploads, taken, used)
	}
}
