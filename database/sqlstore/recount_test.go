package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// recounted corrects all counts, and returns what it says.
func recounted(ctx context.Context, s *Store) (said []string, err error) {
	for _, recount := range []func(context.Context, func(string, ...any)) error{s.RecountUploads, s.RecountShares, s.RecountAccounts, s.RecountUsage} {
		if err := recount(ctx, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }); err != nil {
			return said, err
		}
	}
	return said, nil
}

// fillCounted stores shared and other blobs, an open upload with a part, and garbage, for owners.
func fillCounted(t *testing.T, s *Store) {
	t.Helper()
	b := putObject(t, s, "a", "one", 10, time.Time{})
	copyFor(t, s, b, "a", "two", time.Time{})
	copyFor(t, s, b, "b", "three", time.Time{})
	putObject(t, s, "b", "alone", 7, time.Time{})
	putObject(t, s, "b", "gone", 9, time.Time{})
	testenv.Must(s.Purge(t.Context(), 100))(t) // so that there are sums
	testenv.Must(s.MoveBlob(t.Context(), metastore.Move{From: metastore.BlobName{Account: "b", Name: "gone"}, To: metastore.BlobName{Account: "c", Name: "moved"}, Owner: "x"}))(t)
	_, _, err := dbtest.Remove(t.Context(), s, "c", "moved", nil)
	testenv.OK(t, err)
	putPartFor(t, s, "upload", 5)
}

// putPartFor begins an upload of owner x and stores a part of some bytes, which a database keeps.
func putPartFor(t *testing.T, s *Store, id string, size int64) {
	t.Helper()
	u := testenv.Must(s.BeginUpload(t.Context(), metastore.Upload{ID: id, Account: "a", Name: id, Content: metastore.NewContentID(s.Now()), PartSize: 100, Owner: "x"}))(t)
	testenv.OK(t, putPart(t.Context(), s, u, 0, size))
}

func putPart(ctx context.Context, s *Store, u metastore.Upload, index int, size int64) error {
	e := metastore.Extent{Part: index, Size: size, Blocks: []uint32{1}, Body: make([]byte, size), Created: s.Now()}
	return s.PutPart(ctx, u.ID, metastore.Part{Index: index, Size: size}, []metastore.Extent{e})
}

