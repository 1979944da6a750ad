package folder_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/client"
	"sluice/client/folder"
	"sluice/test/testenv"
)

// TestSyncDeletes checks in each direction which names Sync deletes, and when it deletes none.
func TestSyncDeletes(t *testing.T) {
	type end struct {
		end   folder.End
		names func() []string
	}
	s := newService(t)
	number := 0
	remote := func(files map[string]string) end {
		number++
		account := fmt.Sprintf("account%d", number)
		for name, text := range files {
			_, err := s.Put(t.Context(), account, name, strings.NewReader(text), client.PutOptions{})
			check(err)
		}
		return end{folder.Prefix{Client: s.Client, Account: account}, func() []string { return s.names(account) }}
	}
	local := func(files map[string]string) end {
		dir := newFiles(t, files)
		return end{folder.Dir(dir), func() []string { return filesOf(dir) }}
	}
	source, target := map[string]string{"a": "new", "sub/b": "b"}, map[string]string{"a": "old", "sub/b": "b", "sub/extra": "x"}
	for name, makeEnds := range map[string]func(source, target map[string]string) (from, to end){
		"up":     func(source, target map[string]string) (from, to end) { return local(source), remote(target) },
		"down":   func(source, target map[string]string) (from, to end) { return remote(source), local(target) },
		"across": func(source, target map[string]string) (from, to end) { return remote(source), remote(target) },
	} {
		for _, test := range []struct {
			name    string
			source  map[string]string
			options syncOptions
			want    folder.Summary
			number  int // in a NotDeletedError
			left    []string
		}{
			{"nothing", source, syncOptions{}, folder.Summary{Copied: 1, Unchanged: 1, Bytes: 3}, 0, []string{"a", "sub/b", "sub/extra"}},
			{"in a dry run", source, syncOptions{Delete: true, Options: folder.Options{DryRun: true}}, folder.Summary{Copied: 1, Unchanged: 1, Deleted: 1, Bytes: 3}, 0, []string{"a", "sub/b", "sub/extra"}},
			{"an extra name", source, syncOptions{Delete: true}, folder.Summary{Copied: 1, Unchanged: 1, Deleted: 1, Bytes: 3}, 0, []string{"a", "sub/b"}},
			{"nothing for an empty source", nil, syncOptions{Delete: true}, folder.Summary{}, 3, []string{"a", "sub/b", "sub/extra"}},
			{"everything by force", nil, syncOptions{Delete: true, Force: true}, folder.Summary{Deleted: 3}, 0, nil},
		} {
			t.Run(name+" deletes "+test.name, func(t *testing.T) {
				from, to := makeEnds(test.source, target)
				got, err := mirror(t.Context(), from.end, to.end, test.options)
				kept, refused := errors.AsType[*folder.NotDeletedError](err)
				if got != test.want || refused != (test.number > 0) || refused && (kept.Number != test.number || !errors.Is(err, folder.ErrEmpty)) || !refused && err != nil {
					t.Errorf("%+v, %v, want %+v", got, err, test.want)
				}
				if left := to.names(); !slices.Equal(left, test.left) {
					t.Errorf("left are %q, want %q", left, test.left)
				}
			})
		}
	}
}

// TestSyncDeletesNothingInDoubt lets a transfer fail, and has a source with a link of a blob's
// name.
func TestSyncDeletesNothingInDoubt(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	s.store(map[string]string{"extra": "x", "link/below": "y"})
	dir := newFiles(t, map[string]string{"bad\x01": "b"})
	check(os.Symlink("none", filepath.Join(dir, "link")))
	to := s.team("")
	got, err := mirror(t.Context(), folder.Dir(dir), to, syncOptions{Delete: true})
	kept, refused := errors.AsType[*folder.NotDeletedError](err)
	if !refused || kept.Number != 1 || !errors.Is(err, folder.ErrIncomplete) || !errors.Is(err, client.ErrInvalid) || got.Failed != 1 || got.Skipped != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	testenv.Is(t, testenv.Error(mirror(t.Context(), folder.Dir(dir), to, syncOptions{Delete: true, Force: true})), client.ErrInvalid, "Sync")
	wantNames(t, s.names("team"), "link/below") // it may be below the link's target
}

// TestSyncNeedsAService checks the errors of Sync and Copy for ends that they cannot use.
func TestSyncNeedsAService(t *testing.T) {
	dir := folder.Dir(newFiles(t, nil))
	testenv.Is(t, testenv.Error(mirror(t.Context(), dir, dir, syncOptions{})), client.ErrInvalid, "Sync")
	s := newService(t)
	testenv.Is(t, testenv.Error(upload(t.Context(), dir+"/none", s.team(""), folder.Options{})), fs.ErrNotExist, "Upload")
	s.setHook(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusUnauthorized) })
	_, err := download(t.Context(), s.team("dir"), dir, folder.Options{})
	if failure, ok := errors.AsType[*folder.Error](err); !ok || failure.Source.Name != "dir/" || !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("%v", err)
	}
}

// TestUnreadableFolders checks that an upload stores nothing if a folder cannot be read as a whole,
// and that Sync stores the readable files and deletes nothing.
func TestUnreadableFolders(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	s.store(map[string]string{"locked/b": "b"})
	dir := newFiles(t, map[string]string{"a": "a", "locked/b": "b"})
	check(os.Chmod(filepath.Join(dir, "locked"), 0))
	check(os.Chmod(dir, 0o755))
	check(os.Chmod(filepath.Join(dir, "a"), 0o644))
	defer func() { check(os.Chmod(filepath.Join(dir, "locked"), 0o700)) }()
	to := s.team("")
	testenv.WithoutPrivileges(func() {
		got, err := upload(context.Background(), folder.Dir(dir), to, folder.Options{})
		if _, incomplete := errors.AsType[*folder.ListError](err); !incomplete || !errors.Is(err, fs.ErrPermission) || got != (folder.Summary{}) {
			t.Errorf("%+v, %v", got, err)
		}
		got, err = mirror(context.Background(), folder.Dir(dir), to, syncOptions{Delete: true})
		if _, incomplete := errors.AsType[*folder.ListError](err); !incomplete || !errors.Is(err, folder.ErrIncomplete) || got.Copied != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	wantNames(t, s.names("team"), "a", "locked/b")
}
