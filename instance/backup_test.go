package instance

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/admin"
	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

func newRepository() *backup.Repository { return &backup.Repository{Bytes: memory.New()} }

// backedUp makes a backup of a data folder.
func backedUp(t *testing.T, data string, repo *backup.Repository) BackupResult {
	t.Helper()
	return testenv.Must(Backup(t.Context(), Location{Data: data}, repo, BackupOptions{Program: "test"}))(t)
}

// restored restores the newest backup into an empty folder, and opens the instance until the test
// ends.
func restored(t *testing.T, repo *backup.Repository, opt RestoreOptions) (*storage.Stores, RestoreResult) {
	t.Helper()
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	to := Location{Data: filepath.Join(testenv.MemoryDir(t), "restored")}
	result := testenv.Must(Restore(t.Context(), repo, m, to, opt))(t)
	s := testenv.Must(storage.Open(t.Context(), to, storage.Options{}))(t)
	testenv.AtEnd(t, s.Close)
	if found := testenv.Must(s.Meta.Audit(t.Context()))(t); len(found) > 0 {
		t.Errorf("the restored instance is inconsistent: %q", found)
	}
	return s, result
}

// TestBackup makes a backup beside a running instance, and restores it.
// Invariants 122, 123, 125.
func TestBackup(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	running := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	testenv.AtEnd(t, running.Close)
	testenv.OK(t, PermitLargeSweep(t.Context(), running.Meta))
	repo := newRepository()
	made := backedUp(t, data, repo)
	if made.Blobs != sourceBlobs || made.Objects == 0 || made.NewObjects <= made.Objects || made.NewBytes == 0 {
		t.Errorf("the backup has %+v", made)
	}
	verified := testenv.Must(repo.Verify(t.Context(), made.Manifest, backup.VerifyOptions{Bytes: true}))(t)
	if verified.Objects != made.Objects || verified.Read < made.Bytes {
		t.Errorf("verified were %+v", verified)
	}
	s, result := restored(t, repo, RestoreOptions{})
	checkSource(t, s.Meta, s.Bytes)
	id := testenv.Must(history.Bind(t.Context(), running.Meta, running.Bytes))(t)
	if result.ID != id || result.Generation != 2 || result.Blobs != sourceBlobs || result.Objects != made.Objects {
		t.Errorf("restored were %+v of the instance %s", result, id)
	}
	if at, err := s.Meta.Property(t.Context(), blob.LargeSweepProperty); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("the restored instance permits a large sweep, since %s, %v", at, err)
	}
	if at := testenv.Must(running.Meta.Property(t.Context(), storage.BackupSucceeded))(t); at == "" {
		t.Error("the instance does not know of its backup")
	}
	if since, held, err := running.Meta.GarbageHeld(t.Context()); held || err != nil {
		t.Errorf("garbage is held since %s, %v", since, err)
	}
}

// putSmall stores small blobs with names that begin with name, and returns their bytes.
func putSmall(t *testing.T, blobs *blob.Service, name string, n int) (sum int64) {
	t.Helper()
	for i := range n {
		content := smallBody(name, i)
		testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: fmt.Sprint(name, i)}, bytes.NewReader(content), int64(len(content))))(t)
		sum += int64(len(content))
	}
	return sum
}

// smallBody is a blob's content that is kept inline. It cannot be compressed.
func smallBody(name string, i int) []byte {
	content := make([]byte, 8_000+i)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(fmt.Sprint(name, i)))).Read(content) // it returns no error
	return content
}

// checkSmall reads a blob.
func checkSmall(t *testing.T, s *storage.Stores, name string, want []byte) {
	t.Helper()
	c := testenv.Must(blob.New(s.Meta, s.Bytes, blob.Options{}).Open(t.Context(), "a", name))(t)
	defer c.Close()
	var got bytes.Buffer
	if _, err := c.WriteRange(t.Context(), &got, 0, int64(len(want))); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s has other content, of %d bytes, %v", name, got.Len(), err)
	}
}

