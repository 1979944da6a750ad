package instance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/access"
	"sluice/backup"
	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/database"
	"sluice/history"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// newRestorer returns a restorer of a repository's newest backup, for an open target.
func newRestorer(t *testing.T, repo *backup.Repository, target *storage.Endpoint) *restorer {
	t.Helper()
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	return &restorer{repo: repo, manifest: m, id: m.Instance, target: target, progress: newReporter(nil, nil)}
}

// run restores to an open target, with the steps of Restore.
func (r *restorer) run(ctx context.Context) error {
	if err := r.markBytes(ctx, r.target.Bytes); err != nil {
		return err
	}
	existed, err := r.mark(ctx)
	switch {
	case err != nil:
		return err
	case existed:
		return r.target.Bytes.Delete(ctx, history.CopyObject)
	}
	var result RestoreResult
	if err := r.load(ctx, &result); err != nil {
		return err
	}
	return r.complete(ctx, &result)
}

// TestRestoreCutAtEachStep checks that a restore which is interrupted before or after any write to
// its target leaves nothing that can be served, and that the next one completes it.
// Invariants 119, 123.
func TestRestoreCutAtEachStep(t *testing.T) {
	t.Parallel()
	data, repo := newSource(t), newRepository()
	from := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	testenv.OK(t, errors.Join(from.Meta.SetProperty(t.Context(), history.CandidateProperty, "of the source"), from.Close()))
	id := backedUp(t, data, repo).Instance
	for _, after := range []bool{false, true} {
		for step, cut := 1, true; cut; step++ {
			to := endpointAt(t, testenv.MemoryDir(t), false)
			killed := killedAt(step-1, "put", "delete", "set", "replace")
			if after {
				killed.Kind = fault.Lose
			}
			target := &storage.Endpoint{Stores: &storage.Stores{Meta: killedMeta{to.Meta, killed}, Bytes: bytetest.Faulty{Store: to.Bytes, Point: killed}}, SQL: to.SQL}
			err := newRestorer(t, repo, target).run(t.Context())
			if cut = err != nil; cut && !errors.Is(err, fault.ErrFault) {
				t.Fatal(err)
			}
			if !cut && step < sourceBlobs+5 {
				t.Fatalf("there were only %d steps", step)
			}
			markers := testenv.Must(readMarkers(t.Context(), to))(t)
			// A target without a marker is still empty.
			if markers.copyObject != "" && markers.property != id {
				if _, err := history.Bind(t.Context(), to.Meta, to.Bytes); !errors.Is(err, history.ErrUnfinishedCopy) {
					t.Fatalf("step %d, after %t: an interrupted restore can be served: %v", step, after, err)
				}
			}
			if err := newRestorer(t, repo, to).run(t.Context()); err != nil {
				t.Fatalf("step %d, after %t: the next run: %v", step, after, err)
			}
			if got, err := history.Bind(t.Context(), to.Meta, to.Bytes); err != nil || got != id {
				t.Fatalf("step %d, after %t: it is the instance %q, %v; want %q", step, after, got, err, id)
			}
			checkSource(t, to.Meta, to.Bytes)
			if name, err := to.Meta.Property(t.Context(), history.CandidateProperty); !errors.Is(err, database.ErrNotFound) {
				t.Errorf("the restored instance is the candidate %q, %v", name, err)
			}
			if markers, err = readMarkers(t.Context(), to); err != nil || markers.copyObject != "" {
				t.Errorf("step %d, after %t: the mark is left: %+v, %v", step, after, markers, err)
			}
		}
	}
}

// TestRestoreCutAtEachRead interrupts a restore after each object that it reads, and completes it.
// Invariant 119.
func TestRestoreCutAtEachRead(t *testing.T) {
	t.Parallel()
	repo := newRepository()
	backedUp(t, newSource(t), repo)
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	for step := 1; ; step++ {
		to := Location{Data: filepath.Join(testenv.MemoryDir(t), "to")}
		cut := &backup.Repository{Bytes: bytetest.Faulty{Store: repo.Bytes, Point: killedAt(step, "open")}}
		_, err := Restore(t.Context(), cut, m, to, RestoreOptions{})
		if err == nil {
			if step < 5 {
				t.Fatalf("there were only %d steps", step)
			}
			break
		}
		testenv.Is(t, err, fault.ErrFault, "step %d", step)
		if _, err := storage.Open(t.Context(), to, storage.Options{}); !errors.Is(err, history.ErrUnfinishedCopy) {
			t.Fatalf("step %d: an interrupted restore can be served: %v", step, err)
		}
		testenv.Must(Restore(t.Context(), repo, m, to, RestoreOptions{}))(t)
		s := testenv.Must(storage.Open(t.Context(), to, storage.Options{}))(t)
		checkSource(t, s.Meta, s.Bytes)
		testenv.OK(t, s.Close())
	}
}

