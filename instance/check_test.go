package instance

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/checksum"
	"sluice/internal/datadir"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/session"
	"sluice/storage"
	"sluice/test/testenv"
)

// workload makes use of everything that an instance stores.
type workload struct {
	*storage.Stores
	blobs *blob.Service
	part  string // begins the names and ids, so that several workloads have different ones
}

func newWorkload(s *storage.Stores, part string) *workload {
	return &workload{s, blob.New(s.Meta, s.Bytes, blob.Options{ExtentSize: 2 << 20}), part}
}

func (w *workload) put(ctx context.Context, name string, size int) error {
	_, err := w.blobs.Put(ctx, blob.PutOptions{Account: "a", Name: w.part + name, Owner: "owner", Metadata: "m"}, bytes.NewReader(bytes.Repeat([]byte{7, 13}, size/2)), int64(size/2*2))
	return err
}

func (w *workload) named(name string) metastore.BlobName {
	return metastore.BlobName{Account: "a", Name: w.part + name}
}

// run stores blobs, copies, moves, replaces and deletes some, completes, aborts and leaves uploads,
// uses sessions, and pays.
func (w *workload) run(ctx context.Context) error {
	for name, size := range map[string]int{"small": 100, "small2": 200, "large": 5 << 20, "object": 40_000, "source": 50_000, "moved": 60_000, "replaced": 70_000, "empty": 0} {
		if err := w.put(ctx, name, size); err != nil {
			return err
		}
	}
	_, err := w.blobs.Copy(ctx, blob.CopyOptions{From: w.named("source"), To: w.named("copy"), Owner: "other"})
	_, err2 := w.blobs.Copy(ctx, blob.CopyOptions{From: w.named("small"), To: w.named("small copy")})
	_, err3 := w.blobs.Move(ctx, blob.MoveOptions{From: w.named("moved"), To: w.named("there"), Owner: "owner"})
	if err := errors.Join(err, err2, err3, w.put(ctx, "replaced", 80_000), w.blobs.Delete(ctx, "a", w.part+"small2", nil)); err != nil {
		return err
	}
	for _, end := range []string{"even", "uneven", "aborted", "open"} {
		if err := w.upload(ctx, end); err != nil {
			return err
		}
	}
	return errors.Join(w.keep(ctx), w.pay(ctx))
}

// keep replaces, copies and deletes a blob in an account that keeps versions.
func (w *workload) keep(ctx context.Context) error {
	_, err := w.blobs.SetKeeping(ctx, "v", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State = metastore.KeepOn
		return nil, nil
	})
	kept := metastore.BlobName{Account: "v", Name: w.part + "kept"}
	for _, size := range []int64{33_000, 34_000} {
		_, err2 := w.blobs.Put(ctx, blob.PutOptions{Account: kept.Account, Name: kept.Name, Owner: "owner"}, bytes.NewReader(make([]byte, size)), size)
		err = errors.Join(err, err2)
	}
	_, err2 := w.blobs.Copy(ctx, blob.CopyOptions{From: kept, To: metastore.BlobName{Account: "v", Name: w.part + "copy"}})
	return errors.Join(err, err2, w.blobs.Delete(ctx, kept.Account, kept.Name, nil))
}

func (w *workload) upload(ctx context.Context, end string) error {
	begin := blob.BeginOptions{Account: "a", Name: w.part + end, Owner: "owner", PartSize: 1 << 20}
	if end == "uneven" {
		begin.PartSize, begin.Uneven = 0, true
	}
	u, err := w.blobs.Begin(ctx, begin)
	if err != nil {
		return err
	}
	sizes := []int{1 << 20, 40_000}
	if end == "uneven" {
		sizes = []int{1 << 20, 1 << 20, 40_000, 500}
	}
	parts := make([]blob.NamedPart, len(sizes))
	for i, size := range append(sizes, sizes...) { // the second one replaces the first
		i %= len(sizes)
		p, err := w.blobs.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: i}, bytes.NewReader(make([]byte, size)), int64(size))
		if err != nil {
			return err
		}
		parts[i] = blob.NamedPart{Index: i, ETag: checksum.ETag(p.Size, p.CRC64)}
	}
	switch end {
	case "even":
		_, err = w.blobs.Complete(ctx, u.ID, blob.Totals{}, nil)
	case "uneven":
		_, err = w.blobs.CompleteNamed(ctx, u.ID, blob.Named{Parts: slices.Delete(parts, 1, 2)}, nil)
	case "aborted":
		err = w.blobs.Abort(ctx, u.ID)
	}
	return err
}

