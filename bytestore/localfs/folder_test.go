package localfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/internal/testenv"
	"sluice/internal/vfs"
	"sluice/internal/vfs/vfstest"
)

func itself(err error) error { return err }

// TestSharedSync checks that callers during a sync wait for the next one, and share it.
func TestSharedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, end := make(chan bool), make(chan error)
		f := newFolder(vfstest.Intercept(vfstest.NewCrash(), func(*vfstest.Op, func() error) error {
			begin <- true
			return <-end
		}), "/", itself)
		results := make(chan error, 10)
		ask := func() { results <- f.sync() }

		go ask()
		<-begin
		for range 4 {
			go ask()
		}
		synctest.Wait() // all four wait
		if len(results) != 0 {
			t.Fatal("a sync returned before it ran")
		}
		end <- nil
		<-begin // the second batch runs, for all four
		synctest.Wait()
		if len(results) != 1 {
			t.Fatalf("%d of 5 returned after the first sync, want 1", len(results))
		}
		go ask() // too late for the second batch
		synctest.Wait()
		end <- nil
		<-begin
		synctest.Wait()
		if len(results) != 5 {
			t.Fatalf("%d of 6 returned after the second sync, want 5", len(results))
		}
		end <- syscall.EIO
		synctest.Wait()
		for range 5 {
			if err := <-results; err != nil {
				t.Errorf("of a sync that succeeded: %v", err)
			}
		}
		if err := <-results; !errors.Is(err, syscall.EIO) {
			t.Errorf("of a sync that failed: %v", err)
		}
	})
}

// TestFailedSyncFailsTheNextBatch checks that a Put that waits for the batch after a failed one
// fails although its own batch succeeds, because the kernel reports lost entries only once.
func TestFailedSyncFailsTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, end := make(chan bool), make(chan error)
		disk, armed := vfstest.NewCrash(), atomic.Bool{}
		s, err := Open("/objects", Options{FS: vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
			if !armed.Load() || op.Kind != vfstest.KindSyncDir {
				return do()
			}
			begin <- true
			if err := <-end; err != nil {
				return err
			}
			return do()
		})})
		testenv.OK(t, err)
		armed.Store(true)
		results := make(chan error, 2)
		store := func(name bytestore.Name) {
			results <- s.put(t.Context(), name, strings.NewReader(""), 0)
		}
		go store("first")
		<-begin
		go store("second")
		synctest.Wait() // it was renamed, and waits for the next batch
		end <- syscall.EIO
		<-begin
		end <- nil
		for range 2 {
			if err := <-results; !errors.Is(err, ErrSyncFailed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("put: %v", err)
			}
		}
		if entries, err := disk.ReadDir("/objects"); err != nil || len(entries) != shards {
			t.Errorf("%d entries left, %v", len(entries), err)
		}
	})
}

// TestFailedOpenFailsItsBatch checks that if the folder cannot be opened for a sync, all Puts of
// that batch fail and are undone, and the next Put succeeds.
func TestFailedOpenFailsItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, end := make(chan bool), make(chan error)
		disk, armed := vfstest.NewCrash(), atomic.Bool{}
		s, err := Open("/objects", Options{FS: vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
			if !armed.Load() || op.Kind != vfstest.KindSyncDir {
				return do()
			}
			begin <- true
			if err := <-end; err != nil {
				return err
			}
			return do()
		})})
		testenv.OK(t, err)
		armed.Store(true)
		first, shared := make(chan error, 1), make(chan error, 3)
		go func() { first <- s.put(t.Context(), "first", strings.NewReader(""), 0) }()
		<-begin
		for i := range cap(shared) {
			name := bytestore.Name(fmt.Sprintf("shared-%d", i))
			go func() { shared <- s.put(t.Context(), name, strings.NewReader(""), 0) }()
		}
		synctest.Wait() // they were renamed, and wait for the next batch
		end <- nil
		<-begin
		end <- fmt.Errorf("%w: %w", vfs.ErrNotOpened, syscall.EMFILE)
		if err := <-first; err != nil {
			t.Errorf("put of the round before: %v", err)
		}
		for range cap(shared) {
			if err := <-shared; !errors.Is(err, bytestore.ErrOverloaded) || errors.Is(err, ErrSyncFailed) {
				t.Errorf("put: %v", err)
			}
		}
		armed.Store(false)
		if err := errors.Join(s.Err(), s.put(t.Context(), "later", strings.NewReader(""), 0)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		entries, err := disk.Crash().ReadDir("/objects")
		if err != nil || len(entries) != shards+2 {
			t.Errorf("%d entries survived, want %d; %v", len(entries), shards+2, err)
		}
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
				if err := errors.Join(disk.Mkdir(dir), f.sync()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	entries, err := disk.Crash().ReadDir("/")
	if err != nil || len(entries) != workers*each {
		t.Errorf("%d entries survived, want %d; %v", len(entries), workers*each, err)
	}
	if n := syncs.Load(); n > workers*each {
		t.Errorf("%d syncs for %d callers", n, workers*each)
	}
}

// BenchmarkFolderSync compares shared with separate syncs of one folder, into which each caller has
// put a file.
func BenchmarkFolderSync(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dgoroutines/shared=%t", goroutines, shared), func(b *testing.B) {
				f := newFolder(vfs.OS(), testenv.MemoryDir(b), itself)
				sync := f.sync
				if !shared {
					sync = func() error { return f.fs.SyncDir(f.path) }
				}
				var n atomic.Int64
				bytetest.Parallel(b, goroutines, 0, func() error {
					file, err := f.fs.Create(filepath.Join(f.path, fmt.Sprint(n.Add(1))))
					if err != nil {
						return err
					}
					return errors.Join(file.Close(), sync())
				})
			})
		}
	}
}
