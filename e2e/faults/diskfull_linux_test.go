package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// tmpfs mounts a file system with this size for a server's data.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	testenv.Require(t, testenv.RootMount)
	dir := t.TempDir()
	testenv.OK(t, testenv.MountTmpfs(dir, size))
	t.Cleanup(func() {
		if err := testenv.Unmount(dir); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return filepath.Join(dir, "data")
}

// TestDiskFull fills the disk. The server must refuse writes and leave nothing torn, reads and
// deletes must work, and a client can store deleted blobs again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Data: tmpfs(t, "64m")})
	id := s.Begin("0x1", "by parts", 4<<20)
	stored := map[string]string{} // digests by name
	seed := uint64(0)
	put := func(name string, size int) int {
		t.Helper()
		seed++
		data := e2e.Content(seed, size)
		r := s.Do("PUT", e2e.BlobTarget("0x1", name), data)
		switch r.Status {
		case 204:
			stored[name] = e2e.Digest(data)
		case 507:
			e2e.CheckProblem(t, r, 507, "storage_full")
		default:
			t.Fatalf("PUT: %v, want 204 or 507", r)
		}
		return r.Status
	}
	// The sizes decrease, so that in the end not even a small blob fits.
	for _, size := range []int{4 << 20, 300 << 10, 2000} {
		full := false
		for i := 0; !full && i < 2000; i++ {
			full = put(fmt.Sprintf("%d of %d", i, size), size) == 507
		}
		if !full && size > 2000 {
			t.Fatalf("64 MiB had space for 2000 blobs of %d bytes", size)
		}
	}
	verify := func(when string) {
		t.Helper()
		if got := s.Names("0x1"); len(got) != len(stored) {
			t.Errorf("%s: %d blobs are listed, want %d", when, len(got), len(stored))
		}
		for name, want := range stored {
			if r := s.Do("GET", e2e.BlobTarget("0x1", name), nil); r.Status != 200 || e2e.Digest(r.Body) != want {
				t.Errorf("%s: %s: %d with %d bytes", when, name, r.Status, len(r.Body))
			}
		}
	}
	verify("full")
	if status := put("0 of 4194304", 5<<20); status != 507 {
		t.Errorf("an overwrite larger than the free space: %d, want 507", status)
	}
	e2e.CheckProblem(t, s.Do("PUT", e2e.PartTarget(id, 0), e2e.Content(1, 4<<20)), 507, "storage_full")
	s.Must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
	verify("full, after refused writes")

	for i := range 5 {
		name := fmt.Sprintf("%d of %d", i, 4<<20)
		s.Must(204, "DELETE", e2e.BlobTarget("0x1", name), nil)
		delete(stored, name)
	}
	verify("after deletes")
	for i := range 4 {
		if status := put(fmt.Sprint("again ", i), 4<<20); status != 204 {
			t.Fatalf("PUT %d after 20 MiB were deleted: %d, want 204", i, status)
		}
	}
	verify("filled again")
	s.Stop()
	s.Restart()
	verify("after a restart")
}

// TestStartOnFullDisk checks that a server starts on a full disk, so that clients can delete its
// blobs.
// Invariant 108.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Data: tmpfs(t, "32m")})
	last := 0
	for s.Do("PUT", e2e.BlobTarget("0x1", fmt.Sprint(last)), e2e.Content(1, 1<<20)).Status == 204 {
		last++
	}
	s.Stop()
	s.Restart()
	for i := range last {
		s.Must(204, "DELETE", e2e.BlobTarget("0x1", fmt.Sprint(i)), nil)
	}
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "again"), e2e.Content(2, 10<<20))
}

// TestStartWithoutSpaceForTheLog kills a server, and another program then fills the disk to the
// last byte. The next start needs space for the index of its write-ahead log. It uses the reserve
// for deletes, and deletes work.
// Invariant 108.
func TestStartWithoutSpaceForTheLog(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Data: tmpfs(t, "64m"), Dirty: true})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "blob"), e2e.Content(1, 1000))
	s.Kill()
	testenv.OK(t, os.Remove(filepath.Join(s.Data, "meta.db-shm")))
	fillDisk(t, filepath.Dir(s.Data))
	s.Restart()
	s.Must(200, "GET", e2e.BlobTarget("0x1", "blob"), nil)
	s.Must(204, "DELETE", e2e.BlobTarget("0x1", "blob"), nil)
}

// TestStartOnFullDiskWithObjectStore starts a server with its bytes in an object store, and with
// too little space on the database's disk for the reserve for deletes. Free space in the store is
// not free on that disk. The server must start, and deletes must work.
// Invariant 108.
func TestStartOnFullDiskWithObjectStore(t *testing.T) {
	t.Parallel()
	o := e2e.OnObjects(testenv.S3(t, testenv.S3Options{}))
	o.Data = tmpfs(t, "64m")
	s := e2e.Start(t, o)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "blob"), e2e.Content(1, 1000))
	s.Stop()
	if err := os.Remove(filepath.Join(s.Data, "ballast")); err != nil { // as a delete on a full disk
		t.Fatal(err)
	}
	disk := filepath.Dir(s.Data)
	fillDisk(t, disk)
	if err := os.Truncate(filepath.Join(disk, "filler"), 56<<20); err != nil { // the rest suffices for the log
		t.Fatal(err)
	}
	s.Restart()
	s.Must(200, "GET", e2e.BlobTarget("0x1", "blob"), nil)
	s.Must(204, "DELETE", e2e.BlobTarget("0x1", "blob"), nil)
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	filler, err := os.Create(filepath.Join(dir, "filler"))
	testenv.OK(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	testenv.OK(t, filler.Close())
}