func (w *workload) pay(ctx context.Context) error {
	sessions := session.New(w.Meta, session.Options{Grant: 10})
	granted, err := sessions.Grant(ctx, "", nil)
	if err != nil {
		return err
	}
	_, err = sessions.Use(ctx, granted.ID, 3, nil)
	c := ledger.Channel{ID: w.part + "channel", Sender: w.part + "s", Receiver: "r", Asset: "a", Deposit: 90, Expires: time.Now().Add(time.Hour), Owner: "owner"}
	_, err2 := w.Meta.OpenChannel(ctx, c, nil)
	pay := ledger.Offer{Payment: ledger.Payment{Sender: c.Sender, Receiver: "r", Asset: "a", Sequence: 1, Amount: 50, Proof: []byte("p"), Expires: c.Expires}, Policy: ledger.Policy{UnsettledLimit: 90}}
	_, err3 := w.Meta.Buy(ctx, ledger.Purchase{Offer: pay, Price: 5, Session: ledger.Session{ID: w.part + "bought", Expires: c.Expires}}, nil)
	_, err4 := w.Meta.UseSession(ctx, w.part+"bought", 2, nil)
	pay.Sequence, pay.Amount = 2, 60
	_, err5 := w.Meta.PayRead(ctx, ledger.ReadPurchase{Offer: pay, Price: 5, Count: 2})
	return errors.Join(err, err2, err3, err4, err5, w.Meta.Book(ctx, []ledger.Settlement{{Channel: c.ID, Sequence: 1, Amount: 50}}))
}

// worked returns a data folder in which a workload has run, and nobody uses it.
func worked(t *testing.T) string {
	t.Helper()
	data := filepath.Join(testenv.MemoryDir(t), "worked")
	s := testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	testenv.OK(t, errors.Join(newWorkload(s, "").run(t.Context()), s.Close()))
	return data
}

// checkAll checks a data folder with all bytes.
func checkAll(t *testing.T, data string) Checked {
	t.Helper()
	return testenv.Must(Check(t.Context(), Location{Data: data}, CheckOptions{Bytes: true}))(t)
}

// wantWhole fails the test if a check has found anything, or has not checked everything.
func wantWhole(t *testing.T, found Checked, when string) {
	t.Helper()
	if found.Found > 0 || len(found.Failed) > 0 || found.Orphans > 0 || found.Objects == 0 || found.Inline == 0 || found.Rows == 0 || found.RowsUnchecked > 0 || found.BytesRead != found.Bytes {
		t.Errorf("%s: %+v", when, found)
	}
}

// TestCheckOfAWholeInstance: nothing is found after a workload.
// Invariant 113.
func TestCheckOfAWholeInstance(t *testing.T) {
	found := checkAll(t, worked(t))
	wantWhole(t, found, "after a workload")
	if found.Instance == "" || len(found.Skipped) > 0 {
		t.Errorf("%+v", found)
	}
}

