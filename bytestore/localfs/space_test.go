package localfs_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestReserve fills a small disk. Puts must stop at the reserve, before they read their source;
// deletes must succeed and free space.
func TestReserve(t *testing.T) {
	const size, reserve, object = 1 << 20, 100 << 10, 64 << 10
	s, _ := openWithin(t, size, reserve)
	var names []bytestore.Name
	for {
		name := newName()
		if err := put(t, s, name, body[:object]); err != nil {
			wantErr(t, err, bytestore.ErrNoSpace)
			break
		}
		names = append(names, name)
	}
	testenv.Equal(t, len(names), (size-reserve)/object, "objects that fitted")
	if err := put(t, s, newName(), body[:object]); !strings.Contains(err.Error(), "65536 bytes needed, 131072 free, of which 102400 are kept in reserve and 0 reserved by other writes") {
		t.Errorf("error text: %v", err)
	}
	unread := readerFunc(func([]byte) (int, error) { t.Error("the source was read"); return 0, io.EOF })
	wantErr(t, s.Put(t.Context(), newName(), unread, object), bytestore.ErrNoSpace)
	wantErr(t, s.Put(t.Context(), newName(), unread, 1<<62), bytestore.ErrNoSpace)
	wantErr(t, s.Space(0), nil) // a smaller object fits
	rest := int64(size - reserve - len(names)*object)
	wantErr(t, s.Put(t.Context(), newName(), bytes.NewReader(body), rest+1), bytestore.ErrNoSpace)
	wantErr(t, put(t, s, "the-rest", body[:rest]), nil)
	wantErr(t, s.Space(0), bytestore.ErrNoSpace)
	wantErr(t, put(t, s, "nothing", nil), bytestore.ErrNoSpace)

	wantErr(t, s.Delete(t.Context(), names[0]), nil)
	wantErr(t, s.Space(0), nil)
	wantErr(t, put(t, s, newName(), body[:object]), nil)
	if got := readBack(t, s, names[1]); !bytes.Equal(got, body[:object]) {
		t.Error("an object suffered from the full disk")
	}
}

// TestStalledPutsClaimLittle checks that puts with stalled sources reserve only a little space, and
// never make it look full.
func TestStalledPutsClaimLittle(t *testing.T) {
	const size, object, stalled = 100 << 20, 64 << 20, 9
	s, _ := openWithin(t, size, -1)
	var nest func(n int) // starts n more puts that stall, then runs then
	nest = func(n int) {
		if n == 0 {
			const room = size - stalled*4<<20
			wantErr(t, s.Space(0), nil)
			wantErr(t, s.Space(room), nil)
			wantErr(t, s.Space(room+1), bytestore.ErrNoSpace)
			wantErr(t, s.Put(t.Context(), "too-large", nil, room+1), bytestore.ErrNoSpace)
			wantErr(t, put(t, s, "other", make([]byte, 20<<20)), nil)
			wantErr(t, s.Space(room-20<<20), nil)
			return
		}
		src := readerFunc(func([]byte) (int, error) { nest(n - 1); return 0, io.ErrUnexpectedEOF })
		wantErr(t, s.Put(t.Context(), newName(), src, object), io.ErrUnexpectedEOF)
	}
	nest(stalled)
	wantErr(t, s.Space(size-20<<20), nil) // all reservations were released
	wantErr(t, s.Space(size-20<<20+1), bytestore.ErrNoSpace)
}

// TestReadyWhileEverythingIsReserved checks that Space(0) does not count reservations.
func TestReadyWhileEverythingIsReserved(t *testing.T) {
	const size = 3 << 20
	s, _ := openWithin(t, size, -1)
	src := readerFunc(func([]byte) (int, error) {
		wantErr(t, s.Space(0), nil)
		wantErr(t, s.Space(1), bytestore.ErrNoSpace)
		return 0, io.EOF
	})
	wantErr(t, s.Put(t.Context(), "first", src, size), bytestore.ErrSize)
}

