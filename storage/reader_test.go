package storage

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/internal/datadir"
	"sluice/test/testenv"
)

// filesIn returns the names of all files in a folder, with their sizes.
func filesIn(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	testenv.OK(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			files[strings.TrimPrefix(name, dir)] = info.Size()
		}
		return err
	}))
	return files
}

func sameFiles(t *testing.T, got, want map[string]int64, after string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("the files after %s: %v, want %v", after, got, want)
	}
}

// wantBlobs fails the test unless the reader has all objects of newFolder's blobs, and refuses
// changes.
func wantBlobs(t *testing.T, r *Endpoint) {
	t.Helper()
	found, err := r.Compare(t.Context(), 1)
	if err != nil || found.Objects != lookedAtBlobs || found.Missing != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	_, extents, err := r.SQL.OpenBlob(t.Context(), "a", "blob0")
	testenv.OK(t, err)
	name := bytestore.Name(extents[0].Object)
	body := testenv.Must(r.Bytes.Open(t.Context(), name, 0, 1000))(t)
	read := testenv.Must(io.ReadAll(body))(t)
	testenv.OK(t, body.Close())
	testenv.Equal(t, len(read), 1000, "bytes of an object")
	testenv.Is(t, r.Bytes.Delete(t.Context(), name), bytestore.ErrReadOnly, "a delete")
	testenv.Is(t, r.Bytes.Put(t.Context(), "other", bytes.NewReader(nil), 0), bytestore.ErrReadOnly, "a put")
}

// TestReaderBesideAServer opens a folder for reading while a server uses it, with a put in
// progress, and when none does: its files are the same afterwards.
// Invariant 113.
func TestReaderBesideAServer(t *testing.T) {
	data := newFolder(t)
	in := func(name string) string { return filepath.Join(data, datadir.Bytes, name) }
	testenv.OK(t, errors.Join(os.WriteFile(in(".put-1"), []byte("part"), 0o600), os.Mkdir(in("other"), 0o700)))
	alone := filesIn(t, data)
	r := testenv.Must(OpenReader(t.Context(), Location{Data: data}))(t)
	wantBlobs(t, r)
	testenv.OK(t, r.Close())
	sameFiles(t, filesIn(t, data), alone, "a reader without a server")

	server, _ := open(t, data)
	testenv.OK(t, os.WriteFile(in(".put-2"), []byte("part"), 0o600))
	beside := filesIn(t, data)
	r = testenv.Must(OpenReader(t.Context(), Location{Data: data}))(t)
	wantBlobs(t, r)
	testenv.OK(t, r.Close())
	sameFiles(t, filesIn(t, data), beside, "a reader beside a server")
	testenv.OK(t, server.Ready(t.Context()))
}

// TestHoldBesideAServer opens a folder for reading while its server has a read in progress, so that
// the log cannot be emptied. A backup can hold garbage at once, and leaves the log to the server,
// whose writes would wait for a checkpoint.
func TestHoldBesideAServer(t *testing.T) {
	data := newFolder(t)
	server, _ := open(t, data)
	reading, read := make(chan struct{}), make(chan struct{})
	var dump sync.WaitGroup
	dump.Go(func() {
		err := server.sql.Dump(t.Context(), Dump{
			Begin: func(time.Time, map[string]string) error { close(reading); <-read; return nil },
			Table: func(Table) error { return nil },
			Rows:  func([][]any) error { return nil },
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	// Now the log has a change that the read must not see.
	testenv.OK(t, server.sql.SetProperty(t.Context(), "a", "b"))
	r := testenv.Must(OpenReader(t.Context(), Location{Data: data}))(t)
	_, err := r.SQL.HoldGarbage(t.Context(), "id", time.Minute)
	testenv.OK(t, errors.Join(err, r.SQL.Err(), r.Close()))
	close(read)
	dump.Wait()
	_, held, err := server.sql.GarbageHeld(t.Context())
	if err != nil || !held {
		t.Errorf("garbage is held: %t, %v", held, err)
	}
}

// TestReaderOfALostShard opens a folder for reading in which the folders with objects are gone:
// nothing is made again, and the objects are missing.
// Invariant 113.
func TestReaderOfALostShard(t *testing.T) {
	data := newFolder(t)
	for _, shard := range testenv.Must(filepath.Glob(filepath.Join(data, datadir.Bytes, "??")))(t) {
		testenv.OK(t, os.RemoveAll(shard))
	}
	r := testenv.Must(OpenReader(t.Context(), Location{Data: data}))(t)
	found, err := r.Compare(t.Context(), 1)
	testenv.OK(t, errors.Join(err, r.Close()))
	testenv.Equal(t, found.Missing, lookedAtBlobs, "missing objects")
	if left := testenv.Must(filepath.Glob(filepath.Join(data, datadir.Bytes, "??")))(t); len(left) > 0 {
		t.Errorf("the reader has made %v", left)
	}
	testenv.OK(t, os.RemoveAll(filepath.Join(data, datadir.Bytes)))
	if _, err := OpenReader(t.Context(), Location{Data: data}); err == nil || !strings.Contains(err.Error(), "not the data folder") {
		t.Errorf("without bytes: %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, datadir.Bytes)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reader has made the folder: %v", err)
	}
}
