package instance

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sluice/access/keys"
	"sluice/internal/datadir"
	"sluice/internal/storage"
	"sluice/internal/testenv"
)

// Invariant 125.
func TestReset(t *testing.T) {
	data := newSource(t)
	errNo := errors.New("no")
	if err := Reset(t.Context(), data, func() error { return errNo }); !errors.Is(err, errNo) {
		t.Errorf("refused: %v", err)
	}
	s := endpointAt(t, data, true)
	checkSource(t, s.Meta, s.Bytes) // nothing was deleted
	if err := Reset(t.Context(), data, func() error { return nil }); !errors.Is(err, datadir.ErrInUse) {
		t.Errorf("while it is in use: %v", err)
	}
	testenv.OK(t, s.Close())
	held := func() error { // while it asks, no server can start
		d, err := datadir.Open(data)
		if !errors.Is(err, datadir.ErrInUse) {
			t.Errorf("the folder is not locked: %v, %v", d, err)
		}
		return nil
	}
	testenv.OK(t, Reset(t.Context(), data, held))
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 2 { // two locks
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := Reset(t.Context(), data, held); !errors.Is(err, storage.ErrNoInstance) {
		t.Errorf("an empty folder: %v", err)
	}
	missing := filepath.Join(testenv.MemoryDir(t), "none")
	if err := Reset(t.Context(), missing, held); !errors.Is(err, storage.ErrNoInstance) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the folder was created")
	}
}

// TestResetOnlyOfLocalInstances checks that nothing is deleted from an instance that has an API
// key, that a hosted node has used, or that has its bytes or metadata outside the folder.
// Invariant 125.
func TestResetOnlyOfLocalInstances(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*storage.Endpoint) error
		remove string // part of the folder
		want   error  // nil: any
	}{
		"with a key": {change: func(s *storage.Endpoint) error {
			_, err := s.Meta.CreateKey(t.Context(), keys.Key{ID: "id", Group: "group"})
			return err
		}, want: ErrHosted},
		"hosted":           {change: func(s *storage.Endpoint) error { return s.Meta.SetProperty(t.Context(), storage.HostedProperty, "yes") }, want: ErrHosted},
		"without bytes":    {remove: datadir.Bytes},
		"without metadata": {remove: datadir.Database, want: storage.ErrNoInstance},
	} {
		t.Run(name, func(t *testing.T) {
			data := newSource(t)
			if test.change != nil {
				s := endpointAt(t, data, true)
				testenv.OK(t, errors.Join(test.change(s), s.Close()))
			}
			if test.remove != "" {
				testenv.OK(t, os.RemoveAll(filepath.Join(data, test.remove)))
			}
			err := Reset(t.Context(), data, func() error {
				t.Error("it would be deleted")
				return nil
			})
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

// TestInterruptedReset checks that Reset completes one that was interrupted when the database was
// deleted.
// Invariant 125.
func TestInterruptedReset(t *testing.T) {
	data := newSource(t)
	testenv.OK(t, Reset(t.Context(), data, func() error { return nil }))
	object := filepath.Join(data, datadir.Bytes, "object")
	testenv.OK(t, os.MkdirAll(object, 0o700))
	testenv.OK(t, os.WriteFile(filepath.Join(data, "sluice-reset"), []byte("sluice reset is deleting this instance\n"), 0o600))
	testenv.Check(t, Reset(t.Context(), data, func() error { return errors.New("asked again") }))
	if _, err := os.Stat(object); err == nil {
		t.Error("the reset was not completed")
	}
}
