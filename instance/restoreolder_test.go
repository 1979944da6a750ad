package instance

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/backup"
	"sluice/blob"
	"sluice/internal/storage"
	"sluice/internal/testenv"
)

// olderColumns are the columns that a schema has not, by their tables.
func olderColumns(schema int) map[string][]string {
	if schema < 27 {
		return map[string][]string{"blobs": {"row_sum"}, "extents": {"row_sum"}, "sessions": {"row_sum"}}
	}
	return nil
}

// asOlder copies a backup into a new repository as a version with an older schema has made it.
func asOlder(t *testing.T, from *backup.Repository, schema int) *backup.Repository {
	t.Helper()
	was := testenv.Must(from.Open(t.Context(), ""))(t)
	to := newRepository()
	ctx, w, err := to.Begin(t.Context())
	testenv.OK(t, err)
	testenv.AtEnd(t, w.Close)
	w.Reset()
	tables := w.Manifest.Tables
	w.Manifest = *was
	w.Manifest.Tables, w.Manifest.Packs, w.Manifest.Schema, w.Manifest.Program = tables, []backup.Pack{}, schema, "older"
	for i := range was.Tables {
		table := &was.Tables[i]
		if table.Name == backup.BodiesTable {
			continue
		}
		lacks := func(column string) bool { return slices.Contains(olderColumns(schema)[table.Name], column) }
		testenv.OK(t, w.Table(table.Name, slices.DeleteFunc(slices.Clone(table.Columns), lacks), table.Key))
		testenv.OK(t, from.Rows(t.Context(), table, func(rows [][]any) error {
			for _, row := range rows {
				var left []any
				for i, value := range row {
					if !lacks(table.Columns[i]) {
						left = append(left, value)
					}
				}
				if err := w.Rows([][]any{left}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	testenv.OK(t, w.EndTables())
	testenv.OK(t, w.StoreTables(ctx))
	for o, err := range from.Objects(t.Context(), was) {
		testenv.OK(t, err)
		r := testenv.Must(from.Bytes.Open(t.Context(), o.Name, 0, o.Size))(t)
		testenv.OK(t, w.Put(ctx, o.Name, o.Check(r), o.Size))
		testenv.OK(t, r.Close())
	}
	bodies := map[string][]byte{}
	testenv.OK(t, from.Bodies(t.Context(), was, func(page []backup.Body) error {
		for _, b := range page {
			bodies[fmt.Sprint(b.Key)] = b.Body
		}
		return nil
	}))
	packs := testenv.Must(w.Bodies(ctx))(t)
	testenv.OK(t, packs.Each(ctx, func(inline []any, _ bool) error { return packs.Add(ctx, inline, bodies[fmt.Sprint(inline[:3])]) }))
	testenv.OK(t, packs.End(ctx))
	testenv.Must(w.Finish(ctx))(t)
	return to
}

// TestRestoreOfAnOlderSchema restores backups with each older schema that has backups: to SQLite
// and PostgreSQL, whole and in part, after an interruption, and twice. A check finds nothing.
func TestRestoreOfAnOlderSchema(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	putSmall(t, blob.New(s.Meta, s.Bytes, blob.Options{}), "small", 3)
	testenv.OK(t, s.Close())
	current := newRepository()
	backedUp(t, data, current)
	for schema := 25; schema < storage.Schema(); schema++ {
		older := asOlder(t, current, schema)
		m := testenv.Must(older.Open(t.Context(), ""))(t)
		folder := Location{Data: filepath.Join(testenv.MemoryDir(t), "to")}
		left := 4
		_, err := Restore(t.Context(), &backup.Repository{Bytes: cutOpens{older.Bytes, &left}}, m, folder, RestoreOptions{})
		testenv.Is(t, err, errKilled, "a restore that is interrupted")
		restoreOlder(t, older, m, folder)
		again := testenv.Must(Restore(t.Context(), older, m, folder, RestoreOptions{}))(t)
		if !again.Existed {
			t.Error("a restore that was complete was repeated")
		}
		postgres := Location{Data: filepath.Join(testenv.MemoryDir(t), "to"), Meta: testenv.Postgres(t)}
		restoreOlder(t, older, m, postgres)
		_, part := restored(t, older, RestoreOptions{Account: "a", Prefix: "small"})
		testenv.Equal(t, part.Blobs, 3, "blobs in a part")
	}
	m := testenv.Must(current.Open(t.Context(), ""))(t)
	m.Schema++
	_, err := Restore(t.Context(), current, m, Location{Data: filepath.Join(testenv.MemoryDir(t), "newer")}, RestoreOptions{})
	if err == nil || !strings.Contains(err.Error(), "a newer one") {
		t.Errorf("a backup with a newer schema: %v", err)
	}
}

// restoreOlder restores a backup, checks the instance and reads its blobs.
func restoreOlder(t *testing.T, repo *backup.Repository, m *backup.Manifest, to Location) {
	t.Helper()
	result := testenv.Must(Restore(t.Context(), repo, m, to, RestoreOptions{}))(t)
	if result.Blobs != sourceBlobs+3 || result.Generation != m.Generation+1 {
		t.Errorf("schema %d: restored were %+v", m.Schema, result)
	}
	checked := testenv.Must(Check(t.Context(), to, CheckOptions{Bytes: true}))(t)
	testenv.Equal(t, checked.Found, 0, "findings after a restore of schema %d", m.Schema)
	s := testenv.Must(storage.Open(t.Context(), to, storage.Options{}))(t)
	checkSource(t, s.Meta, s.Bytes)
	checkSmall(t, s, "small2", smallBody("small", 2))
	testenv.OK(t, s.Close())
}