// TestRecounts damages counts, and corrects them: only what the damage concerns, completely, and
// once.
// Invariant 114.
func TestRecounts(t *testing.T) {
	damages := []struct{ name, damage, says string }{
		{"nothing", `SELECT 1`, ""},
		{"account's sums", `UPDATE account_sums SET blobs = blobs + 1, bytes = bytes - 3 WHERE account = CAST('a' AS BLOB)`, `account "a": 3 blobs of 17 bytes were counted, and there are 2 of 20`},
		{"account's sums lost", `DELETE FROM account_sums`, `account "b": `},
		{"account without blobs", `INSERT INTO account_sums (account, blobs, bytes) VALUES (CAST('z' AS BLOB), 1, 5)`, `account "z": 1 blobs of 5 bytes were counted, and there are 0 of 0`},
		{"usage", `INSERT INTO usage (owner, id, bytes, uploads, objects, names, channels, retained) VALUES (CAST('x' AS BLOB), CAST('1' AS BLOB), 1, 2, 3, 4, 5, 6)`,
			`owner "x": counted beyond what is stored were 1 bytes, 2 uploads, 3 objects, 4 bytes of names, 5 channels, 6 bytes retained`},
		{"usage lost", `DELETE FROM usage_sums`, `owner "y": counted beyond what is stored were -`},
		{"retained", `INSERT INTO usage_sums (owner, bytes, uploads, retained) VALUES (CAST('z' AS BLOB), 0, 0, -3)`, `owner "z": `},
		{"references", `UPDATE shares SET refs = refs + 1`, "4 references were counted, and of 3 blobs 3 were marked"},
		{"references lost", `DELETE FROM shares`, "0 references were counted, and of 3 blobs 3 were marked"},
		{"one reference", `UPDATE shares SET refs = 1`, "1 references were counted"},
		{"marks lost", `UPDATE blobs SET shared = 0`, "of 3 blobs 0 were marked"},
		{"a mark lost", `UPDATE blobs SET shared = 0 WHERE account = CAST('b' AS BLOB) AND shared <> 0`, "of 3 blobs 2 were marked"},
		{"marks and references lost", `UPDATE blobs SET shared = 0; DELETE FROM shares`, "0 references were counted, and of 3 blobs 0 were marked"},
		{"a mark without references", `UPDATE blobs SET shared = 1 WHERE size = 7`, "0 references were counted, and of 1 blobs 1 were marked"},
		{"references of no blob", `INSERT INTO shares (content, refs) VALUES (CAST('0123456789abcdef' AS BLOB), 4)`, "4 references were counted, and of 0 blobs 0 were marked"},
		{"upload's bytes", `UPDATE uploads SET bytes = bytes + 1`, "1 parts of 6 bytes were counted, and there are 1 of 5"},
		{"upload's parts", `UPDATE uploads SET parts = 0`, "0 parts of 5 bytes were counted, and there are 1 of 5"},
	}
	onBoth(t, func(t *testing.T, s *Store) {
		fillCounted(t, s)
		audited(t, s)
		before := sums(t, s)
		for _, c := range damages {
			for one := range strings.SplitSeq(c.damage, ";") {
				executeBoth(t, s, one)
			}
			said, err := recounted(t.Context(), s)
			testenv.OK(t, err)
			if all := strings.Join(said, "\n"); !strings.Contains(all, c.says) || (len(said) == 0) != (c.says == "") {
				t.Errorf("%s: said %q, want %q", c.name, said, c.says)
			}
			audited(t, s)
			testenv.Equal(t, sums(t, s), before, "what is counted after %s", c.name)
			if said, err := recounted(t.Context(), s); err != nil || len(said) > 0 {
				t.Errorf("%s: then the counts were corrected again: %q, %v", c.name, said, err)
			}
		}
		for _, name := range []string{"one", "two"} {
			remove(t, s, name)
		}
		audited(t, s) // no garbage that a blob has
		holds(t, s, 2, `SELECT COUNT(*) FROM blobs`)
	})
}

// sums returns all that is counted for accounts and owners.
func sums(t *testing.T, s *Store) string {
	t.Helper()
	accounts := testenv.Must(s.ListAccounts(t.Context(), "", 100))(t)
	text := fmt.Sprint(accounts)
	for _, owner := range []string{"x", "y", "z"} {
		text += fmt.Sprint(testenv.Must(s.Usage(t.Context(), owner))(t))
	}
	return text
}

// TestRecountsLeaveDamage: what is no count, or cannot be counted because what it would be counted
// from is damaged, stays as it is.
// Invariant 114.
func TestRecountsLeaveDamage(t *testing.T) {
	for _, c := range []struct{ name, damage, finds string }{
		{"part of an upload", `UPDATE parts SET size = size + 1`, "the part of the upload has 6"},
		{"part lost", `DELETE FROM parts`, "its upload counts 1 parts"},
		{"part's extent lost", `DELETE FROM extents WHERE size = 5; DELETE FROM bodies`, "has extents of 0 bytes"},
		{"part and its count", `UPDATE parts SET size = size + 1; UPDATE uploads SET bytes = 7`, "differ by 1"},
		{"living garbage", `INSERT INTO garbage (content, since) SELECT content, 1 FROM blobs WHERE size = 7`, "is garbage, but a blob has it"},
		{"blob's bytes", `UPDATE extents SET size = 8 WHERE size = 7`, "have 8 bytes, and its blob has 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openAt(t, databasePath(t), Options{})
			fillCounted(t, s)
			for one := range strings.SplitSeq(c.damage, ";") {
				execute(t, s, one)
			}
			found := testenv.Must(s.Audit(t.Context()))(t)
			said, err := recounted(t.Context(), s)
			testenv.OK(t, err)
			after := testenv.Must(s.Audit(t.Context()))(t)
			// Usage follows from what an upload counts.
			isUsage := func(finding string) bool { return strings.HasPrefix(finding, "owner ") }
			if found = slices.DeleteFunc(found, isUsage); !strings.Contains(strings.Join(after, "\n"), c.finds) || !slices.Equal(found, after) {
				t.Errorf("said %q; before %q, after %q, want %q", said, found, after, c.finds)
			}
		})
	}
}

