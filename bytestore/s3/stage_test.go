package s3_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

// errRead is the error of sources that must not be read.
var errRead = errors.New("the source was read")

// TestStagingIsBounded checks that a Put above the limit waits and finally fails, without harm to
// staged bodies.
func TestStagingIsBounded(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{StagingLimit: 3 * mib, StagingStall: time.Hour, StagingWait: time.Millisecond})
	wantErr(t, s.Put(t.Context(), newName(), iotest.ErrReader(errRead), 3*mib+1), bytestore.ErrOverloaded)
	wantErr(t, s.Put(t.Context(), newName(), bytes.NewReader(content(1, 3*mib+1)), bytestore.UnknownSize), bytestore.ErrOverloaded)

	data := content(1, 2*mib)
	for _, size := range []int64{2 * mib, bytestore.UnknownSize} {
		outer := newName()
		src := io.MultiReader(bytes.NewReader(data), calls(func() error {
			// 2 MiB are staged: one more fits, two do not.
			wantErr(t, put(t, s, newName(), content(2, 2*mib)), bytestore.ErrOverloaded)
			wantErr(t, put(t, s, newName(), content(2, mib)), nil)
			full := io.MultiReader(bytes.NewReader(content(2, mib)), calls(func() error {
				wantErr(t, s.Put(t.Context(), newName(), iotest.ErrReader(errRead), 1), bytestore.ErrOverloaded)
				return io.EOF
			}))
			wantErr(t, s.Put(t.Context(), newName(), full, mib), nil)
			return io.EOF
		}))
		wantErr(t, s.Put(t.Context(), outer, src, size), nil)
		wantObject(t, aside, outer, data)
	}
	// Everything is released, whatever the Puts return.
	for range 10 {
		failing := io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errRead))
		wantErr(t, s.Put(t.Context(), newName(), failing, 3*mib), errRead)
		wantErr(t, s.Put(t.Context(), newName(), bytes.NewReader(data), 3*mib), bytestore.ErrSize)
		wantErr(t, put(t, aside, newName(), nil), nil)
	}
	w.handle(nil)
	wantErr(t, put(t, s, newName(), content(3, 3*mib)), nil)
	wantErr(t, s.Err(), nil)
}

// TestStalledBodiesAreEvicted has one caller use nearly all staging space for bodies that stall
// just before their end. The large bodies of another caller must be stored, and only as many
// stalled bodies evicted as necessary.
func TestStalledBodiesAreEvicted(t *testing.T) {
	const senders, limit = 68, 72
	for _, caller := range []string{"other", "stalls"} {
		t.Run(caller, func(t *testing.T) {
			s, aside, _ := onWire(t, s3.Options{StagingLimit: limit * mib, StagingMemory: 20 * mib, StagingStall: time.Millisecond})
			var stalled, ended sync.WaitGroup
			var given atomic.Int64
			goOn := make(chan bool)
			release := sync.OnceFunc(func() { close(goOn) })
			defer release() // otherwise a failure would wait for them forever
			stalled.Add(senders)
			for i := range senders {
				data := content(byte(i), mib)
				src := io.MultiReader(bytes.NewReader(data[:mib/16*15]), calls(func() error {
					stalled.Done()
					<-goOn
					return io.EOF
				}), bytes.NewReader(data[mib/16*15:]))
				ended.Go(func() {
					name := newName()
					err := s.Put(bytestore.WithCaller(t.Context(), "stalls"), name, src, mib)
					switch {
					case errors.Is(err, bytestore.ErrOverloaded):
						given.Add(1)
					case err != nil:
						t.Error(err)
					}
				})
			}
			stalled.Wait()
			ctx := bytestore.WithCaller(t.Context(), caller)
			for i := range 3 {
				name, data := newName(), content(byte(i), 16*mib)
				wantErr(t, s.Put(ctx, name, bytes.NewReader(data), 16*mib), nil)
				wantObject(t, aside, name, data)
			}
			release()
			ended.Wait()
			if n := given.Load(); n < 12 || n > 16 {
				t.Errorf("%d of %d bodies were evicted for one of 16 MiB, of which 4 had space", n, senders)
			}
			// Everything is released.
			wantErr(t, s.Put(ctx, newName(), bytes.NewReader(content(1, limit*mib)), limit*mib), nil)
		})
	}
}