// TestCheckBesideAServer checks an instance again and again while workloads run on it, and its
// garbage is freed: nothing is found.
// Invariant 113.
func TestCheckBesideAServer(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	s := testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	testenv.AtEnd(t, s.Close)
	testenv.OK(t, newWorkload(s, "first").run(t.Context()))
	var running sync.WaitGroup
	ended := make(chan struct{})
	for i := range 2 {
		running.Go(func() {
			for n := range 6 {
				w := newWorkload(s, fmt.Sprintf("%d-%d-", i, n))
				err := w.run(t.Context())
				for _, name := range []string{"large", "object", "copy", "source", "even"} {
					err = errors.Join(err, w.blobs.Delete(t.Context(), "a", w.part+name, nil))
				}
				testenv.Check(t, errors.Join(err, w.blobs.FreeGarbage(t.Context())))
			}
		})
	}
	go func() {
		running.Wait()
		close(ended)
	}()
	checks := 0
	for last := false; !last; checks++ {
		select {
		case <-ended:
			last = true
		default:
		}
		if found := checkAll(t, data); found.Found > 0 || len(found.Failed) > 0 || found.Orphans > 0 || found.Objects == 0 || found.BytesRead == 0 {
			t.Errorf("beside a server: %+v", found)
		}
	}
	t.Log("checks:", checks)
}

// planted is a damage that a check finds.
type planted struct {
	name    string
	damage  func(t *testing.T, data string)
	kind    FindingKind
	says    string
	another string // finding's text
	then    fate
}

func (p planted) in(found Checked) bool {
	return slices.ContainsFunc(found.Findings, func(one Finding) bool { return one.Kind == p.kind && strings.Contains(one.Text, p.says) })
}

// copyOf returns a copy of a data folder that counts as whole.
func copyOf(t *testing.T, original string) string {
	t.Helper()
	data := filepath.Join(testenv.MemoryDir(t), "copy")
	testenv.OK(t, os.CopyFS(data, os.DirFS(original)))
	e := testenv.Must(storage.OpenEndpoint(t.Context(), storage.Location{Data: data}, true, nil))(t)
	testenv.OK(t, errors.Join(e.Adopt(), e.Close()))
	return data
}

// fate is a repair's effect on a damage.
type fate int

const (
	listed   fate = iota // it stays as it is
	repaired             // all of it
	partly               // the findings, but not all of the damage
)

