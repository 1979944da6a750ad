package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// smallDisk is a file system with a file that occupies all space that is not to be free.
type smallDisk struct {
	t      *testing.T
	dir    string
	filler *os.File
}

func newSmallDisk(t *testing.T, size string) *smallDisk {
	t.Helper()
	testenv.Require(t, testenv.RootMount)
	d := &smallDisk{t: t, dir: t.TempDir()}
	testenv.OK(t, testenv.MountTmpfs(d.dir, size))
	testenv.AtEnd(t, func() error { return testenv.Unmount(d.dir) })
	d.filler = testenv.Must(os.Create(filepath.Join(d.dir, "filler")))(t)
	testenv.AtEnd(t, d.filler.Close)
	return d
}

// leave resizes the filler so that n bytes are free.
func (d *smallDisk) leave(n int64) {
	d.t.Helper()
	var fs syscall.Statfs_t
	testenv.OK(d.t, syscall.Statfs(d.dir, &fs))
	size := d.size("filler") + int64(fs.Bfree)*fs.Bsize - n
	err := d.filler.Truncate(size)
	if err == nil {
		err = syscall.Fallocate(int(d.filler.Fd()), 0, 0, size)
	}
	testenv.OK(d.t, err)
}

func (d *smallDisk) size(name string) int64 {
	d.t.Helper()
	info, err := os.Stat(filepath.Join(d.dir, name))
	testenv.OK(d.t, err)
	return info.Size()
}

// afterPowerCut opens the database that the disk would hold after a power cut now: a copy of the
// database and its log, without the log's index.
func afterPowerCut(t *testing.T, path string) *Store {
	t.Helper()
	cut := databasePath(t)
	for _, ending := range []string{"", "-wal"} {
		copyFile(t, path+ending, cut+ending)
	}
	return openAt(t, cut, Options{})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in := testenv.Must(os.Open(from))(t)
	defer in.Close() //nolint:errcheck // it was only read
	out := testenv.Must(os.Create(to))(t)
	testenv.Must(io.Copy(out, in))(t)
	testenv.OK(t, out.Close())
}

const (
	// walFrame is a page's size in the log, indexedFrames how many pages fit in the first 32 KiB of
	// the log's index.
	walFrame      = 24 + 4096
	indexedFrames = 4062
	tmpfsPage     = 4096
)

// fullIndex returns a store with a log that nearly fills the first part of its index and that a
// read keeps from being restarted. write then runs op repeatedly, with i = 0, 1, ..., on a disk
// with space for the log to grow but not for its index, until the index must grow, and returns that
// op's error.
func fullIndex(t *testing.T) (s *Store, path string, write func(op func(i int) error) error) {
	t.Helper()
	disk := newSmallDisk(t, "40m")
	path = filepath.Join(disk.dir, "meta.db")
	s = openAt(t, path, Options{})
	testenv.OK(t, s.SetProperty(t.Context(), "property", "v"))
	entered, leave, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- s.db.Snapshot(t.Context(), func(t *engine.Tx) error {
			var n engine.Integer
			_, err := t.Row(`SELECT COUNT(*) FROM facts`, nil, &n)
			close(entered)
			<-leave
			return err
		})
	}()
	<-entered
	t.Cleanup(func() {
		close(leave)
		testenv.Check(t, <-result)
	})
	body := make([]byte, (indexedFrames-100)*4092)
	_, err := s.CommitBlob(t.Context(),
		metastore.Blob{Account: "a", Name: "large", Content: metastore.NewContentID(time.Now()), Size: int64(len(body))},
		[]metastore.Extent{{Size: int64(len(body)), Body: body}}, nil)
	testenv.OK(t, err)
	return s, path, func(op func(i int) error) error {
		t.Helper()
		room := int64(100 * tmpfsPage)
		for i := range 200 {
			before := disk.size("meta.db-wal")
			disk.leave(room)
			if err := op(i); err != nil {
				if frames := disk.size("meta.db-wal") / walFrame; frames <= indexedFrames {
					t.Fatalf("with %d frames in the log: %v", frames, err)
				}
				return err
			}
			// This is the space that this op needed, and half of the index's.
			room = (disk.size("meta.db-wal")-before)/tmpfsPage*tmpfsPage + 5*tmpfsPage
		}
		t.Fatal("the log's index does not grow")
		return nil
	}
}

// stoppedInDoubt checks that a store has stopped after a COMMIT that failed with err.
func stoppedInDoubt(t *testing.T, s *Store, err error) {
	t.Helper()
	if !errors.Is(err, database.ErrUnknownOutcome) || errors.Is(err, database.ErrNoSpace) {
		t.Errorf("%v; want an unknown outcome: a power cut restores the write", err)
	}
	select {
	case <-s.Stopped():
	default:
		t.Error("the store has not stopped")
	}
	testenv.Is(t, s.Err(), engine.ErrStopped, "Err")
	if err := s.SetProperty(t.Context(), "later", "v"); !errors.Is(err, engine.ErrStopped) || !errors.Is(err, database.ErrUnavailable) {
		t.Errorf("a later write: %v", err)
	}
	testenv.Is(t, testenv.Error(s.Property(t.Context(), "property")), nil, "a later read")
}

