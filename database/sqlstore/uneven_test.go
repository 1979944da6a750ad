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