// TestRecountsBesideWriters damages counts and corrects them, while others copy, move, replace and
// delete the blobs and store parts: the audit finds nothing each time.
// Invariant 114.
func TestRecountsBesideWriters(t *testing.T) {
	const callers, names, most = 6, 4, 40
	onBoth(t, func(t *testing.T, s *Store) {
		name := func(n int) metastore.BlobName {
			return metastore.BlobName{Account: "a", Name: fmt.Sprint("name", n%names)}
		}
		putObject(t, s, "a", "lasting", 10, time.Time{})
		putPartFor(t, s, "upload", 5)
		u := testenv.Must(s.Upload(t.Context(), "upload"))(t)
		ctx, stop := context.WithCancel(t.Context())
		step := func(i, k int) error {
			from, to := name(i+k), name(i*3+k*5+1)
			switch (i + k) % 6 {
			case 0:
				_, _, err := dbtest.Remove(t.Context(), s, "a", from.Name, nil)
				return ignoring(err, database.ErrNotFound)
			case 3:
				b := metastore.Blob{Account: "a", Name: from.Name, Content: metastore.NewContentID(s.Now()), Size: int64(5 + k%7), Owner: "x"}
				_, err := s.CommitBlob(t.Context(), b, []metastore.Extent{{Size: b.Size, Object: fmt.Sprintf("%x", b.Content[:]), Created: s.Now()}}, nil)
				return err
			case 1:
				_, err := s.MoveBlob(t.Context(), metastore.Move{From: from, To: to, Owner: "x"})
				return ignoring(err, metastore.ErrNoSource)
			case 2:
				return putPart(t.Context(), s, u, k%3, int64(1+k%9))
			default:
				_, err := s.CopyBlob(t.Context(), metastore.Copy{From: metastore.BlobName{Account: "a", Name: "lasting"}, To: metastore.Blob{Account: "a", Name: to.Name, Owner: "y"}})
				return ignoring(err, metastore.ErrNoSource)
			}
		}
		var writers sync.WaitGroup
		for i := range callers {
			writers.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					if err := step(i, k); err != nil {
						t.Errorf("caller %d, step %d: %v", i, k, err)
						return
					}
				}
			})
		}
		defer writers.Wait()
		defer stop()
		corrected := 0
		for range most {
			// With too few references, or too many for a content's last blob, a writer would do
			// damage itself.
			for _, damage := range []string{
				`UPDATE shares SET refs = refs + 3 WHERE content = (SELECT content FROM blobs WHERE name_head = CAST('lasting' AS BLOB))`,
				`UPDATE account_sums SET blobs = blobs + 1, bytes = bytes + 7`, `UPDATE uploads SET bytes = bytes + 1 WHERE state = 0`,
				`INSERT INTO usage_sums (owner, bytes, uploads) VALUES (CAST('x' AS BLOB), 3, 0) ON CONFLICT (owner) DO UPDATE SET bytes = usage_sums.bytes + 3`,
			} {
				executeBoth(t, s, damage)
			}
			said, err := recounted(t.Context(), s)
			if corrected += len(said); err != nil {
				t.Fatal(err)
			}
			audited(t, s)
		}
		if corrected < 2*most {
			t.Errorf("%d counts were corrected in %d rounds", corrected, most)
		}
	})
}

// TestRecountIsRefused: a store that may not commit corrects nothing, and says nothing of it.
// Invariant 114.
func TestRecountIsRefused(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	fillCounted(t, s)
	execute(t, s, `UPDATE account_sums SET blobs = blobs + 1`)
	errRefused := errors.New("refused")
	s.Guard(func() error { return errRefused })
	said, err := recounted(t.Context(), s)
	testenv.Is(t, err, errRefused, "the correction")
	if len(said) > 0 {
		t.Errorf("said %q", said)
	}
}
