package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

// putObject commits a blob of one object for owner x, and returns it as stored.
func putObject(t *testing.T, s *Store, account, name string, size int64, expires time.Time) metastore.Blob {
	t.Helper()
	b := metastore.Blob{Account: account, Name: name, Content: metastore.NewContentID(s.Now()), Size: size, Owner: "x", Expires: expires}
	e := metastore.Extent{Size: size, Object: fmt.Sprintf("%x", b.Content[:]), Created: s.Now()}
	return testenv.Must(s.CommitBlob(t.Context(), b, []metastore.Extent{e}, nil))(t)
}

// copyFor copies a blob for owner y.
func copyFor(t *testing.T, s *Store, from metastore.Blob, account, name string, expires time.Time) metastore.Blob {
	t.Helper()
	return testenv.Must(s.CopyBlob(t.Context(), metastore.Copy{
		From: metastore.BlobName{Account: from.Account, Name: from.Name}, To: metastore.Blob{Account: account, Name: name, Owner: "y", Expires: expires},
	}))(t)
}

func moveBlob(t *testing.T, s *Store, from, to string) {
	t.Helper()
	testenv.Must(s.MoveBlob(t.Context(), metastore.Move{
		From: metastore.BlobName{Account: "a", Name: from}, To: metastore.BlobName{Account: "a", Name: to}, Owner: "x",
	}))(t)
}

// TestUncopiedBlobsHaveNoShares: a content that is never copied, or is copied with its bytes,
// leaves no row of shares; and the row of a shared content is deleted with its last blob.
func TestUncopiedBlobsHaveNoShares(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		putObject(t, s, "a", "one", 5, time.Time{})
		putObject(t, s, "a", "one", 6, time.Time{})
		moveBlob(t, s, "one", "two")
		putObject(t, s, "a", "one", 7, time.Time{})
		moveBlob(t, s, "one", "two")
		for _, body := range []string{"", "inline"} {
			putFor(t, s, "x", "small", body)
			copyFor(t, s, metastore.Blob{Account: "a", Name: "small"}, "a", "small copy", time.Time{})
			copyFor(t, s, metastore.Blob{Account: "a", Name: "small"}, "a", "small", time.Time{})
		}
		copyFor(t, s, metastore.Blob{Account: "a", Name: "two"}, "a", "two", time.Time{})
		remove(t, s, "two")
		holds(t, s, 0, `SELECT COUNT(*) FROM shares`)
		holds(t, s, 0, `SELECT COUNT(*) FROM blobs WHERE shared <> 0`)
		audited(t, s)

		b := putObject(t, s, "a", "one", 5, time.Time{})
		copyFor(t, s, b, "b", "one", time.Time{})
		holds(t, s, 2, `SELECT CAST(SUM(refs) AS BIGINT) FROM shares`)
		remove(t, s, "one")
		holds(t, s, 1, `SELECT CAST(SUM(refs) AS BIGINT) FROM shares`)
		audited(t, s)
		testenv.Must(s.MoveBlob(t.Context(), metastore.Move{From: metastore.BlobName{Account: "b", Name: "one"}, To: metastore.BlobName{Account: "a", Name: "last"}}))(t)
		audited(t, s)
		remove(t, s, "last")
		holds(t, s, 0, `SELECT COUNT(*) FROM shares`)
		audited(t, s)
	})
}

// TestCopyCostsTheSame: a copy and a move run the same statements for a content of one object and
// for one of thousands.
func TestCopyCostsTheSame(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	run := func(name string, objects int) (texts []string) {
		b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(s.Now()), Size: int64(objects)}
		var extents []metastore.Extent
		for i := range objects {
			extents = append(extents, metastore.Extent{Offset: int64(i), Size: 1, Object: fmt.Sprint(name, i), Created: s.Now()})
		}
		testenv.Must(s.CommitBlob(t.Context(), b, extents, nil))(t)
		var statements []statement
		record(s, &statements)
		copyFor(t, s, b, "a", name+" copy", time.Time{})
		copyFor(t, s, b, "a", name+" again", time.Time{})
		moveBlob(t, s, name, name+" copy")
		remove(t, s, name+" copy")
		for _, one := range statements {
			texts = append(texts, one.text)
		}
		return texts
	}
	one, many := run("one", 1), run("many", 3000)
	if len(one) == 0 || !slices.Equal(one, many) {
		t.Errorf("for one object these statements are run:\n%q\nand for many:\n%q", one, many)
	}
}

// ignoring returns err, or nil if it wraps target.
func ignoring(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
