package instance

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"sluice/backup"
	"sluice/database"
	"sluice/storage"
)

// Backups of earlier versions have earlier schemas. Before grantsSchema, a key had scopes and
// accounts in place of its grants. Backups of versions before the first release have the schema
// database.DevelopmentSchema. In its blobs the columns metadata and shared begin with the id of the
// row's content, and are void for another content, and the table retained_sums has a sum that the
// table usage has here.

// grantsSchema is the schema since which keys have grants.
const grantsSchema = 32

// checkSchema returns an error if this version cannot load a backup's rows.
func checkSchema(m *backup.Manifest) error {
	switch own := storage.Schema(); {
	case m.Schema > own:
		return fmt.Errorf("the backup has schema %d, and this version knows those up to %d: restore it with the version %s or a newer one", m.Schema, own, m.Program)
	case m.Schema < database.DevelopmentSchema:
		return fmt.Errorf("the backup has schema %d: restore it with the version %s, and the instance %s", m.Schema, m.Program, database.CarryOver)
	}
	return nil
}

// rowsOf calls fn with pages of a table's rows, as loadedTable has them.
func rowsOf(ctx context.Context, repo *backup.Repository, m *backup.Manifest, t *backup.Table, fn func(rows [][]any) error) error {
	return repo.Rows(ctx, t, func(rows [][]any) error {
		if m.Schema < database.OldestSchema {
			convert(t, rows)
		}
		if m.Schema < grantsSchema && t.Name == "api_keys" {
			for i := range rows {
				rows[i] = withGrants(t, rows[i])
			}
		}
		return fn(rows)
	})
}

// loadedTable returns the table in which the rows of a backup's table are loaded.
func loadedTable(t *backup.Table) storage.Table {
	if t.Name == "retained_sums" {
		return storage.Table{Name: "usage", Columns: []string{"owner", "id", "bytes", "uploads", "retained"}, Key: 2}
	}
	columns := t.Columns
	if at := slices.Index(columns, "scopes"); t.Name == "api_keys" && at >= 0 {
		columns = slices.DeleteFunc(slices.Clone(columns), func(name string) bool { return name == "accounts" })
		columns[at] = "grants"
	}
	return storage.Table{Name: t.Name, Columns: columns, Key: t.Key}
}

// withGrants returns a row of keys before grantsSchema as loadedTable has it: with one grant of all
// names, in JSON like its two columns.
func withGrants(t *backup.Table, row []any) []any {
	scopes, accounts := slices.Index(t.Columns, "scopes"), slices.Index(t.Columns, "accounts")
	if text, ok := row[scopes].([]byte); ok {
		of, limited := row[accounts].([]byte)
		if !limited {
			of = []byte("null")
		}
		row[scopes] = fmt.Appendf(nil, `[{"scopes":%s,"accounts":%s}]`, text, of)
	}
	return slices.Delete(row, accounts, accounts+1)
}

// convert changes rows of a table with database.DevelopmentSchema.
func convert(t *backup.Table, rows [][]any) {
	switch t.Name {
	case "blobs":
		content, metadata, shared := slices.Index(t.Columns, "content"), slices.Index(t.Columns, "metadata"), slices.Index(t.Columns, "shared")
		for _, row := range rows {
			id, _ := row[content].([]byte)
			text, _ := row[metadata].([]byte)
			of, _ := row[shared].([]byte)
			row[metadata], row[shared] = nil, int64(0)
			if text, ok := bytes.CutPrefix(text, id); ok {
				row[metadata] = text
			}
			if bytes.Equal(of, id) {
				row[shared] = int64(1)
			}
		}
	case "retained_sums":
		for i, row := range rows {
			rows[i] = []any{row[0], make([]byte, 16), int64(0), int64(0), row[1]}
		}
	}
}
