package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// putParts begins an upload for owner x, and stores an object as a part for each size. first is the
// first part's number.
func putParts(t *testing.T, s *Store, id string, partSize int64, first int, sizes ...int64) (metastore.Upload, []metastore.Part) {
	t.Helper()
	u := testenv.Must(s.BeginUpload(t.Context(), metastore.Upload{
		ID: id, Account: "a", Name: id, Content: metastore.NewContentID(s.Now()), PartSize: partSize, Owner: "x",
	}))(t)
	var parts []metastore.Part
	for i, size := range sizes {
		p := metastore.Part{Index: first + i, Size: size, CRC64: uint64(size)}
		e := metastore.Extent{Part: p.Index, Size: size, Object: fmt.Sprint(id, p.Index), Created: s.Now()}
		testenv.OK(t, s.PutPart(t.Context(), id, p, []metastore.Extent{e}))
		parts = append(parts, p)
	}
	return testenv.Must(s.Upload(t.Context(), u.ID))(t), parts
}

// completeUneven completes an upload with these parts and returns its blob.
func completeUneven(t *testing.T, s *Store, u metastore.Upload, parts ...metastore.Part) metastore.Blob {
	t.Helper()
	testenv.Must(s.CompleteUneven(t.Context(), u.ID, u.Revision, parts, 1, "", nil))(t)
	return testenv.Must(s.Blob(t.Context(), u.Account, u.Name))(t)
}

// freeAll deletes all garbage.
func freeAll(t *testing.T, s *Store) {
	t.Helper()
	var ids []metastore.ContentID
	for _, g := range testenv.Must(s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 1000))(t) {
		ids = append(ids, g.Content)
	}
	testenv.OK(t, s.DropContents(t.Context(), ids))
	holds(t, s, 0, `SELECT COUNT(*) FROM garbage`)
}

// recordAll is record, and records the statements of reads, too.
func recordAll(s *Store, texts *[]string) {
	watch := func(run enginetest.Transactor) enginetest.Transactor {
		return func(ctx context.Context, fn func(*engine.Tx) error) error {
			return run(ctx, func(t *engine.Tx) error {
				defer t.Observe(func(text string, _ engine.Args) { *texts = append(*texts, text) })()
				return fn(t)
			})
		}
	}
	enginetest.Hook(s.db, enginetest.Hooks{Write: watch, WriteLocked: watch, Read: watch})
}

// TestEvenPartsCostNothing: no statement for a blob with even parts names the table starts, and an
// upload that could have had a PartSize is completed and read by the same statements as one that
// has it. An uneven content's rows go with its garbage.
func TestEvenPartsCostNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		var texts []string
		recordAll(s, &texts)
		run := func(id string, complete func(u metastore.Upload, parts []metastore.Part) error, partSize int64) []string {
			u, parts := putParts(t, s, id, partSize, 0, 5, 5, 3)
			texts = nil
			testenv.OK(t, complete(u, parts))
			b, _, err := s.OpenBlob(t.Context(), "a", id)
			testenv.OK(t, err)
			testenv.Equal(t, b.PartSize, 5, "the blob's PartSize")
			testenv.Must(s.Extents(t.Context(), b.Content, metastore.Position{Part: 1}, 10))(t)
			copyFor(t, s, b, "b", id, time.Time{})
			remove(t, s, id)
			testenv.Must(s.CopyBlob(t.Context(), metastore.Copy{From: metastore.BlobName{Account: "b", Name: id}, To: metastore.Blob{Account: "a", Name: id}}))(t)
			for _, text := range texts {
				if strings.Contains(text, "starts") {
					t.Errorf("for even parts runs %s", text)
				}
			}
			return slices.Clone(texts)
		}
		even := run("even", func(u metastore.Upload, _ []metastore.Part) error {
			return testenv.Error(s.CompleteUpload(t.Context(), u.ID, u.Revision, 13, 1, nil))
		}, 5)
		chosen := run("chosen", func(u metastore.Upload, parts []metastore.Part) error {
			return testenv.Error(s.CompleteUneven(t.Context(), u.ID, u.Revision, parts, 1, "", nil))
		}, 0)
		if len(even) == 0 || !slices.Equal(even, chosen) {
			t.Errorf("for even parts these statements are run:\n%q\nand for chosen ones:\n%q", even, chosen)
		}
		holds(t, s, 0, `SELECT COUNT(*) FROM starts`)

		u, parts := putParts(t, s, "uneven", 0, 1, 3, 5, 7)
		completeUneven(t, s, u, parts[0], parts[2])
		holds(t, s, 2, `SELECT COUNT(*) FROM starts`)
		audited(t, s)
		usageIsExact(t, s, "x")
		freeAll(t, s)
		audited(t, s)
		remove(t, s, "uneven")
		holds(t, s, 2, `SELECT COUNT(*) FROM starts`)
		audited(t, s)
		freeAll(t, s)
		holds(t, s, 0, `SELECT COUNT(*) FROM starts`)
		usageIsExact(t, s, "x")
		audited(t, s)
	})
}

