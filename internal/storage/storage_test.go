package storage

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"sluice/database/sqlstore"
	"sluice/internal/datadir"
	"sluice/internal/testenv"
)

// waiting is a context that calls a function when something waits for the first time.
type waiting struct {
	context.Context
	once  sync.Once
	first func()
}

func (w *waiting) Done() <-chan struct{} {
	w.once.Do(w.first)
	return w.Context.Done()
}

// TestOpenWaitsForACommand checks that a node starts although a command, which ends soon, has
// locked the folder.
func TestOpenWaitsForACommand(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	command, err := datadir.Open(data)
	testenv.OK(t, err)
	ctx := &waiting{Context: t.Context(), first: func() {
		if err := command.Close(); err != nil {
			t.Error(err)
		}
	}}
	stores, err := Open(ctx, Location{Data: data}, Options{})
	testenv.OK(t, err)
	if err := stores.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenMetaWaitsForAFirstStart checks that a command succeeds that is run while a server starts
// for the first time: the server has locked the folder, and then makes the database.
func TestOpenMetaWaitsForAFirstStart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	server, err := datadir.Open(data)
	testenv.OK(t, err)
	ctx := &waiting{Context: t.Context(), first: func() {
		made, err := sqlstore.OpenSQLite(server.Path(datadir.Database), sqlstore.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	}}
	stores, err := OpenMeta(ctx, Location{Data: data}, true)
	testenv.OK(t, err)
	if err := errors.Join(stores.Close(), server.Close()); err != nil {
		t.Error(err)
	}
}
