package instance

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/datadir"
	"sluice/internal/storage"
	"sluice/internal/testenv"
)

// TestCloneCutAtEachStep checks that a clone which is interrupted at any step cannot be served, and
// that the next run completes it.
func TestCloneCutAtEachStep(t *testing.T) {
	from := endpointAt(t, newSource(t), true)
	id := testenv.Must(blob.Bind(t.Context(), from.Meta, from.Bytes))(t)
	testenv.OK(t, from.Meta.SetProperty(t.Context(), blob.CandidateProperty, "of the source"))
	for _, after := range []bool{false, true} {
		for step, cut := 1, true; cut; step++ {
			to := endpointAt(t, testenv.MemoryDir(t), false)
			killed := killedTarget{step: step, after: after, steps: make(chan int, 1)}
			killed.steps <- 0
			target := &storage.Endpoint{Stores: &storage.Stores{Meta: killedMeta{to.Meta, killed}, Bytes: killedBytes{to.Bytes, killed}}, SQL: to.SQL}
			c := &cloner{source: from, target: target, progress: newReporter(CloneOptions{})}
			_, err := c.run(t.Context())
			if cut = err != nil; cut && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if !cut && step < sourceBlobs+5 {
				t.Fatalf("there were only %d steps", step)
			}
			markers := testenv.Must(readMarkers(t.Context(), to))(t)
			// A target without a marker is still empty.
			if markers.copyObject != "" && markers.property != id {
				if _, err := blob.Bind(t.Context(), to.Meta, to.Bytes); !errors.Is(err, blob.ErrUnfinishedCopy) {
					t.Fatalf("step %d, after %t: an unfinished clone can be served: %v", step, after, err)
				}
			}
			c = &cloner{source: from, target: to, progress: newReporter(CloneOptions{})}
			if _, err := c.run(t.Context()); err != nil {
				t.Fatalf("step %d, after %t: the next run: %v", step, after, err)
			}
			if got, err := blob.Bind(t.Context(), to.Meta, to.Bytes); err != nil || got != id {
				t.Fatalf("step %d, after %t: the clone is the instance %q, %v; want %q", step, after, got, err, id)
			}
			checkClone(t, to.Meta, to.Bytes)
			if name, err := to.Meta.Property(t.Context(), blob.CandidateProperty); !errors.Is(err, database.ErrNotFound) {
				t.Errorf("the clone is the candidate %q, %v", name, err)
			}
			if markers, err = readMarkers(t.Context(), to); err != nil || markers.copyObject != "" {
				t.Errorf("step %d, after %t: the mark is left: %+v, %v", step, after, markers, err)
			}
		}
	}
}

