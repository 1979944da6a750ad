package folder_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/client"
	"sluice/client/folder"
	"sluice/metastore"
	"sluice/test/testenv"
)

// keepVersions makes the account team keep versions.
func (s *service) keepVersions(t *testing.T) {
	t.Helper()
	testenv.Must(s.meta.SetKeeping(t.Context(), "team", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State = metastore.KeepOn
		return nil, nil
	}))(t)
}

// restore restores the account team's blobs below a prefix, or one of them.
func (s *service) restore(ctx context.Context, o folder.Options, name string, at time.Time) (folder.Summary, error) {
	b := folder.NewBatch(o)
	got, err := b.Restore(ctx, []folder.Item{s.item(name)}, at)
	return got, errors.Join(err, b.Close())
}

// remove deletes a blob in the account team.
func (s *service) remove(t *testing.T, name string) {
	t.Helper()
	testenv.OK(t, s.Delete(t.Context(), "team", name, client.DeleteOptions{}))
}

// content returns the content of a blob in the account team.
func (s *service) content(t *testing.T, name string) string {
	t.Helper()
	r := testenv.Must(s.Get(t.Context(), "team", name, client.GetOptions{}))(t)
	defer func() { testenv.OK(t, r.Close()) }()
	return string(testenv.Must(io.ReadAll(r))(t))
}

// newest returns the time of a blob's newest version.
func (s *service) newest(t *testing.T, name string) time.Time {
	t.Helper()
	for e, err := range s.Versions(t.Context(), "team", client.ListOptions{Prefix: name, PageSize: 1}) {
		testenv.OK(t, err)
		return e.LastModified
	}
	t.Fatalf("%s has no versions", name)
	return time.Time{}
}

// TestRestore restores deleted blobs, and a folder as it was at a time. Blobs with the content of
// that time, and those that were not there, are left alone.
// Invariant 210.
func TestRestore(t *testing.T) {
	s := newService(t)
	defer s.stop()
	s.keepVersions(t)
	s.store(map[string]string{"d/deleted": "1", "d/replaced": "1", "d/same": "1", "d/again": "1", "d/before": "1", "other": "1"})
	s.remove(t, "d/before")
	noon := s.newest(t, "d/before")
	s.store(map[string]string{"d/replaced": "22", "d/later": "22", "d/again": "22"})
	s.store(map[string]string{"d/again": "1"}) // the same content in a newer version
	for _, name := range []string{"d/deleted", "d/later", "other"} {
		s.remove(t, name)
	}

	wantRun(s.restore(t.Context(), folder.Options{DryRun: true}, "d/", noon))(t, "a dry run", folder.Summary{Restored: 2, Unchanged: 2}, nil)
	wantNames(t, s.names("team"), "d/again", "d/replaced", "d/same")
	wantRun(s.restore(t.Context(), folder.Options{}, "d/", noon))(t, "as of a time", folder.Summary{Restored: 2, Unchanged: 2}, nil)
	wantNames(t, s.names("team"), "d/again", "d/deleted", "d/replaced", "d/same")
	testenv.Equal(t, s.content(t, "d/replaced"), "1", "what was replaced")
	wantRun(s.restore(t.Context(), folder.Options{}, "d/", noon))(t, "again", folder.Summary{Unchanged: 4}, nil)

	wantRun(s.restore(t.Context(), folder.Options{}, "", time.Time{}))(t, "everything", folder.Summary{Restored: 3, Unchanged: 4}, nil)
	testenv.Equal(t, s.content(t, "d/later"), "22", "what was deleted")
	wantRun(s.restore(t.Context(), folder.Options{}, "other", time.Time{}))(t, "a blob that is there", folder.Summary{Unchanged: 1}, nil)
	for _, name := range []string{"none", "d"} {
		wantRun(s.restore(t.Context(), folder.Options{}, name, time.Time{}))(t, name, folder.Summary{Failed: 1}, folder.ErrNoVersion)
	}
	wantRun(s.restore(t.Context(), folder.Options{}, "d/later", noon))(t, "a blob that was not there", folder.Summary{Failed: 1}, folder.ErrNoVersion)
}

// TestRestoreLeavesExpired restores an expired blob only if it is named by itself. It expires no
// more, and a version that has not expired keeps its expiry.
func TestRestoreLeavesExpired(t *testing.T) {
	s := newService(t)
	defer s.stop()
	s.keepVersions(t)
	expiry, later := s.storeFor(t, "d/expired", time.Second), s.storeFor(t, "d/later", time.Hour)
	s.remove(t, "d/later")
	for err := error(nil); !errors.Is(err, client.ErrGone); _, err = s.Head(t.Context(), "team", "d/expired") {
		testenv.OK(t, err)
	}
	wantRun(s.restore(t.Context(), folder.Options{}, "d/", time.Time{}))(t, "the folder", folder.Summary{Restored: 1}, nil)
	wantRun(s.restore(t.Context(), folder.Options{}, "d/expired", time.Time{}))(t, "the blob", folder.Summary{Restored: 1}, nil)
	for name, want := range map[string]time.Time{"d/expired": {}, "d/later": later} {
		if b := testenv.Must(s.Head(t.Context(), "team", name))(t); !b.Expires.Equal(want) {
			t.Errorf("%s expires at %v, want %v; it was %v", name, b.Expires, want, expiry)
		}
	}
}

// storeFor stores a blob that expires, and returns when.
func (s *service) storeFor(t *testing.T, name string, after time.Duration) time.Time {
	t.Helper()
	testenv.Must(s.Put(t.Context(), "team", name, strings.NewReader("x"), client.PutOptions{Expires: time.Now().Add(after)}))(t)
	return testenv.Must(s.Head(t.Context(), "team", name))(t).Expires
}

// TestRestoreIsBounded counts the requests that are in progress together, and changes a blob
// between its listing and its turn: it stays as it is.
// Invariant 210.
func TestRestoreIsBounded(t *testing.T) {
	s := newService(t)
	defer s.stop()
	s.keepVersions(t)
	names := map[string]string{}
	for _, name := range []string{"d/a", "d/b", "d/c", "d/e", "d/f", "d/g"} {
		names[name] = "x"
	}
	s.store(names)
	for name := range names {
		s.remove(t, name)
	}
	var now, most atomic.Int64
	var change sync.Once
	two := make(chan struct{})
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost {
			change.Do(func() { s.store(map[string]string{"d/g": "newer"}) })
			n := now.Add(1)
			defer now.Add(-1)
			if n == 2 && most.CompareAndSwap(0, 2) {
				close(two)
			} else if n > 2 {
				most.Store(n)
			}
			<-two
		}
		next.ServeHTTP(w, r)
	})
	got, err := s.restore(t.Context(), folder.Options{Concurrency: 2}, "d/", time.Time{})
	if got.Restored != 5 || got.Failed != 1 || !errors.Is(err, client.ErrPreconditionFailed) || most.Load() != 2 {
		t.Errorf("%+v, %v, with %d requests together", got, err, most.Load())
	}
	testenv.Equal(t, s.content(t, "d/g"), "newer", "the blob that changed")
}
