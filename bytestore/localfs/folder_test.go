package localfs

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"sluice/bytestore"
	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

func itself(err error) error { return err }

// gatedDisk is a store whose syncs of the folder wait: each sends on begin, and receives on end the
// error with which it fails.
type gatedDisk struct {
	*Store
	disk  *vfstest.CrashFS
	begin chan bool
	end   chan error
	open  atomic.Bool // syncs do not wait any more
}

func newGatedDisk(t *testing.T) *gatedDisk {
	t.Helper()
	d := &gatedDisk{disk: vfstest.NewCrash(), begin: make(chan bool), end: make(chan error)}
	d.open.Store(true)
	d.Store = testenv.Must(Open("/objects", Options{FS: vfstest.Intercept(d.disk, func(op *vfstest.Op, do func() error) error {
		if d.open.Load() || op.Kind != vfstest.KindSyncDir {
			return do()
		}
		d.begin <- true
		if err := <-d.end; err != nil {
			return err
		}
		return do()
	})}))(t)
	d.open.Store(false)
	return d
}

// store stores an empty object in another goroutine.
func (d *gatedDisk) store(t *testing.T, name bytestore.Name) <-chan error {
	result := make(chan error, 1)
	go func() { result <- d.Put(t.Context(), name, strings.NewReader(""), 0) }()
	return result
}

// TestFailedSyncFailsTheNextBatch checks that a Put that waits for the batch after a failed one
// fails although its own batch succeeds, because the kernel reports lost entries only once.
func TestFailedSyncFailsTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newGatedDisk(t)
		first := d.store(t, "first")
		<-d.begin
		second := d.store(t, "second")
		synctest.Wait() // it was renamed, and waits for the next batch
		d.end <- syscall.EIO
		<-d.begin
		d.end <- nil
		for _, result := range []<-chan error{first, second} {
			if err := <-result; !errors.Is(err, ErrSyncFailed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("put: %v", err)
			}
		}
		testenv.Equal(t, len(testenv.Must(d.disk.ReadDir("/objects"))(t)), shards, "entries left")
	})
}

// TestFailedOpenFailsItsBatch checks that if the folder cannot be opened for a sync, all Puts of
// that batch fail and are undone, and the next Put succeeds.
func TestFailedOpenFailsItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newGatedDisk(t)
		first := d.store(t, "first")
		<-d.begin
		var shared []<-chan error
		for i := range 3 {
			shared = append(shared, d.store(t, bytestore.Name(fmt.Sprintf("shared-%d", i))))
		}
		synctest.Wait() // they were renamed, and wait for the next batch
		d.end <- nil
		<-d.begin
		d.end <- fmt.Errorf("%w: %w", vfs.ErrNotOpened, syscall.EMFILE)
		testenv.Is(t, <-first, nil, "put of the round before")
		for _, result := range shared {
			if err := <-result; !errors.Is(err, bytestore.ErrOverloaded) || errors.Is(err, ErrSyncFailed) {
				t.Errorf("put: %v", err)
			}
		}
		d.open.Store(true)
		testenv.Is(t, errors.Join(d.Err(), <-d.store(t, "later")), nil, "afterwards")
		entries := testenv.Must(d.disk.Crash().ReadDir("/objects"))(t)
		testenv.Equal(t, len(entries), shards+2, "entries that survived")
	})
}

// TestSharedSyncIsEnough checks that an entry that was made before sync was called survives a crash
// immediately after sync has returned, however many callers share the syncs.
func TestSharedSyncIsEnough(t *testing.T) {
	disk := vfstest.NewCrash()
	var syncs atomic.Int64
	f := newFolder(vfstest.Intercept(disk, func(_ *vfstest.Op, do func() error) error {
		syncs.Add(1)
		return do()
	}), "/", itself)
	const workers, each = 16, 50
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				dir := fmt.Sprintf("/%d-%d", w, i)
				testenv.Check(t, errors.Join(disk.Mkdir(dir), f.sync()))
			}
		})
	}
	wg.Wait()
	entries := testenv.Must(disk.Crash().ReadDir("/"))(t)
	testenv.Equal(t, len(entries), workers*each, "entries that survived")
	if n := syncs.Load(); n > workers*each {
		t.Errorf("%d syncs for %d callers", n, workers*each)
	}
}