// TestRestoreOfAPart restores an account's blobs below a prefix, with a content that other blobs
// share.
// Invariant 123.
func TestRestoreOfAPart(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	for _, to := range []string{"part/1", "part/2", "other"} {
		testenv.Must(blobs.Copy(t.Context(), blob.CopyOptions{From: metastore.BlobName{Account: "a", Name: "blob5"}, To: metastore.BlobName{Account: "b", Name: to}}))(t)
	}
	testenv.Must(s.Meta.SetKeeping(t.Context(), "b", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State, k.Locks = metastore.KeepOn, true
		return nil, nil
	}))(t)
	put := func(at metastore.BlobName, lock metastore.Lock, body string) {
		testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: at.Account, Name: at.Name, Lock: lock}, strings.NewReader(body), int64(len(body))))(t)
	}
	inPart, folder := metastore.BlobName{Account: "b", Name: "part/3"}, blob.Place("b", "part/folder/")
	put(inPart, metastore.Lock{Hold: true}, "older")
	put(inPart, metastore.Lock{}, "small")
	put(folder, metastore.Lock{Hold: true}, "folder")
	put(folder, metastore.Lock{}, "")
	testenv.OK(t, s.Close())
	repo := newRepository()
	backedUp(t, data, repo)

	part, result := restored(t, repo, RestoreOptions{Account: "b", Prefix: "part/"})
	if result.Blobs != 6 || result.Objects != 2 { // two of them are versions, and one is a marker
		t.Errorf("restored were %+v", result)
	}
	if k := testenv.Must(part.Meta.Keeping(t.Context(), "b"))(t); k.State != metastore.KeepOn || !k.Locks {
		t.Errorf("the restored account has the setting %+v", k)
	}
	for _, at := range []metastore.BlobName{inPart, folder} {
		page := testenv.Must(part.Meta.ListVersions(t.Context(), metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: at.Account, Prefix: at.Name, Limit: 9}}))(t)
		if len(page.Versions) != 2 || !page.Versions[1].Lock.Hold {
			t.Errorf("%s has the versions %+v", at, page.Versions)
			continue
		}
		_, err := part.Meta.DeleteVersion(t.Context(), metastore.Deletion{VersionName: metastore.VersionName{BlobName: at, Version: metastore.VersionOf(&page.Versions[1])}})
		testenv.Is(t, err, metastore.ErrLocked, "a deletion of a restored version with a lock")
	}
	_, err := admin.New(part.Meta, admin.Options{}).CreateKey(t.Context(), admin.By{From: "192.0.2.1"}, wire.CreateKey{Grants: []wire.Grant{{Scopes: []string{"admin"}}}}, nil)
	testenv.OK(t, err)
	from := blob.New(part.Meta, part.Bytes, blob.Options{})
	for name, want := range map[string][]byte{"part/1": body(5), "part/2": body(5), "part/3": []byte("small")} {
		c := testenv.Must(from.Open(t.Context(), "b", name))(t)
		var got bytes.Buffer
		_, err := c.WriteRange(t.Context(), &got, 0, int64(len(want)))
		c.Close()
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s has other content, of %d bytes, %v", name, got.Len(), err)
		}
	}
	for _, name := range []string{"part/1", "part/2"} {
		testenv.OK(t, from.Delete(t.Context(), "b", name, nil))
	}
	if found := testenv.Must(part.Meta.Audit(t.Context()))(t); len(found) > 0 {
		t.Errorf("after deletions the instance is inconsistent: %q", found)
	}
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	_, err = Restore(t.Context(), repo, m, Location{Data: testenv.MemoryDir(t)}, RestoreOptions{Account: "nobody"})
	testenv.Is(t, err, backup.ErrNotFound, "a restore of an account without blobs")
}

