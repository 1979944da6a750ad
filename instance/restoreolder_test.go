package instance

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/access/keys"
	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore/bytetest"
	"sluice/database"
	"sluice/storage"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// versionsSchema is the schema since which blobs have versions, and webhooksSchema the one since
// which there are webhooks. Others have the backups of those before them.
const (
	versionsSchema = 33
	webhooksSchema = 36
)

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
	var retained [][]any
	for i := range was.Tables {
		table := &was.Tables[i]
		if table.Name == backup.BodiesTable || schema < versionsSchema && (table.Name == "keeping" || table.Name == "rules") || table.Name == "webhooks" {
			continue
		}
		columns := slices.Clone(table.Columns)
		unversioned := schema < versionsSchema && columns[len(columns)-1] == "version" && table.Name != "aliases_version" && len(columns) > 3
		if unversioned {
			columns = columns[:len(columns)-1]
		}
		development := schema == database.DevelopmentSchema
		if table.Name == "usage_sums" && development {
			columns = columns[:len(columns)-1]
		}
		grants := slices.Index(columns, "grants")
		ungrant := table.Name == "api_keys" && schema < grantsSchema
		if ungrant {
			columns = slices.Replace(columns, grants, grants+1, "scopes", "accounts")
		}
		testenv.OK(t, w.Table(table.Name, columns, table.Key))
		testenv.OK(t, from.Rows(t.Context(), table, func(rows [][]any) error {
			for i, row := range rows {
				if unversioned {
					row = row[:len(columns)]
					rows[i] = row
				}
				switch {
				case ungrant:
					rows[i] = slices.Replace(row, grants, grants+1, ungranted(t, row[grants])...)
				case !development:
				case table.Name == "blobs":
					developmentBlob(table, row)
				case table.Name == "usage_sums":
					rows[i], retained = row[:len(columns)], append(retained, []any{row[0], row[len(columns)]})
				}
			}
			return w.Rows(rows)
		}))
	}
	if schema == database.DevelopmentSchema {
		testenv.OK(t, w.Table("retained_sums", []string{"owner", "retained"}, 1))
		testenv.OK(t, w.Rows(retained))
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

// ungranted returns the columns scopes and accounts of a key with one grant of all names, or none.
func ungranted(t *testing.T, grants any) []any {
	t.Helper()
	if grants == nil {
		return []any{nil, nil}
	}
	var list []struct{ Scopes, Accounts json.RawMessage }
	testenv.OK(t, json.Unmarshal(grants.([]byte), &list))
	columns := []any{[]byte(list[0].Scopes), nil}
	if string(list[0].Accounts) != "null" {
		columns[1] = []byte(list[0].Accounts)
	}
	return columns
}

// olderKeys are keys of versions before grants.
var olderKeys = []keys.Key{
	{ID: "all", Group: "g", Grants: []keys.Grant{{Scopes: []string{"read"}}}},
	{ID: "none", Group: "g"},
	{ID: "some", Group: "g", Grants: []keys.Grant{{Scopes: []string{"read", "\xff"}, Accounts: []string{"a", "b"}}}},
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

// TestRestoreOfAnOlderSchema restores backups of each older schema: to SQLite and PostgreSQL, whole
// and in part, after an interruption, and twice. A check finds nothing. Backups with other schemas
// are refused.
// Invariant 109.
func TestRestoreOfAnOlderSchema(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	putSmall(t, blob.New(s.Meta, s.Bytes, blob.Options{}), "tiny", 3)
	testenv.OK(t, newWorkload(s, "").run(t.Context()))
	testenv.Must(s.Meta.Purge(t.Context(), 1000))(t)
	for _, k := range olderKeys {
		testenv.Must(s.Meta.CreateKey(t.Context(), k, nil, nil))(t)
	}
	testenv.OK(t, s.Close())
	current := newRepository()
	backedUp(t, data, current)
	for _, schema := range []int{database.DevelopmentSchema, database.OldestSchema, grantsSchema, versionsSchema, webhooksSchema - 1} {
		older := asOlder(t, current, schema)
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
	}
	m := testenv.Must(current.Open(t.Context(), ""))(t)
	for schema, says := range map[int]string{
		storage.Schema() + 1:           "a newer one",
		database.DevelopmentSchema - 1: "the commit 897e77e3 is the last that opens it",
	} {
		m.Schema = schema
		_, err := Restore(t.Context(), current, m, Location{Data: filepath.Join(testenv.MemoryDir(t), "refused")}, RestoreOptions{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a backup with the schema %d: %v", schema, err)
		}
	}
	testenv.Equal(t, storage.Schema(), webhooksSchema, "the schema of which the tests restore all older ones")
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
	for _, want := range olderKeys {
		if k := testenv.Must(s.Meta.Key(t.Context(), want.ID))(t); !reflect.DeepEqual(k.Grants, want.Grants) {
			t.Errorf("the key %s has the grants %+v", k.ID, k.Grants)
		}
	}
	testenv.OK(t, s.Close())
}
