package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/engine"
	"sluice/internal/testenv"
	"sluice/metastore"
)

// sharesVersion is the schema version before contents were shared.
const sharesVersion = 18

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

// TestUncopiedBlobsHaveNoShares: what is never copied, and what is copied with its bytes, leaves no
// row of shares; and the row of a shared content is deleted with its last blob.
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
		holds(t, s, 0, `SELECT COUNT(*) FROM blobs WHERE shared IS NOT NULL`)
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

// TestMigratesShares copies, moves and deletes blobs of the version before contents were shared.
func TestMigratesShares(t *testing.T) {
	rows := rawBlob("a", "one", 10) + rawBlob("a", "two", 7) + `
		INSERT INTO extents (content, part, off, size, blocks, object) SELECT content, 0, 0, size, CAST('abcd' AS BLOB), content FROM blobs;`
	onOlder(t, sharesVersion, rows, func(t *testing.T, s *Store) {
		audited(t, s)
		holds(t, s, 0, `SELECT COUNT(*) FROM shares`)
		one := testenv.Must(s.Blob(t.Context(), "a", "one"))(t)
		testenv.Equal(t, copyFor(t, s, one, "a", "copy", time.Time{}).Content, one.Content, "the copy's content")
		audited(t, s)
		moveBlob(t, s, "one", "two")
		audited(t, s)
		holds(t, s, 1, `SELECT COUNT(*) FROM garbage`)
		remove(t, s, "two")
		holds(t, s, 1, `SELECT COUNT(*) FROM garbage`)
		remove(t, s, "copy")
		holds(t, s, 2, `SELECT COUNT(*) FROM garbage`)
		holds(t, s, 0, `SELECT COUNT(*) FROM shares`)
		audited(t, s)
	})
}

// TestOlderNodesRunBesideShares runs the statements by which nodes of the previous version delete,
// replace and purge blobs, on blobs that share their contents. They insert each content into
// garbage, with its charge, and know neither shares nor the column shared.
func TestOlderNodesRunBesideShares(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL)
	s := openAtPostgres(t)
	owner := func(b metastore.Blob) string { return `CAST('` + b.Owner + `' AS BLOB)` }
	where := func(b metastore.Blob) string {
		return fmt.Sprintf(` WHERE account = CAST('%s' AS BLOB) AND name_head = CAST('%s' AS BLOB)`, b.Account, b.Name)
	}
	// As one transaction, like theirs.
	older := func(statements ...string) {
		t.Helper()
		text := ""
		for _, one := range statements {
			text += "\n" + one + ";"
		}
		executeOlder(t, s, `DO $do$ BEGIN`+text+`END $do$`)
	}
	garbage := func(b metastore.Blob) string {
		return fmt.Sprintf(`INSERT INTO garbage (content, since, owner, charge) VALUES ('\x%x', 1, %s, %d)`, b.Content[:], owner(b), metastore.GarbageCharge(b.Size, 1))
	}
	count := 0
	counts := func(b metastore.Blob) string {
		count++
		return fmt.Sprintf(`INSERT INTO usage (owner, id, bytes, uploads, objects, names, channels, retained) VALUES (%s, CAST('%016d' AS BLOB), -%d, 0, -1, -%d, 0, %d)`,
			owner(b), count, b.Size, len(b.Name), metastore.GarbageCharge(b.Size, 1))
	}
	deletes := func(b metastore.Blob) { older(counts(b), garbage(b), `DELETE FROM blobs`+where(b)) }
	replaces := func(b metastore.Blob) { // by an empty blob without an owner
		older(counts(b), garbage(b), `UPDATE blobs SET content = CAST('`+fmt.Sprintf("%016d", count)+`' AS BLOB), size = 0, crc64 = 0, owner = NULL, expires = NULL, metadata = NULL`+where(b))
	}
	exact := func(content metastore.ContentID, refs, garbage int64, after string) {
		t.Helper()
		testenv.Equal(t, value(t, s, `SELECT CAST(COALESCE(SUM(refs), 0) AS BIGINT) FROM shares WHERE content = $1`, content[:]), refs, "references after %s", after)
		testenv.Equal(t, value(t, s, `SELECT COUNT(*) FROM garbage WHERE content = $1`, content[:]), garbage, "rows of garbage after %s", after)
		usageIsExact(t, s, "x")
		usageIsExact(t, s, "y")
		audited(t, s)
	}

	b := putObject(t, s, "a", "one", 10, time.Time{})
	second := copyFor(t, s, b, "a", "two", time.Time{})
	third := copyFor(t, s, second, "b", "three", time.Time{})
	exact(b.Content, 3, 0, "copies")
	deletes(second)
	exact(b.Content, 2, 0, "a delete")
	copyFor(t, s, third, "a", "two", time.Time{})
	exact(b.Content, 3, 0, "a copy after a delete")
	replaces(b)
	exact(b.Content, 2, 0, "a replacement")
	holds(t, s, 1, `SELECT COUNT(*) FROM blobs WHERE shared <> content`) // the node has left the column
	// The blob that was replaced is copied and replaced again: what the column has is ignored.
	replaced := putObject(t, s, "a", "one", 4, time.Time{})
	copied := copyFor(t, s, replaced, "a", "copied", time.Time{})
	exact(replaced.Content, 2, 0, "a copy over what the older node left")
	deletes(copied)
	deletes(replaced)
	exact(replaced.Content, 0, 1, "two deletes")
	remove(t, s, "two")
	exact(b.Content, 1, 0, "a delete of this version")
	replaces(third)
	exact(b.Content, 0, 1, "the replacement of the last blob")

	// An older leader purges two blobs that have one content, while a third one has it, and then
	// two that are the last.
	for _, lasting := range []int64{1, 0} {
		soon := s.Now().Add(time.Hour)
		first := putObject(t, s, "c", fmt.Sprint("first", lasting), 10, soon)
		second := copyFor(t, s, first, "c", fmt.Sprint("second", lasting), soon)
		if lasting == 1 {
			copyFor(t, s, first, "c", "lasting", time.Time{})
		}
		older(`DELETE FROM blobs`+where(first), garbage(first), `DELETE FROM blobs`+where(second), garbage(second), counts(first), counts(second))
		exact(first.Content, lasting, 1-lasting, "a purge")
	}

	// A node makes garbage that was never shared, and stages extents, as before.
	alone := putObject(t, s, "a", "alone", 3, time.Time{})
	deletes(alone)
	exact(alone.Content, 0, 1, "a delete of a blob that was never copied")
	staged := metastore.Blob{Content: metastore.NewContentID(s.Now())}
	older(fmt.Sprintf(`INSERT INTO garbage (content, since) VALUES ('\x%x', %d)`, staged.Content[:], int64(1)<<62+1))
	exact(staged.Content, 0, 1, "staging")
}