// TestBackupCutAtEachStep interrupts a backup after each object that it stores, and completes it
// with the next one: the first of a repository, and one that refers to the packs of another.
// Invariant 122.
func TestBackupCutAtEachStep(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	cutAtEachStep(t, data, func() *backup.Repository { return newRepository() })
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	putSmall(t, blobs, "kept", 40)
	putSmall(t, blobs, "deleted", 40)
	first := newRepository()
	backedUp(t, data, first)
	for i := range 40 {
		testenv.OK(t, blobs.Delete(t.Context(), "a", fmt.Sprint("deleted", i), nil))
	}
	putSmall(t, blobs, "new", 40)
	testenv.OK(t, s.Close())
	cutAtEachStep(t, data, func() *backup.Repository {
		repo := newRepository()
		testenv.OK(t, first.Bytes.List(t.Context(), "", func(o bytestore.Object) error {
			from, err := first.Bytes.Open(t.Context(), o.Name, 0, o.Size)
			if err != nil {
				return err
			}
			return errors.Join(repo.Bytes.Put(t.Context(), o.Name, io.LimitReader(from, o.Size), o.Size), from.Close())
		}))
		return repo
	})
}

// cutAtEachStep interrupts and completes backups in new repositories.
func cutAtEachStep(t *testing.T, data string, repository func() *backup.Repository) {
	t.Helper()
	for step := 1; ; step++ {
		repo := repository()
		before := testenv.Must(repo.List(t.Context()))(t)
		store := repo.Bytes
		repo.Bytes = bytetest.Faulty{Store: store, Point: killedAt(step, "put")}
		_, err := Backup(t.Context(), Location{Data: data}, repo, BackupOptions{})
		repo.Bytes = store
		if err == nil {
			if step < 5 {
				t.Fatalf("there were only %d steps", step)
			}
			break
		}
		testenv.Is(t, err, fault.ErrFault, "step %d", step)
		if ids := testenv.Must(repo.List(t.Context()))(t); len(ids) != len(before) {
			t.Fatalf("step %d: an interrupted backup exists: %q", step, ids)
		}
		backedUp(t, data, repo)
		s, _ := restored(t, repo, RestoreOptions{})
		checkSource(t, s.Meta, s.Bytes)
	}
}

// TestBackupOfADamagedInstance checks that a backup has everything but the object and the body that
// are damaged, that it lists them, and that its restore does, too. The body is text, which SQLite
// can store in place of bytes.
// Invariants 120, 122.
func TestBackupOfADamagedInstance(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	putSmall(t, blob.New(s.Meta, s.Bytes, blob.Options{}), "small", 3)
	testenv.OK(t, s.Close())
	flipMiddle(t, objectFiles(t, data)[0])
	bySQL(`UPDATE bodies SET body = CAST(body AS TEXT) WHERE length(body) = 8001`)(t, data)
	repo := newRepository()
	var damaged []string
	made, err := Backup(t.Context(), Location{Data: data}, repo, BackupOptions{Damaged: func(name string, _ error) { damaged = append(damaged, name) }})
	testenv.Is(t, err, ErrIncomplete, "a backup of a damaged instance")
	slices.Sort(damaged)
	if len(damaged) != 2 || !slices.Equal(made.Damaged, damaged) || !strings.HasPrefix(damaged[1], "inline body of the content ") {
		t.Fatalf("damaged are %q, and the backup lists %q", damaged, made.Damaged)
	}
	verified := testenv.Must(repo.Verify(t.Context(), made.Manifest, backup.VerifyOptions{Bytes: true}))(t)
	testenv.Equal(t, verified.Lacking, 1, "objects that the backup lacks")
	restoredTo, result := restored(t, repo, RestoreOptions{})
	testenv.Equal(t, result.Lacking, 1, "objects that the restored instance lacks")
	c := testenv.Must(blob.New(restoredTo.Meta, restoredTo.Bytes, blob.Options{}).Open(t.Context(), "a", "small2"))(t)
	defer c.Close()
	var got bytes.Buffer
	testenv.OK(t, testenv.Error(c.WriteRange(t.Context(), &got, 0, c.Size)))
	testenv.Equal(t, bytes.Equal(got.Bytes(), smallBody("small", 2)), true, "whether a body beside the damaged one is restored")
}