// TestTenThousandParts completes an upload with as many parts as a blob can have, and as many that
// are not chosen, by few statements, and reads any part by a single one.
func TestTenThousandParts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		u, _ := putParts(t, s, "upload", 0, 0)
		rows := strings.ReplaceAll(`INSERT INTO parts (content, idx, size, crc64)
			WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) SELECT u.content, i, 1 + i % 7, i FROM n, uploads u;
			INSERT INTO extents (content, part, off, size, blocks, object) SELECT content, idx, 0, size, CAST('' AS BLOB), CAST(CAST(idx AS TEXT) AS BLOB) FROM parts;
			UPDATE uploads SET parts = 20000, bytes = (SELECT CAST(SUM(size) AS BIGINT) FROM parts)`, "\n", " ")
		for _, one := range strings.Split(rows, ";") {
			executeBoth(t, s, one)
		}
		u = testenv.Must(s.Upload(t.Context(), u.ID))(t)
		var chosen []metastore.Part
		for i := 1; i < 20_000; i += 2 {
			chosen = append(chosen, metastore.Part{Index: i, Size: int64(1 + i%7), CRC64: uint64(i)})
		}
		var statements []string
		recordAll(s, &statements)
		b := completeUneven(t, s, u, chosen...)
		if len(statements) > 70 {
			t.Errorf("%d statements complete an upload", len(statements))
		}
		start := int64(0)
		for i, p := range chosen {
			if i%999 == 0 {
				statements = nil
				e := testenv.Must(s.ExtentsAt(t.Context(), b.Content, start+p.Size-1, 1))(t)
				if len(statements) != 1 || len(e) != 1 || e[0].Part != p.Index || e[0].Start != start {
					t.Errorf("%d statements find %+v for part %d at byte %d", len(statements), e, p.Index, start)
				}
			}
			start += p.Size
		}
		holds(t, s, 10_000, `SELECT COUNT(*) FROM extents e JOIN garbage g ON g.content = e.content`)
		holds(t, s, 10_000, `SELECT COUNT(*) FROM extents e JOIN blobs b ON b.content = e.content`)
		auditedExcept(t, s, "counted beyond") // nobody has counted the parts
		// The starts go with the content's last row, in the same transaction.
		remove(t, s, "upload")
		for _, g := range testenv.Must(s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 10))(t) {
			var all []metastore.Position
			for _, e := range testenv.Must(s.Extents(t.Context(), g.Content, metastore.Position{}, 20_000))(t) {
				all = append(all, metastore.Position{Part: e.Part})
			}
			for batch := range slices.Chunk(all, 1000) {
				testenv.OK(t, s.DropExtents(t.Context(), g.Content, batch))
			}
			testenv.OK(t, s.DropContent(t.Context(), g.Content))
		}
		holds(t, s, 0, `SELECT COUNT(*) FROM starts`)
	})
}