// TestCloneIsMarkedFirst checks that a target is marked before anything else is stored in it, and
// that the mark is removed when its metadata is not empty.
func TestCloneIsMarkedFirst(t *testing.T) {
	from := endpointAt(t, newSource(t), true)
	c := &cloner{source: from, progress: newReporter(CloneOptions{})}
	testenv.OK(t, c.identify(t.Context()))
	data := testenv.MemoryDir(t)
	at := storage.Location{Data: data}
	s, err := storage.OpenEndpoint(t.Context(), at, false, func(ctx context.Context, bytes bytestore.Store) error {
		if _, err := os.Stat(filepath.Join(data, datadir.Database)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("metadata exists before the mark: %v", err)
		}
		return errors.Join(c.markBytes(ctx, bytes), errKilled)
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(s, err)
	}
	if s, err := storage.Open(t.Context(), at, storage.Options{}); !errors.Is(err, blob.ErrUnfinishedCopy) || !strings.Contains(err.Error(), c.id) {
		t.Errorf("a clone that has just begun is opened: %v, %v", s, err)
	}

	withKey := filepath.Join(testenv.MemoryDir(t), "data")
	meta := testenv.Must(storage.OpenMeta(t.Context(), storage.Location{Data: withKey}, true))(t)
	_, err = access.Create(t.Context(), meta.Meta, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
	testenv.OK(t, errors.Join(err, meta.Close()))
	c.marked = false
	withKeyAt := storage.Location{Data: withKey}
	c.target = testenv.Must(storage.OpenEndpoint(t.Context(), withKeyAt, false, c.markBytes))(t)
	testenv.AtEnd(t, c.target.Close)
	if _, err := c.mark(t.Context()); err == nil || !strings.Contains(err.Error(), "has metadata already") {
		t.Errorf("a target with a key: %v", err)
	}
	if markers, err := readMarkers(t.Context(), c.target); err != nil || markers.copyObject != "" || markers.property != "" {
		t.Errorf("a target that was rejected is marked: %+v, %v", markers, err)
	}
}

// TestCloneOfDamage checks that each damaged object is reported, that the unfinished clone is not
// served, and that it can be completed once the source is repaired.
func TestCloneOfDamage(t *testing.T) {
	from, to := newSource(t), filepath.Join(testenv.MemoryDir(t), "target")
	files := objectFiles(t, from)
	kept := testenv.Must(os.ReadFile(files[0]))(t)
	flipped := bytes.Clone(kept)
	flipped[len(flipped)/2] ^= 1
	missing := testenv.Must(os.ReadFile(files[1]))(t)
	short := testenv.Must(os.ReadFile(files[2]))(t)
	write := func(name string, data []byte) {
		t.Helper()
		testenv.OK(t, os.WriteFile(name, data, 0o600))
	}
	write(files[0], flipped)
	write(files[2], short[1:])
	testenv.OK(t, os.Remove(files[1]))
	damaged := map[string]error{}
	clone := func() (CloneResult, error) {
		return Clone(t.Context(), Location{Data: from}, Location{Data: to}, CloneOptions{
			Damaged: func(key string, err error) { damaged[key] = err },
		})
	}
	if _, err := clone(); err == nil || !strings.Contains(err.Error(), "damaged or missing: 3") {
		t.Errorf("with damage: %v", err)
	}
	for _, file := range files {
		if got, want := damaged[filepath.Base(file)] != nil, slices.Contains(files[:3], file); got != want {
			t.Errorf("that %s is reported as damaged is %t, want %t: %v", filepath.Base(file), got, want, damaged)
		}
	}
	if s, err := storage.Open(t.Context(), storage.Location{Data: to}, storage.Options{}); !errors.Is(err, blob.ErrUnfinishedCopy) {
		t.Fatalf("an unfinished clone is opened: %v, %v", s, err)
	}
	write(files[0], kept)
	write(files[1], missing)
	write(files[2], short)
	clear(damaged)
	first, err := clone()
	if err != nil || first.Existed || first.Objects == 0 || first.Bytes == 0 || first.Rows == 0 || len(damaged) > 0 {
		t.Errorf("with the source repaired: %+v, %v, damaged %v", first, err, damaged)
	}
	if second, err := clone(); err != nil || second != (CloneResult{ID: first.ID, Existed: true}) {
		t.Errorf("once more: %+v, %v", second, err)
	}
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: to}, storage.Options{}))(t)
	checkClone(t, s.Meta, s.Bytes)
	testenv.Check(t, s.Close())
}

// TestCloneCountsGrownCommits checks that an interrupted clone continues although the source's
// nodes have counted commits since.
func TestCloneCountsGrownCommits(t *testing.T) {
	target := endpointAt(t, testenv.MemoryDir(t), false)
	for _, value := range []string{"7", "7", "9"} {
		testenv.OK(t, setProperty(t.Context(), target.Meta, blob.CommitsProperty, value))
	}
	if got, err := target.Meta.Property(t.Context(), blob.CommitsProperty); err != nil || got != "9" {
		t.Errorf("%q commits are counted, %v, want as many as the source has", got, err)
	}
	testenv.OK(t, setProperty(t.Context(), target.Meta, "receiver", "0x1"))
	if err := setProperty(t.Context(), target.Meta, "receiver", "0x2"); !errors.Is(err, database.ErrExists) {
		t.Errorf("another receiver: %v, want %v", err, database.ErrExists)
	}
}