// TestRestoreIsMarkedFirst checks that a target is marked before anything else is stored in it, and
// that the mark is removed when its metadata is not empty.
// Invariant 119.
func TestRestoreIsMarkedFirst(t *testing.T) {
	t.Parallel()
	repo := newRepository()
	backedUp(t, newSource(t), repo)
	r := newRestorer(t, repo, nil)
	data := testenv.MemoryDir(t)
	at := storage.Location{Data: data}
	s, err := storage.OpenEndpoint(t.Context(), at, false, func(ctx context.Context, bytes bytestore.Store) error {
		testenv.Is(t, testenv.Error(os.Stat(filepath.Join(data, datadir.Database))), fs.ErrNotExist, "metadata exists before the mark")
		return errors.Join(r.markBytes(ctx, bytes), fault.ErrFault)
	})
	if !errors.Is(err, fault.ErrFault) {
		t.Fatal(s, err)
	}
	if s, err := storage.Open(t.Context(), at, storage.Options{}); !errors.Is(err, history.ErrUnfinishedCopy) || !strings.Contains(err.Error(), r.id) {
		t.Errorf("a restore that has just begun is opened: %v, %v", s, err)
	}

	withKey := filepath.Join(testenv.MemoryDir(t), "data")
	meta := testenv.Must(storage.OpenMeta(t.Context(), storage.Location{Data: withKey}, true))(t)
	_, err = access.Create(t.Context(), meta.Meta, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
	testenv.OK(t, errors.Join(err, meta.Close()))
	r.marked = false
	withKeyAt := storage.Location{Data: withKey}
	r.target = testenv.Must(storage.OpenEndpoint(t.Context(), withKeyAt, false, r.markBytes))(t)
	testenv.AtEnd(t, r.target.Close)
	if _, err := r.mark(t.Context()); err == nil || !strings.Contains(err.Error(), "has metadata already") {
		t.Errorf("a target with a key: %v", err)
	}
	if markers, err := readMarkers(t.Context(), r.target); err != nil || markers.copyObject != "" || markers.property != "" {
		t.Errorf("a target that was rejected is marked: %+v, %v", markers, err)
	}
}

// TestRestoreRefusals: a target that is in use, or has anything else than an interrupted restore of
// the same instance, is refused and left as it is.
// Invariant 119.
func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	repo := newRepository()
	backedUp(t, newSource(t), repo)
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	other := strings.Repeat("0", 32)
	put := func(name bytestore.Name) func(*storage.Endpoint) error {
		return func(e *storage.Endpoint) error { return e.Bytes.Put(t.Context(), name, strings.NewReader(other), 32) }
	}
	property := func(value string) func(*storage.Endpoint) error {
		return func(e *storage.Endpoint) error {
			return e.Meta.SetProperty(t.Context(), history.InstanceProperty, value)
		}
	}
	for want, has := range map[string][]func(*storage.Endpoint) error{
		"it has bytes already, such as the object stray":              {put("stray")},
		"it is the instance " + other:                                 {put(history.InstanceObject), property(other)},
		"it contains an unfinished copy of the instance " + other:     {put(history.CopyObject), property(history.CopyOf(other))},
		"an unfinished copy that has its bytes in another place":      {property(history.CopyOf(m.Instance))},
		"it is the instance " + other + ": restore to an empty place": {property(other)},
	} {
		data := testenv.MemoryDir(t)
		e := testenv.Must(storage.OpenEndpoint(t.Context(), Location{Data: data}, false, nil))(t)
		for _, fn := range has {
			testenv.OK(t, fn(e))
		}
		before := testenv.Must(readMarkers(t.Context(), e))(t)
		_, err := Restore(t.Context(), repo, m, Location{Data: data}, RestoreOptions{})
		testenv.Is(t, err, datadir.ErrInUse, "to a folder that is in use")
		testenv.OK(t, e.Close())
		if _, err := Restore(t.Context(), repo, m, Location{Data: data}, RestoreOptions{}); err == nil || !strings.HasPrefix(err.Error(), "the target: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		e = endpointAt(t, data, false)
		testenv.Equal(t, testenv.Must(readMarkers(t.Context(), e))(t), before, "the markers after %s", want)
	}
}

// TestRestoreSetsPropertiesOnce checks that an interrupted restore's properties may be set again,
// and to no other value.
func TestRestoreSetsPropertiesOnce(t *testing.T) {
	target := endpointAt(t, testenv.MemoryDir(t), false)
	for range 2 {
		testenv.OK(t, setProperty(t.Context(), target.Meta, "receiver", "0x1"))
	}
	testenv.Is(t, setProperty(t.Context(), target.Meta, "receiver", "0x2"), database.ErrExists, "another receiver")
}

// TestRestoreIsRecorded checks that a start on a restored instance checks nothing, because its
// database was made in its folder, and that the time is not in doubt there, however old the backup
// is.
// Invariant 110.
func TestRestoreIsRecorded(t *testing.T) {
	t.Parallel()
	data, repo := newSource(t), newRepository()
	source := endpointAt(t, data, true)
	testenv.OK(t, source.Meta.SetProperty(t.Context(), database.TimeProperty, `{"known":"2020-01-01T00:00:00Z"}`))
	testenv.OK(t, source.Close())
	backedUp(t, data, repo)
	s, _ := restored(t, repo, RestoreOptions{})
	testenv.Equal(t, s.Look.Why, "", "why a restored instance is checked")
	testenv.OK(t, s.Meta.DeletionErr())
	testenv.Is(t, testenv.Error(s.Meta.Property(t.Context(), database.TimeProperty)), database.ErrNotFound, "the time that the source kept")
}