// TestDamagedBackups flips a byte in each object of a backup: Verify finds it, and Restore
// completes nothing.
// Invariants 120, 123.
func TestDamagedBackups(t *testing.T) {
	t.Parallel()
	whole := newRepository()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	putSmall(t, blob.New(s.Meta, s.Bytes, blob.Options{}), "small", 3)
	testenv.OK(t, s.Close())
	backedUp(t, data, whole)
	var names []bytestore.Object
	testenv.OK(t, whole.Bytes.List(t.Context(), "", func(o bytestore.Object) error { names = append(names, o); return nil }))
	for _, o := range names {
		if o.Size == 0 {
			continue // it marks the repository
		}
		for _, how := range []string{"flipped", "cut", "missing"} {
			damaged := &backup.Repository{Bytes: damagedStore{whole.Bytes, o, how}}
			m, err := damaged.Open(t.Context(), "")
			if strings.HasPrefix(string(o.Name), "manifest-") {
				if !errors.Is(err, backup.ErrDamaged) && how != "missing" {
					t.Errorf("%s, %s: %v", o.Name, how, err)
				}
				continue
			}
			testenv.OK(t, err)
			_, err = damaged.Verify(t.Context(), m, backup.VerifyOptions{Bytes: true})
			testenv.Is(t, err, backup.ErrDamaged, "verifying with %s %s", o.Name, how)
			if o.Name == m.Table(backup.InlineTable).Chunks[0].Object() {
				continue // a restore does not need this list
			}
			to := Location{Data: filepath.Join(testenv.MemoryDir(t), "to")}
			_, err = Restore(t.Context(), damaged, m, to, RestoreOptions{})
			testenv.Is(t, err, backup.ErrDamaged, "restoring with %s %s", o.Name, how)
			testenv.Is(t, testenv.Error(storage.Open(t.Context(), to, storage.Options{})), history.ErrUnfinishedCopy, "%s, %s: a restore of a damaged backup can be served", o.Name, how)
		}
	}
}

// TestBackupBeginsAgain frees an object that the snapshot needs before it is copied, as a full disk
// does: the backup begins again with another snapshot.
// Invariant 122.
func TestBackupBeginsAgain(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	repo := newRepository()
	begun, freed := 0, false
	made, err := Backup(t.Context(), Location{Data: data}, repo, BackupOptions{
		Again: func(string) { begun++ },
		Progress: func(p Progress) {
			if p.Phase != PhaseBytes || freed {
				return
			}
			freed = true
			s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
			full := blob.Options{Space: func(int64) error { return bytestore.ErrNoSpace }}
			testenv.OK(t, errors.Join(blob.New(s.Meta, s.Bytes, full).Delete(t.Context(), "a", "blob5", nil), s.Close()))
		},
	})
	testenv.OK(t, err)
	if begun != 1 || made.Blobs != sourceBlobs-1 {
		t.Errorf("the backup began again %d times and has %d blobs", begun, made.Blobs)
	}
	testenv.Must(repo.Verify(t.Context(), made.Manifest, backup.VerifyOptions{Bytes: true}))(t)
}