// TestSlowBodiesBlockNoOthers checks that bytes which were declared and not received take no space
// from other bodies.
func TestSlowBodiesBlockNoOthers(t *testing.T) {
	s, _, _ := onWire(t, s3.Options{StagingLimit: 8 * mib})
	var trickle func(n int) error
	trickle = func(n int) error {
		if n == 0 {
			return put(t, s, newName(), content(2, 2*mib))
		}
		src := io.MultiReader(bytes.NewReader([]byte("a")), calls(func() error {
			wantErr(t, trickle(n-1), nil)
			return errRead
		}))
		if err := s.Put(t.Context(), newName(), src, 2*mib); !errors.Is(err, errRead) {
			return err
		}
		return nil
	}
	wantErr(t, trickle(5), nil) // which declare 10 MiB in total
}

// calls is a source. Its Read calls the function and returns its error.
type calls func() error

func (c calls) Read([]byte) (int, error) { return 0, c() }

// TestStagingInBuffersAndFiles stages bodies in buffers and in files. Without memory for a buffer
// even the smallest body is staged in a file.
func TestStagingInBuffersAndFiles(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	c := freshPrefix(t, server)
	for _, memory := range []int64{1, 64 << 10, mib, 64 * mib} {
		dir := t.TempDir()
		s := mustOpen(t, c, s3.Options{Staging: dir, StagingMemory: memory})
		for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, mib - 1, mib, mib + 1, 3*mib + 1} {
			for _, announced := range []int64{int64(size), bytestore.UnknownSize} {
				name, data := newName(), content(byte(size), size)
				src := iotest.HalfReader(bytes.NewReader(data))
				wantErr(t, s.Put(t.Context(), name, src, announced), nil)
				wantObject(t, s, name, data)
			}
		}
		wantEmpty(t, dir)
	}
}

// TestStagingFilesHaveNoNames checks that a crash leaves nothing of a staged body, and that Open
// removes a file that a crash may leave while it is created.
func TestStagingFilesHaveNoNames(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(dir+"/sluice-stage-1", []byte("left"), 0o600))
	s := mustOpen(t, freshPrefix(t, server), s3.Options{Staging: dir})
	wantEmpty(t, dir)
	src := io.MultiReader(bytes.NewReader(content(1, 5*mib)), calls(func() error {
		wantEmpty(t, dir)
		return io.EOF
	}))
	wantErr(t, s.Put(t.Context(), newName(), src, 5*mib), nil)
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the staging folder holds %v, %v", entries, err)
	}
}

func TestStagingFolderFull(t *testing.T) {
	testenv.Require(t, testenv.RootMount)
	server := testenv.S3(t, testenv.S3Options{})
	dir := t.TempDir()
	testenv.OK(t, testenv.MountTmpfs(dir, "2m"))
	testenv.AtEnd(t, func() error { return testenv.Unmount(dir) })
	s := mustOpen(t, freshPrefix(t, server), s3.Options{Staging: dir})
	wantErr(t, put(t, s, newName(), content(1, 5*mib)), bytestore.ErrOverloaded)
	wantObject(t, s, mustPut(t, s, content(1, mib+1)), content(1, mib+1))
	wantErr(t, s.Err(), nil)
}

// TestConcurrentPuts puts 16 MiB 64 times concurrently. The memory allocated must be a small part
// of that.
func TestConcurrentPuts(t *testing.T) {
	const puts, size = 64, 16 * mib
	s, aside, _ := onWire(t, s3.Options{StagingLimit: puts * size})
	data := content(1, size)
	var names [puts]bytestore.Name
	var errs [puts]error
	var begun, done sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun.Add(puts)
	for i := range puts {
		names[i] = newName()
		// No body ends before all have staged nearly everything.
		src := io.MultiReader(bytes.NewReader(data[:size-1]), &rendezvous{met: &begun}, bytes.NewReader(data[size-1:]))
		done.Go(func() { errs[i] = s.Put(t.Context(), names[i], src, size) })
	}
	done.Wait()
	runtime.ReadMemStats(&after)
	testenv.OK(t, errors.Join(errs[:]...))
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64*mib {
		t.Errorf("%d MiB were allocated for %d MiB of bodies", allocated/mib, puts*size/mib)
	} else {
		t.Logf("%d MiB were allocated for %d MiB of bodies", allocated/mib, puts*size/mib)
	}
	for _, name := range names[:4] {
		wantObject(t, aside, name, data)
	}
}

// rendezvous is an empty source that ends once all have reached it.
type rendezvous struct{ met *sync.WaitGroup }

func (r *rendezvous) Read([]byte) (int, error) {
	r.met.Done()
	r.met.Wait()
	return 0, io.EOF
}
