package instance

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore/bytetest"
	"sluice/database"
	"sluice/storage"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// asDevelopment copies a backup into a new repository as a version before the first release has
// made it.
func asDevelopment(t *testing.T, from *backup.Repository) *backup.Repository {
	t.Helper()
	was := testenv.Must(from.Open(t.Context(), ""))(t)
	to := newRepository()
	ctx, w, err := to.Begin(t.Context())
	testenv.OK(t, err)
	testenv.AtEnd(t, w.Close)
	w.Reset()
	tables := w.Manifest.Tables
	w.Manifest = *was
	w.Manifest.Tables, w.Manifest.Packs, w.Manifest.Schema, w.Manifest.Program = tables, []backup.Pack{}, database.DevelopmentSchema, "older"
	var retained [][]any
	for i := range was.Tables {
		table := &was.Tables[i]
		if table.Name == backup.BodiesTable {
			continue
		}
		columns := slices.Clone(table.Columns)
		if table.Name == "usage_sums" {
			columns = columns[:len(columns)-1]
		}
		testenv.OK(t, w.Table(table.Name, columns, table.Key))
		testenv.OK(t, from.Rows(t.Context(), table, func(rows [][]any) error {
			for i, row := range rows {
				switch table.Name {
				case "blobs":
					developmentBlob(table, row)
				case "usage_sums":
					rows[i], retained = row[:len(columns)], append(retained, []any{row[0], row[len(columns)]})
				}
			}
			return w.Rows(rows)
		}))
	}
	testenv.OK(t, w.Table("retained_sums", []string{"owner", "retained"}, 1))
	testenv.OK(t, w.Rows(retained))
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

// developmentBlob changes a row of blobs into one with database.DevelopmentSchema.
func developmentBlob(table *backup.Table, row []any) {
	column := func(name string) *any { return &row[slices.Index(table.Columns, name)] }
	content := (*column("content")).([]byte)
	if text, ok := (*column("metadata")).([]byte); ok {
		*column("metadata") = slices.Concat(content, text)
	} else { // of an earlier content
		*column("metadata") = slices.Concat(make([]byte, len(content)), []byte("A:b\n"))
	}
	if *column("shared") == any(int64(1)) {
		*column("shared") = content
	} else {
		*column("shared") = nil
	}
}

// TestRestoreOfAnOlderSchema restores a backup of the time before the first release: to SQLite and
// PostgreSQL, whole and in part, after an interruption, and twice. A check finds nothing. Backups
// with other schemas are refused.
// Invariant 109.
func TestRestoreOfAnOlderSchema(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	putSmall(t, blob.New(s.Meta, s.Bytes, blob.Options{}), "tiny", 3)
	testenv.OK(t, newWorkload(s, "").run(t.Context()))
	testenv.Must(s.Meta.Purge(t.Context(), 1000))(t)
	testenv.OK(t, s.Close())
	current := newRepository()
	backedUp(t, data, current)
	older := asDevelopment(t, current)
	m := testenv.Must(older.Open(t.Context(), ""))(t)
	folder := Location{Data: filepath.Join(testenv.MemoryDir(t), "to")}
	_, err := Restore(t.Context(), &backup.Repository{Bytes: bytetest.Faulty{Store: older.Bytes, Point: killedAt(4, "open")}}, m, folder, RestoreOptions{})
	testenv.Is(t, err, fault.ErrFault, "a restore that is interrupted")
	restoreOlder(t, older, m, folder)
	again := testenv.Must(Restore(t.Context(), older, m, folder, RestoreOptions{}))(t)
	if !again.Existed {
		t.Error("a restore that was complete was repeated")
	}
	postgres := Location{Data: filepath.Join(testenv.MemoryDir(t), "to"), Meta: testenv.Postgres(t)}
	restoreOlder(t, older, m, postgres)
	_, part := restored(t, older, RestoreOptions{Account: "a", Prefix: "tiny"})
	testenv.Equal(t, part.Blobs, 3, "blobs in a part")
	for schema, says := range map[int]string{
		storage.Schema() + 1:           "a newer one",
		database.DevelopmentSchema - 1: "the commit 897e77e3 is the last that opens it",
	} {
		m.Schema = schema
		_, err := Restore(t.Context(), older, m, Location{Data: filepath.Join(testenv.MemoryDir(t), "refused")}, RestoreOptions{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a backup with the schema %d: %v", schema, err)
		}
	}
	testenv.Equal(t, storage.Schema(), database.OldestSchema, "the only schema that restores know besides that one")
}

// restoreOlder restores a backup, checks the instance and reads its blobs.
func restoreOlder(t *testing.T, repo *backup.Repository, m *backup.Manifest, to Location) {
	t.Helper()
	result := testenv.Must(Restore(t.Context(), repo, m, to, RestoreOptions{}))(t)
	if result.Blobs != m.Table("blobs").Rows || result.Generation != m.Generation+1 {
		t.Errorf("schema %d: restored were %+v", m.Schema, result)
	}
	checked := testenv.Must(Check(t.Context(), to, CheckOptions{Bytes: true}))(t)
	testenv.Equal(t, checked.Found, 0, "findings after a restore of schema %d", m.Schema)
	s := testenv.Must(storage.Open(t.Context(), to, storage.Options{}))(t)
	checkSource(t, s.Meta, s.Bytes)
	checkSmall(t, s, "tiny2", smallBody("tiny", 2))
	testenv.OK(t, s.Close())
}