// TestPrune makes backups of an instance that changes, and removes the older ones.
// Invariant 124.
func TestPrune(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	repo := newRepository()
	backedUp(t, data, repo)
	before := objectsIn(t, repo)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	testenv.OK(t, blobs.Delete(t.Context(), "a", "blob5", nil))
	testenv.OK(t, s.Close())
	backedUp(t, data, repo)
	_, err := repo.Prune(t.Context(), backup.Retention{})
	testenv.Is(t, err, backup.ErrKeepsNothing, "a retention of nothing")
	both := testenv.Must(repo.Prune(t.Context(), backup.Retention{Last: 2}))(t)
	if both.Objects != 0 || len(both.Kept) != 2 {
		t.Errorf("a prune that keeps both removed %+v", both)
	}
	one := testenv.Must(repo.Prune(t.Context(), backup.Retention{Last: 1}))(t)
	if len(one.Removed) != 1 || one.Objects < 3 || one.Bytes < 2_000_000 {
		t.Errorf("a prune that keeps one removed %+v", one)
	}
	if after := objectsIn(t, repo); after >= before {
		t.Errorf("the repository has %d objects after the prune, and had %d before the second backup", after, before)
	}
	_, result := restored(t, repo, RestoreOptions{})
	testenv.Equal(t, result.Blobs, sourceBlobs-1, "blobs in the backup that was kept")
}

// TestPruneExcludesBackups checks that neither begins while the other runs, and that the mark of a
// process that was killed excludes nobody for ever.
// Invariant 124.
func TestPruneExcludesBackups(t *testing.T) {
	t.Parallel()
	repo := newRepository()
	backedUp(t, newSource(t), repo)
	_, w, err := repo.Begin(t.Context())
	testenv.OK(t, err)
	_, err = repo.Prune(t.Context(), backup.Retention{Last: 1})
	testenv.Is(t, err, backup.ErrInUse, "a prune beside a backup")
	testenv.OK(t, w.Close())
	mark := func(age time.Duration) {
		name := "pruning-" + bytestore.NewName(time.Now().Add(-age))
		testenv.OK(t, repo.Bytes.Put(t.Context(), name, strings.NewReader(""), 0))
	}
	mark(time.Hour)
	_, w, err = repo.Begin(t.Context())
	testenv.OK(t, err)
	testenv.OK(t, w.Close())
	mark(time.Minute)
	_, _, err = repo.Begin(t.Context())
	testenv.Is(t, err, backup.ErrInUse, "a backup beside a prune")
	if running := fmt.Sprint(testenv.Must(repo.List(t.Context()))(t)); strings.Contains(running, "running") {
		t.Error("a mark is left")
	}
}

func objectsIn(t *testing.T, repo *backup.Repository) (n int) {
	t.Helper()
	testenv.OK(t, repo.Bytes.List(t.Context(), "", func(bytestore.Object) error { n++; return nil }))
	return n
}

// TestScriptReadsABackup runs the script in docs/backups.md, which knows nothing but the format, on
// a backup in a folder.
// Invariant 124.
func TestScriptReadsABackup(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		testenv.Require(t, testenv.S3Clients) // which need it, too
	}
	t.Parallel()
	document := string(testenv.Must(os.ReadFile("../docs/backups.md"))(t))
	_, script, _ := strings.Cut(document, "```python\n")
	script, _, _ = strings.Cut(script, "```\n")
	if lines := strings.Count(script, "\n"); lines < 10 || lines > 35 {
		t.Fatalf("the script has %d lines", lines)
	}
	place := filepath.Join(testenv.MemoryDir(t), "backups")
	objects, closePlace, err := storage.OpenPlace(t.Context(), place, backup.RepositoryObject, true)
	testenv.OK(t, err)
	backedUp(t, newSource(t), &backup.Repository{Bytes: objects})
	testenv.OK(t, closePlace())
	file := filepath.Join(t.TempDir(), "blob.py")
	testenv.OK(t, os.WriteFile(file, []byte(script), 0o600))
	for i := range sourceBlobs {
		command := exec.CommandContext(t.Context(), "python3", file, place, "a", fmt.Sprint("blob", i))
		var failed bytes.Buffer
		command.Stderr = &failed
		got, err := command.Output()
		if err != nil || !bytes.Equal(got, body(i)) {
			t.Errorf("blob %d: the script printed %d bytes, %v\n%s", i, len(got), err, &failed)
		}
	}
}