// TestRacingPutsSpareTheReserve runs three concurrent puts that each fit when they begin, but not
// together.
func TestRacingPutsSpareTheReserve(t *testing.T) {
	const puts, object, room, reserve = 3, 9 << 20, 21 << 20, 3 << 20
	disk := vfstest.NewCrash()
	disk.Limit(room+reserve, 0)
	s, err := localfs.Open("/objects", localfs.Options{Reserve: reserve, FS: vfstest.Intercept(disk,
		func(op *vfstest.Op, do func() error) error {
			err := do()
			if op.Kind == vfstest.KindWrite {
				now, spaceErr := disk.Space("/objects")
				if now.Free < reserve || spaceErr != nil {
					t.Errorf("after a write %d bytes are free, %d reserved, %v", now.Free, reserve, spaceErr)
				}
			}
			return err
		})})
	wantErr(t, err, nil)
	var begun sync.WaitGroup
	begun.Add(puts)
	results := make(chan error, puts)
	for range puts {
		go func() {
			began := sync.OnceFunc(begun.Done)
			src := io.MultiReader(
				readerFunc(func([]byte) (int, error) { began(); begun.Wait(); return 0, io.EOF }),
				bytes.NewReader(make([]byte, object)),
			)
			err := s.Put(t.Context(), newName(), src, object)
			began() // if it was rejected, the other puts must not wait for it
			results <- err
		}()
	}
	stored := int64(0)
	for range puts {
		if err := <-results; err == nil {
			stored++
		} else if !errors.Is(err, bytestore.ErrNoSpace) {
			t.Errorf("put: %v", err)
		}
	}
	if stored == puts {
		t.Errorf("%d objects of %d bytes fitted into %d", stored, object, room)
	}
	wantErr(t, s.Space(room-stored*object), nil)
	wantErr(t, s.Space(room-stored*object+1), bytestore.ErrNoSpace)
}

// TestUnknownSizeSparesTheReserve checks that a put of unknown size stops at the reserve.
func TestUnknownSizeSparesTheReserve(t *testing.T) {
	const size, reserve = 2400 << 10, 500 << 10
	s, disk := openWithin(t, size, reserve)
	least := int64(size)
	src := readerFunc(func(p []byte) (int, error) {
		space, err := disk.Space("/objects")
		least = min(least, space.Free)
		return len(p), err
	})
	wantErr(t, s.Put(t.Context(), "endless", src, bytestore.UnknownSize), bytestore.ErrNoSpace)
	if least < reserve || least == size {
		t.Errorf("%d bytes were left, %d reserved", least, reserve)
	}
	noFiles(t, disk, "/objects")
}

// openWithin opens a store on a disk with the given size in bytes.
func openWithin(t *testing.T, size, reserve int64) (*localfs.Store, *vfstest.CrashFS) {
	t.Helper()
	disk := vfstest.NewCrash()
	disk.Limit(size, 0)
	s := testenv.Must(localfs.Open("/objects", localfs.Options{FS: disk, Reserve: reserve}))(t)
	return s, disk
}

// TestDiskFills fills the disk while a put writes.
func TestDiskFills(t *testing.T) {
	s, disk := openWithin(t, 0, -1)
	src := io.MultiReader(
		bytes.NewReader(body[:700<<10]),
		readerFunc(func([]byte) (int, error) { disk.Limit(800<<10, 0); return 0, io.EOF }),
		bytes.NewReader(body),
	)
	err := s.Put(t.Context(), "abc", src, int64(700<<10+len(body)))
	wantErr(t, err, bytestore.ErrNoSpace)
	if !strings.Contains(err.Error(), "bytes needed: 2316800; without this object 819200 bytes") {
		t.Errorf("error text: %v", err)
	}
	noFiles(t, disk, "/objects")
	wantErr(t, put(t, s, "def", body[:1000]), nil)
}

func TestInodes(t *testing.T) {
	disk := vfstest.NewCrash()
	disk.Limit(0, 300) // 257 folders; a twentieth is kept free
	s := mustOpen(t, disk, "/objects")
	stored := 0
	for put(t, s, newName(), nil) == nil {
		stored++
	}
	testenv.Equal(t, stored, 300-257-300/20, "objects that fitted")
	wantErr(t, put(t, s, newName(), nil), bytestore.ErrNoSpace)
	wantErr(t, s.Space(0), bytestore.ErrNoSpace)
}

// TestReserveByDefault checks the default reserve of small and large file systems.
func TestReserveByDefault(t *testing.T) {
	s, _ := openWithin(t, 64<<20, 0)
	wantErr(t, s.Put(t.Context(), "abc", strings.NewReader(""), 61<<20), bytestore.ErrNoSpace)
	wantErr(t, s.Put(t.Context(), "abc", strings.NewReader(""), 60<<20), bytestore.ErrSize)
}
