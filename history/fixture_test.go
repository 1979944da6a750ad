package history_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database/dbtest"
	"sluice/database/sqlstore"
	"sluice/test/testenv"
)

var errResponse = errors.New("no response")

// fixture is a database, and bytes, that a test binds together.
type fixture struct {
	meta  *metaFile
	bytes *memory.Store
}

// template is an empty database.
var template dbtest.Template

func openSQLite(path string, now func() time.Time) (dbtest.Handle, error) {
	return sqlstore.OpenSQLite(path, sqlstore.Options{Now: now})
}

// metaFile is a database that can be copied.
type metaFile struct {
	*sqlstore.Store
	path string
}

// openMeta opens an empty database in a synctest bubble.
func openMeta(t *testing.T) *metaFile {
	t.Helper()
	return openFile(t, template.Copy(t, openSQLite))
}

func openFile(t *testing.T, path string) *metaFile {
	t.Helper()
	s := testenv.Must(sqlstore.OpenSQLite(path, sqlstore.Options{}))(t)
	testenv.AtEnd(t, s.Close)
	return &metaFile{s, path}
}

// copyOf copies a database.
func copyOf(t *testing.T, meta *metaFile) *metaFile {
	t.Helper()
	path := filepath.Join(testenv.MemoryDir(t), "copy.db")
	db := testenv.Must(sql.Open("sqlite", meta.path))(t)
	_, err := db.ExecContext(t.Context(), "VACUUM INTO '"+path+"'")
	testenv.OK(t, errors.Join(err, db.Close()))
	return openFile(t, path)
}

// recordName names a record's object.
func recordName(number int) bytestore.Name {
	return bytestore.Name(fmt.Sprintf("sluice-history-%016x", number))
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{meta: openMeta(t), bytes: memory.New()}
}

// put stores a blob that is an object.
func (f *fixture) put(t *testing.T) {
	t.Helper()
	s := blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1})
	testenv.Must(s.Put(t.Context(), blob.PutOptions{Account: "a", Name: "n"}, strings.NewReader("x"), 1))(t)
}

// orphan stores an object to which nothing refers.
func (f *fixture) orphan(t *testing.T) {
	t.Helper()
	testenv.OK(t, f.bytes.Put(t.Context(), bytestore.NewName(time.Now()), strings.NewReader("x"), 1))
}

// objects returns the number of objects.
func (f *fixture) objects(t *testing.T) (n int) {
	t.Helper()
	testenv.OK(t, f.bytes.List(t.Context(), "", func(bytestore.Object) error { n++; return nil }))
	return n
}

// brokenList is a byte store that fails at the end of List.
type brokenList struct{ *memory.Store }

func (s brokenList) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return errors.Join(s.Store.List(ctx, after, fn), errResponse)
}