// TestOlderNodesRaceWithCopies deletes and replaces blobs as nodes of the previous version do,
// while this version's node copies, moves and replaces blobs that have the same contents.
func TestOlderNodesRaceWithCopies(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL)
	s := openAtPostgres(t)
	ctx := t.Context()
	const names, callers, steps = 4, 12, 15
	name := func(n int) metastore.BlobName {
		return metastore.BlobName{Account: "a", Name: fmt.Sprint("name", n%names)}
	}
	older := func(n metastore.BlobName, change string) error {
		return s.db.WriteLocked(ctx, func(t *engine.Tx) error {
			if err := t.Lock("blob", n.Account, n.Name); err != nil {
				return err
			}
			return t.Change(`DO $do$ DECLARE old blobs%ROWTYPE; BEGIN
				SELECT * INTO old FROM blobs WHERE account = CAST('a' AS BYTEA) AND name_head = CAST('` + n.Name + `' AS BYTEA) FOR UPDATE;
				IF FOUND THEN
					INSERT INTO usage (owner, id, bytes, uploads, objects, names, channels, retained)
						VALUES (old.owner, uuid_send(gen_random_uuid()), -old.size, 0, -1, -length(old.name_head), 0, old.size + 1024);
					` + change + `
					INSERT INTO garbage (content, since, owner, charge) VALUES (old.content, 1, old.owner, old.size + 1024);
				END IF;
			END $do$`)
		})
	}
	step := func(i, k int) error {
		from, to := name(i+k), name(i*3+k*5+1)
		switch (i + k) % 6 {
		case 0:
			return older(from, `DELETE FROM blobs WHERE account = old.account AND name_head = old.name_head;`)
		case 1:
			return older(from, `UPDATE blobs SET content = uuid_send(gen_random_uuid()), size = 7, metadata = NULL WHERE account = old.account AND name_head = old.name_head;
				INSERT INTO extents (content, part, off, size, blocks, object)
					SELECT content, 0, 0, 7, '\x00000000', convert_to(encode(content, 'hex'), 'UTF8') FROM blobs WHERE account = old.account AND name_head = old.name_head;
				INSERT INTO usage (owner, id, bytes, uploads, objects, names, channels, retained)
					VALUES (old.owner, uuid_send(gen_random_uuid()), 7, 0, 1, length(old.name_head), 0, 0);`)
		case 2:
			b := metastore.Blob{Account: "a", Name: from.Name, Content: metastore.NewContentID(s.Now()), Size: 5, Owner: "x"}
			_, err := s.CommitBlob(ctx, b, []metastore.Extent{{Size: 5, Object: fmt.Sprintf("%x", b.Content[:]), Created: s.Now()}}, nil)
			return err
		case 3:
			_, err := s.MoveBlob(ctx, metastore.Move{From: from, To: to, Owner: "x"})
			return ignoring(err, metastore.ErrNoSource)
		default:
			_, err := s.CopyBlob(ctx, metastore.Copy{From: from, To: metastore.Blob{Account: "a", Name: to.Name, Owner: "y"}})
			return ignoring(err, metastore.ErrNoSource)
		}
	}
	for n := range names {
		putObject(t, s, "a", name(n).Name, 10, time.Time{})
	}
	errs := dbtest.Race(callers, func(i int) error {
		for k := range steps {
			if err := step(i, k); err != nil {
				return fmt.Errorf("caller %d, step %d: %w", i, k, err)
			}
		}
		return nil
	})
	testenv.OK(t, errors.Join(errs...))
	usageIsExact(t, s, "x")
	usageIsExact(t, s, "y")
	audited(t, s)
	// Each content that a commit has stored is of a blob or garbage.
	holds(t, s, 0, `SELECT COUNT(*) FROM extents e WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.content = e.content)
		AND NOT EXISTS (SELECT 1 FROM garbage g WHERE g.content = e.content)`)
}

// ignoring returns err, or nil if it wraps target.
func ignoring(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