// TestCommitRestoredByAPowerCut: on a full disk the log's index cannot grow after the log was
// synced. A power cut restores a blob's overwrite. The store must therefore not report the
// overwrite as refused: the caller would then delete its objects.
// Invariant 105.
func TestCommitRestoredByAPowerCut(t *testing.T) {
	s, path, write := fullIndex(t)
	name := func(i int) string { return fmt.Sprint("object", i) }
	last := -1
	err := write(func(i int) error {
		last = i
		b := metastore.Blob{Account: "a", Name: "blob", Content: metastore.NewContentID(time.Now()), Size: 3}
		_, err := s.CommitBlob(t.Context(), b, []metastore.Extent{{Size: 3, Object: name(i), Created: time.Now()}}, nil)
		return err
	})
	stoppedInDoubt(t, s, err)

	after := afterPowerCut(t, path)
	b := testenv.Must(after.Blob(t.Context(), "a", "blob"))(t)
	extents, err := after.Extents(t.Context(), b.Content, metastore.Position{}, 2)
	if err != nil || len(extents) != 1 || extents[0].Object != name(last) {
		t.Fatalf("after the power cut: %+v, %v; want %s: nothing was restored", extents, err, name(last))
	}
}

// TestPaymentRestoredByAPowerCut is TestCommitRestoredByAPowerCut for a payment, which would be
// accepted for nothing.
// Invariant 105.
func TestPaymentRestoredByAPowerCut(t *testing.T) {
	s, path, write := fullIndex(t)
	_, err := s.OpenChannel(t.Context(), ledger.Channel{
		ID: "channel", PaymentChannelID: 1, Receiver: "r", Asset: "a", Deposit: 1 << 40, Expires: time.Now().Add(time.Hour),
	}, nil)
	testenv.OK(t, err)
	last := int64(0)
	err = write(func(i int) error {
		last = int64(i+1) * 10
		pay := ledger.Offer{Payment: ledger.Payment{
			Sender: "s", Receiver: "r", Asset: "a", PaymentChannelID: 1, Sequence: int64(i) + 1, Amount: last,
			Proof: []byte("proof"), Expires: time.Now().Add(time.Minute),
		}, Policy: ledger.Policy{UnsettledLimit: 1 << 40}}
		_, err := s.PayRead(t.Context(), ledger.ReadPurchase{Offer: pay, Price: 10, Count: 1})
		return err
	})
	stoppedInDoubt(t, s, err)

	c, err := afterPowerCut(t, path).Channel(t.Context(), "channel")
	if err != nil || c.Accepted != last {
		t.Fatalf("after the power cut %d is accepted, want %d: nothing was restored (%v)", c.Accepted, last, err)
	}
}

// TestRefusedCommitIsNotRestored fills the disk so that the log itself cannot grow: the write is
// refused, the store continues, and a power cut immediately afterwards does not restore the
// write.
// Invariant 105.
func TestRefusedCommitIsNotRestored(t *testing.T) {
	disk := newSmallDisk(t, "8m")
	path := filepath.Join(disk.dir, "meta.db")
	s := openAt(t, path, Options{})
	testenv.OK(t, s.SetProperty(t.Context(), "before", "v"))
	// The log keeps the frames of each attempt, so it is full after 1, 3, 6 and so on of 100
	// frames.
	for pages := range int64(13) {
		disk.leave(pages * tmpfsPage)
		name := fmt.Sprint("refused", pages)
		err := s.SetProperty(t.Context(), name, string(make([]byte, 400_000)))
		if !errors.Is(err, database.ErrNoSpace) {
			t.Fatalf("with %d pages free: %v", pages, err)
		}
		after := afterPowerCut(t, path)
		testenv.Is(t, testenv.Error(after.Property(t.Context(), name)), database.ErrNotFound, "with %d pages free the refused write was restored", pages)
		testenv.Check(t, testenv.Error(after.Property(t.Context(), "before")))
	}
	disk.leave(4 << 20)
	testenv.Is(t, s.SetProperty(t.Context(), "after", "v"), nil, "a write when there is space again")
	testenv.Is(t, testenv.Error(afterPowerCut(t, path).Property(t.Context(), "after")), nil, "a write over the refused one")
}

// TestFullDiskRefusesOnlyWhatDoesNotFit: when the disk has no space for a COMMIT that calls share,
// the calls that fit succeed.
func TestFullDiskRefusesOnlyWhatDoesNotFit(t *testing.T) {
	disk := newSmallDisk(t, "8m")
	s := openAt(t, filepath.Join(disk.dir, "meta.db"), Options{})
	testenv.OK(t, s.SetProperty(t.Context(), "before", "v"))
	g := enginetest.Hold(t, s.db)
	disk.leave(20 * tmpfsPage)
	large, small := make(chan error), make(chan error)
	go func() { large <- s.SetProperty(context.Background(), "large", string(make([]byte, 400_000))) }()
	g.Queued(1)
	go func() { small <- s.SetProperty(context.Background(), "small", "v") }()
	g.Queued(2)
	g.Release()
	testenv.Is(t, <-large, database.ErrNoSpace, "a call that does not fit")
	testenv.Is(t, errors.Join(<-small, g.Result()), nil, "a call of the same batch that fits")
	testenv.Check(t, testenv.Error(s.Property(t.Context(), "small")))
}