// plantedDamages are one of each kind.
func plantedDamages() []planted {
	return []planted{
		{"object gone", onObject(func(name string) error { return os.Remove(name) }), DamagedObject, "is missing", "cannot be read as a whole", listed},
		{"object cut", onObject(func(name string) error { return os.Truncate(name, 999) }), DamagedObject, "is cut", "cannot be read as a whole", listed},
		{"object longer", onObject(func(name string) error { return os.Truncate(name, 3<<20) }), DamagedObject, "is longer", "", listed},
		{"object flipped", onObject(func(name string) error { return flip(name, 1_500_000) }), DamagedObject, "does not match its checksum", "cannot be read as a whole", listed},
		{"shard gone", func(t *testing.T, data string) {
			testenv.OK(t, os.RemoveAll(filepath.Dir(objectFiles(t, data)[0])))
		}, DamagedObject, "is missing", "", listed},
		{"body", bySQL(`UPDATE bodies SET body = zeroblob(length(body)) WHERE length(body) = 100`), DamagedBody, "the body does not match", "cannot be read as a whole", listed},
		{"body shorter", bySQL(`UPDATE bodies SET body = substr(body, 2) WHERE length(body) = 100`), DamagedBody, "the body has 99 bytes", "", listed},
		{"body gone", bySQL(`DELETE FROM bodies WHERE length(body) = 100`), DamagedBody, "the body has 0 bytes", "", listed},
		{"body of nothing", bySQL(`INSERT INTO bodies SELECT content, part + 1, off, body FROM bodies LIMIT 1`), DamagedBooks, "that no extent has", "", listed},
		{"block", bySQL(`UPDATE extents SET blocks = zeroblob(length(blocks)) WHERE object IS NULL`), DamagedBody, "does not match", "", listed},
		{"blocks of an object", bySQL(`UPDATE extents SET blocks = zeroblob(length(blocks)) WHERE object IS NOT NULL`), DamagedObject, "does not match", "", listed},
		{"blocks gone", bySQL(`UPDATE extents SET blocks = x'' WHERE size = 40000`), DamagedObject, "checksum", "", listed},
		{"extent gone", bySQL(`DELETE FROM extents WHERE off > 0`), DamagedBooks, "and its blob has", "", listed},
		{"extent resized", bySQL(`UPDATE extents SET size = size - 1 WHERE size = 40000`), DamagedBooks, "have 39999 bytes", "is longer", listed},
		{"extent moved", bySQL(`UPDATE extents SET off = off + 1 WHERE off = 4194304`), DamagedBooks, "begins at byte 4194305", "", listed},
		{"object renamed", bySQL(`UPDATE extents SET object = CAST(CASE substr(CAST(object AS TEXT), 1, 1) WHEN '0' THEN '1' ELSE '0' END || substr(CAST(object AS TEXT), 2) AS BLOB) WHERE size = 40000`), DamagedObject, "is missing", "", listed},
		{"blob resized", bySQL(`UPDATE blobs SET size = size + 1 WHERE size = 40000`), DamagedBooks, "and its blob has 40001", "", listed},
		{"blob of another content", bySQL(`UPDATE blobs SET content = randomblob(16) WHERE size = 40000`), DamagedBooks, "no blob has its parts", "", listed},
		{"blob of even parts", bySQL(`UPDATE blobs SET part_size = part_size + 1 WHERE part_size = 1048576`), DamagedBooks, "its blob's parts have 1048577", "", listed},
		{"blob gone", bySQL(`DELETE FROM blobs WHERE size = 40000`), DamagedBooks, "no blob has its parts", "", listed},
		{"row of a blob", bySQL(`UPDATE blobs SET crc64 = crc64 + 1 WHERE size = 40000`), DamagedRow, "the row of blob \"a/object\"", "cannot be read as a whole", listed},
		{"name of a blob", bySQL(`UPDATE blobs SET name_head = CAST('objecT' AS BLOB) WHERE size = 40000`), DamagedRow, "the row of blob \"a/objecT\"", "", listed},
		{"content of a blob", bySQL(`UPDATE blobs SET content = randomblob(16) WHERE size = 40000`), DamagedRow, "the row of blob", "", listed},
		{"content of a shared blob", bySQL(`UPDATE blobs SET content = randomblob(16) WHERE name_head = CAST('copy' AS BLOB)`), DamagedBooks, "2 references are counted, but there are 1 blobs", "the row of blob", listed},
		{"row of an extent", bySQL(`UPDATE extents SET blocks = zeroblob(length(blocks)) WHERE size = 40000`), DamagedRow, "the row of an extent, part 0 at byte 0", "cannot be read as a whole", listed},
		{"row of a version", bySQL(`UPDATE blobs SET crc64 = crc64 + 1 WHERE size = 33000`), DamagedRow, "the row of blob \"v/kept, version 00", "cannot be read as a whole", listed},
		{"version gone", bySQL(`DELETE FROM blobs WHERE size = 33000`), DamagedBooks, "no blob has its parts", "", listed},
		{"shared version gone", bySQL(`DELETE FROM blobs WHERE size = 34000 AND account > CAST('~~' AS BLOB)`), DamagedBooks, "2 references are counted, but there are 1 blobs", "", repaired},
		{"count of versions", bySQL(`INSERT INTO account_deltas VALUES (CAST('~~v' AS BLOB), 9, 1, 1)`), DamagedBooks, "are counted, but there are", "", repaired},
		{"object of an extent", bySQL(`UPDATE extents SET object = CAST(CASE substr(CAST(object AS TEXT), 1, 1) WHEN '0' THEN '1' ELSE '0' END || substr(CAST(object AS TEXT), 2) AS BLOB) WHERE size = 40000`), DamagedRow, "the row of an extent", "", listed},
		{"row of a session", bySQL(`UPDATE session_counts SET remaining = remaining + 1 WHERE n = (SELECT counts FROM session_terms WHERE channel IS NULL);
			UPDATE session_terms SET total = total + 1 WHERE channel IS NULL`), DamagedRow, "the row of session", "", listed},
		{"user of a session", bySQL(`UPDATE session_terms SET user_identity = x'00'`), DamagedRow, "the row of session", "", listed},
		{"shares", bySQL(`UPDATE shares SET refs = refs + 1`), DamagedBooks, "references are counted", "", repaired},
		{"shares gone", bySQL(`DELETE FROM shares`), DamagedBooks, "0 references are counted", "", repaired},
		{"accounts", bySQL(`INSERT INTO account_deltas VALUES (CAST('a' AS BLOB), 99999, 1, 1)`), DamagedBooks, "are counted, but there are", "", repaired},
		{"usage", bySQL(`UPDATE usage SET bytes = bytes + 1 WHERE id = (SELECT MIN(id) FROM usage)`), DamagedBooks, "counted beyond what is stored: 1 bytes", "", repaired},
		{"retained", bySQL(`DELETE FROM garbage WHERE charge > 0; INSERT INTO usage_sums (owner, bytes, uploads, retained) VALUES (CAST('x' AS BLOB), 0, 0, 7) ON CONFLICT (owner) DO UPDATE SET retained = usage_sums.retained + 7`), DamagedBooks, "7 bytes retained", "", partly},
		{"living garbage", bySQL(`INSERT INTO garbage (content, since) SELECT content, 1 FROM blobs WHERE size = 40000`), DamagedBooks, "is garbage, but a blob has it", "", listed},
		{"starts", bySQL(`DELETE FROM starts`), DamagedBooks, "and the blob has", "", listed},
		{"upload", bySQL(`UPDATE uploads SET bytes = bytes + 1 WHERE state = 0`), DamagedBooks, "differ by 1", "", repaired},
		{"part", bySQL(`UPDATE parts SET size = size + 1 WHERE idx = 1 AND content = (SELECT content FROM uploads WHERE state = 0)`), DamagedBooks, "has extents of 40000 bytes, and the part of the upload has 40001", "", listed},
		{"counts of a session", bySQL(`DELETE FROM session_counts`), DamagedRow, "the counts of session", "do not add up to the total", listed},
		{"used", bySQL(`UPDATE session_counts SET used = used + 1`), DamagedBooks, "do not add up to the total", "", listed},
		{"remaining", bySQL(`UPDATE session_counts SET remaining = remaining + 1`), DamagedBooks, "do not add up to the total", "", listed},
		{"accepted", bySQL(`UPDATE channels SET accepted = accepted - 1`), DamagedBooks, "do not add up to the accepted", "", listed},
		{"sale", bySQL(`DELETE FROM sales`), DamagedBooks, "were sold to it", "", listed},
		{"settlement", bySQL(`DELETE FROM settlements`), DamagedBooks, "no settlement is pending", "", listed},
		{"settlement's amount", bySQL(`UPDATE settlements SET amount = amount + 1`), DamagedBooks, "the settlement of channel", "", listed},
		{"booked", bySQL(`UPDATE ledger SET amount = 999`), DamagedBooks, "was paid out 999", "", listed},
		{"index", withoutIndexEntries, DamagedPages, "missing from index", "", listed},
		{"page", onPage("parts"), DamagedPages, "Tree", "", listed},
		{"all pages", func(t *testing.T, data string) {
			testenv.OK(t, os.WriteFile(filepath.Join(data, datadir.Database), bytes.Repeat([]byte{0xa5}, 100_000), 0o600))
		}, DamagedPages, "too damaged to be opened", "", listed},
	}
}

