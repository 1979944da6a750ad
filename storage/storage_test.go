package storage

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"sluice/database/sqlstore"
	"sluice/internal/datadir"
	"sluice/test/testenv"
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
// Invariant 108.
func TestOpenWaitsForACommand(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	command := testenv.Must(datadir.Open(data))(t)
	ctx := &waiting{Context: t.Context(), first: func() {
		testenv.Check(t, command.Close())
	}}
	stores := testenv.Must(Open(ctx, Location{Data: data}, Options{}))(t)
	testenv.Check(t, stores.Close())
}

// TestOpenWaitsForNoServer checks that a node does not wait for another node that uses the folder,
// unless that is about to end.
func TestOpenWaitsForNoServer(t *testing.T) {
	at := Location{Data: filepath.Join(t.TempDir(), "data")}
	first := testenv.Must(Open(t.Context(), at, Options{}))(t)
	ctx := &waiting{Context: t.Context(), first: func() { t.Error("the second node waits for the first one") }}
	_, err := Open(ctx, at, Options{})
	testenv.Is(t, err, datadir.ErrServed, "a second node")
	testenv.OK(t, first.Leave())
	ctx = &waiting{Context: t.Context(), first: func() { testenv.Check(t, first.Close()) }}
	second := testenv.Must(Open(ctx, at, Options{}))(t)
	testenv.Check(t, second.Close())
}

// TestOpenMetaWaitsForAFirstStart checks that a command succeeds that is run while a server starts
// for the first time: the server has locked the folder, and then makes the database.
// Invariant 108.
func TestOpenMetaWaitsForAFirstStart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	server := testenv.Must(datadir.Open(data))(t)
	ctx := &waiting{Context: t.Context(), first: func() {
		made, err := sqlstore.OpenSQLite(server.Path(datadir.Database), sqlstore.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		testenv.Check(t, made.Close())
	}}
	stores := testenv.Must(OpenMeta(ctx, Location{Data: data}, true))(t)
	testenv.Check(t, errors.Join(stores.Close(), server.Close()))
}
