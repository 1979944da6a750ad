package vfstest_test

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"

	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestCrash checks which files, entries and bytes survive a crash.
func TestCrash(t *testing.T) {
	c := vfstest.NewCrash()
	for _, dir := range []string{"/d", "/lost"} {
		testenv.OK(t, c.Mkdir(dir))
		vfstest.Write(t, c, dir+"/f", "x", true)
		wantErr(t, c.SyncDir(dir), nil)
		if dir == "/d" {
			wantErr(t, c.SyncDir("/"), nil)
		}
	}
	vfstest.Write(t, c, "/d/whole", "abc", true)
	vfstest.Write(t, c, "/d/torn", "abc", false)
	vfstest.Write(t, c, "/d/old", "renamed", true)
	vfstest.Write(t, c, "/d/gone", "removed", true)
	f := testenv.Must(c.Create("/d/partly"))(t)
	_, err1 := io.WriteString(f, "sync")
	err2 := f.Sync()
	_, err3 := io.WriteString(f, "lost")
	wantErr(t, errors.Join(err1, err2, err3, c.SyncDir("/d")), nil)
	wantErr(t, c.Rename("/d/old", "/d/new"), nil)
	wantErr(t, c.Remove("/d/gone"), nil)
	vfstest.Write(t, c, "/d/unlisted", "abc", true)

	after := c.Crash()
	want := []string{"f", "gone", "old", "partly", "torn", "whole"}
	if got := vfstest.Names(t, after, "/d"); !slices.Equal(got, want) {
		t.Fatalf("survivors: %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"f": "x", "gone": "removed", "old": "renamed", "partly": "sync", "torn": "", "whole": "abc",
	} {
		testenv.Equal(t, vfstest.Read(t, after, "/d/"+name), want, "%s", name)
	}
	if got := vfstest.Names(t, after, "/"); !slices.Equal(got, []string{"d"}) {
		t.Fatalf("root after the crash: %q", got)
	}

	_, err := c.Open("/d/whole")
	wantErr(t, err, vfstest.ErrCrashed)
	_, err = f.Write([]byte("late"))
	wantErr(t, err, vfstest.ErrCrashed)
	wantErr(t, c.SyncDir("/d"), vfstest.ErrCrashed)
	if again := after.Crash(); vfstest.Read(t, again, "/d/partly") != "sync" {
		t.Fatal("a second crash lost bytes that the first one kept")
	}
}

// TestLimit checks that a full file system refuses bytes and files, and that Remove makes room.
func TestLimit(t *testing.T) {
	c := vfstest.NewCrash()
	c.Limit(10, 3)
	vfstest.Write(t, c, "/a", "1234567", true)
	f := testenv.Must(c.Create("/b"))(t)
	n, err := f.Write([]byte("12345"))
	if n != 3 {
		t.Fatalf("wrote %d bytes into room for 3", n)
	}
	wantErr(t, err, syscall.ENOSPC)
	vfstest.Write(t, c, "/c", "", true)
	_, err = c.Create("/d")
	wantErr(t, err, syscall.ENOSPC)
	if s, err := c.Space("/"); s != (vfs.Space{Size: 10, Inodes: 3}) || err != nil {
		t.Fatalf("space: %+v, %v", s, err)
	}
	wantErr(t, c.Remove("/a"), nil)
	if s, err := c.Space("/"); s.Free != 7 || s.FreeInodes != 1 || err != nil {
		t.Fatalf("space after remove: %+v, %v", s, err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