// TestCheckFindsDamage plants one damage at a time, each in a copy.
// Invariant 113.
func TestCheckFindsDamage(t *testing.T) {
	original := worked(t)
	for _, c := range plantedDamages() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			data := copyOf(t, original)
			c.damage(t, data)
			found := checkAll(t, data)
			other := c.another == ""
			for _, one := range found.Findings {
				other = other || strings.Contains(one.Text, c.another)
			}
			if !c.in(found) || !other || found.Found < int64(len(found.Findings)) {
				t.Errorf("found %d: %+v, failed %q; want %s %q and %q", found.Found, found.Findings, found.Failed, c.kind, c.says, c.another)
			}
		})
	}
}

// TestCheckCountsOrphans: objects to which nothing refers are counted once they are old, and are no
// damage.
// Invariant 113.
func TestCheckCountsOrphans(t *testing.T) {
	data := worked(t)
	e := endpointAt(t, data, true)
	for _, age := range []time.Duration{0, blob.OrphanAge + time.Minute} {
		name := bytestore.NewName(time.Now().Add(-age))
		testenv.OK(t, e.Bytes.Put(t.Context(), name, strings.NewReader("four"), 4))
	}
	found := checkAll(t, data)
	if found.Orphans != 1 || found.OrphanSize != 4 || found.Found > 0 {
		t.Errorf("%+v", found)
	}
}

// TestCheckIsCancelled ends a check at each of its steps.
// Invariant 113.
func TestCheckIsCancelled(t *testing.T) {
	data := worked(t)
	steps := 0
	count := CheckOptions{Bytes: true, Progress: func(Progress) { steps++ }}
	testenv.Must(Check(t.Context(), Location{Data: data}, count))(t)
	for at := 1; at < steps; at += 10 {
		ctx, cancel := context.WithCancel(t.Context())
		left := at
		_, err := Check(ctx, Location{Data: data}, CheckOptions{Bytes: true, Progress: func(Progress) {
			if left--; left == 0 {
				cancel()
			}
		}})
		testenv.Is(t, err, context.Canceled, "a check that is cancelled at step %d of %d", at, steps)
	}
}

// bySQL runs statements on a folder's database.
func bySQL(statements string) func(t *testing.T, data string) {
	return func(t *testing.T, data string) {
		t.Helper()
		db := testenv.Must(sql.Open("sqlite", filepath.Join(data, datadir.Database)))(t)
		result, err := db.ExecContext(t.Context(), statements)
		testenv.OK(t, err)
		if n := testenv.Must(result.RowsAffected())(t); n == 0 {
			t.Fatal("nothing was changed")
		}
		testenv.OK(t, db.Close())
	}
}

// onObject damages the largest object.
func onObject(damage func(name string) error) func(t *testing.T, data string) {
	return func(t *testing.T, data string) {
		t.Helper()
		testenv.OK(t, damage(objectFiles(t, data)[0]))
	}
}

func flip(name string, at int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	one := make([]byte, 1)
	_, err = f.ReadAt(one, at)
	if err == nil {
		one[0] ^= 4
		_, err = f.WriteAt(one, at)
	}
	return errors.Join(err, f.Close())
}

// withoutIndexEntries removes the index's entries on objects.
func withoutIndexEntries(t *testing.T, data string) {
	bySQL(`PRAGMA writable_schema = ON;
		CREATE TABLE empty (object); CREATE INDEX empty_object ON empty (object);
		UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'empty_object') WHERE name = 'extents_object';
		DELETE FROM sqlite_schema WHERE name IN ('empty', 'empty_object')`)(t, data)
}

// onPage overwrites the page with which a table begins.
func onPage(table string) func(t *testing.T, data string) {
	return func(t *testing.T, data string) {
		t.Helper()
		file := filepath.Join(data, datadir.Database)
		db := testenv.Must(sql.Open("sqlite", file))(t)
		var page int64
		testenv.OK(t, db.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_master WHERE name = ?`, table).Scan(&page))
		testenv.OK(t, db.Close())
		f := testenv.Must(os.OpenFile(file, os.O_WRONLY, 0))(t)
		_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), (page-1)*4096)
		testenv.OK(t, errors.Join(err, f.Close()))
	}
}
