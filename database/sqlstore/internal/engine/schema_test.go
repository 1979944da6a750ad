package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testenv"
)

var updateSchema = flag.Bool("update-schema", false, "write the schemas of the migrations to testdata")

// TestSchemaIsUnchanged compares the schema that the migrations of each engine create with
// testdata, byte for byte, and the schema's hash after each of them. Databases exist with every one
// of these schemas, so a released migration never changes: a new one appends to testdata.
func TestSchemaIsUnchanged(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		c := testenv.Must(openSQLiteConn(databasePath(t), 0, nil))(t)
		defer closeConn(t, c)
		compareSchema(t, "sqlite", c, sqliteSchema)
	})
	t.Run("postgres", func(t *testing.T) {
		compareSchema(t, "postgres", connectPostgres(t, testenv.Postgres(t)), postgresSchema)
	})
}

func connectPostgres(t *testing.T, dsn string) *postgresConn {
	t.Helper()
	c := testenv.Must(pgx.Connect(t.Context(), dsn))(t)
	t.Cleanup(func() {
		testenv.Check(t, c.Close(context.Background()))
	})
	return &postgresConn{ctx: context.Background(), conn: c}
}

// withoutScripts is a connection on which no migration may run.
type withoutScripts struct{ migrator }

func (withoutScripts) script(string) error { return errors.New("a migration is run") }

func compareSchema(t *testing.T, kind string, c migrator, schema []string) {
	t.Helper()
	list := listMigrations(t, "migrations/"+kind)
	var got, hashes strings.Builder
	for i := range list {
		testenv.OK(t, migrate(c, list[:i+1]))
		got.Reset()
		for _, query := range schema {
			if i < 2 && strings.Contains(query, "keys_version") {
				continue // the third migration creates the table
			}
			for _, line := range describe(t, c, query) {
				got.WriteString(line + "\n")
			}
		}
		fmt.Fprintf(&hashes, "-- version %d: SHA-256 %x\n", i+1, sha256.Sum256([]byte(got.String())))
	}
	got.WriteString(hashes.String())
	testenv.Is(t, migrate(withoutScripts{c}, list), nil, "a database of this version is migrated again")
	golden := filepath.Join("testdata", "schema_"+kind+".txt")
	if *updateSchema {
		testenv.OK(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want := testenv.Must(os.ReadFile(golden))(t)
	if got.String() != string(want) {
		t.Errorf("the schema is not the one of %s but\n%s", golden, got.String())
	}
}

// sqliteSchema are queries for the whole schema as SQLite stores it, and for the rows that
// migrations insert.
var sqliteSchema = []string{
	`SELECT CAST(type || ' ' || name || ' of ' || tbl_name || char(10) || COALESCE(sql, 'automatic') || char(10) AS BLOB)
		FROM sqlite_master ORDER BY type, name`,
	`SELECT CAST('keys_version ' || version AS BLOB) FROM keys_version`,
	`SELECT CAST('schema_version ' || version AS BLOB) FROM schema_version ORDER BY version`,
}

// postgresSchema are queries for PostgreSQL's current schema, namely columns, constraints, indexes,
// triggers and functions, and for the rows that migrations insert.
var postgresSchema = []string{
	`SELECT convert_to(format('%s.%s %s %s%s %s', table_name, column_name, ordinal_position, data_type,
			CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END, COALESCE('DEFAULT ' || column_default, 'no default')), 'UTF8')
		FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY table_name COLLATE "C", ordinal_position`,
	`SELECT convert_to(format('%s %s %s', c.relname, n.conname, pg_get_constraintdef(n.oid)), 'UTF8')
		FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE s.nspname = current_schema() AND n.contype IN ('p', 'u', 'c', 'f') ORDER BY c.relname COLLATE "C", n.conname COLLATE "C"`,
	`SELECT convert_to(replace(indexdef, current_schema() || '.', ''), 'UTF8')
		FROM pg_indexes WHERE schemaname = current_schema() ORDER BY indexname COLLATE "C"`,
	`SELECT convert_to(replace(pg_get_triggerdef(g.oid), current_schema() || '.', ''), 'UTF8')
		FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE s.nspname = current_schema() AND NOT g.tgisinternal ORDER BY g.tgname COLLATE "C"`,
	`SELECT convert_to(replace(pg_get_functiondef(f.oid), current_schema() || '.', ''), 'UTF8')
		FROM pg_proc f JOIN pg_namespace s ON s.oid = f.pronamespace WHERE s.nspname = current_schema() ORDER BY f.proname COLLATE "C"`,
	`SELECT convert_to('keys_version ' || version, 'UTF8') FROM keys_version`,
	`SELECT convert_to('schema_version ' || version, 'UTF8') FROM schema_version ORDER BY version`,
}

// TestEnginesHaveTheSameSchema compares the tables of both engines: their columns in
// order, with their types, constraints and defaults, and the columns of their keys and
// indexes. Sessions are a view on SQLite, so that only their columns' names are compared.
func TestEnginesHaveTheSameSchema(t *testing.T) {
	lite := testenv.Must(openSQLiteConn(databasePath(t), 0, nil))(t)
	defer closeConn(t, lite)
	post := connectPostgres(t, testenv.Postgres(t))
	list := listMigrations(t, sqliteMigrations)
	testenv.Equal(t, len(listMigrations(t, postgresMigrations)), len(list), "migrations of PostgreSQL")
	testenv.OK(t, errors.Join(migrate(lite, list), migrate(post, listMigrations(t, postgresMigrations))))
	sqlite := describe(t, lite, `
		SELECT CAST(m.name || '.' || c.cid || ' ' || c.name || ' ' || replace(c.type, 'BLOB', 'BYTEA')
				|| CASE WHEN c."notnull" THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || c.dflt_value, '') AS BLOB)
			FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`, `
		SELECT CAST(m.name || ' key ' || (SELECT group_concat(c.name, ', ') FROM
				(SELECT name FROM pragma_table_info(m.name) WHERE pk > 0 ORDER BY pk) c) AS BLOB)
			FROM sqlite_master m WHERE m.type = 'table'`, `
		SELECT CAST(m.name || ' index ' || i.name || CASE WHEN i."unique" THEN ' UNIQUE' ELSE '' END || CASE WHEN i.partial THEN ' partial ' ELSE ' ' END
				|| (SELECT group_concat(COALESCE(c.name, 'expression'), ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno) c) AS BLOB)
			FROM sqlite_master m JOIN pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'c'`)
	postgres := describe(t, post, `
		SELECT convert_to(table_name || '.' || (rank() OVER (PARTITION BY table_name ORDER BY ordinal_position) - 1) || ' ' || column_name || ' '
				|| upper(data_type) || CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || column_default, ''), 'UTF8')
			FROM information_schema.columns WHERE table_schema = current_schema()`, `
		SELECT convert_to(c.relname || CASE WHEN i.indisprimary THEN ' key ' ELSE ' index ' || x.relname || CASE WHEN i.indisunique THEN ' UNIQUE' ELSE '' END
				|| CASE WHEN i.indpred IS NULL THEN ' ' ELSE ' partial ' END END
				|| (SELECT string_agg(pg_get_indexdef(x.oid, n, true), ', ' ORDER BY n) FROM generate_series(1, i.indnkeyatts) n), 'UTF8')
			FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
			JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = current_schema()`)
	// Only PostgreSQL looks up a COMMIT's outcome, and limits an index entry's size.
	postgres = slices.DeleteFunc(postgres, func(line string) bool { return strings.HasPrefix(line, "transactions") })
	for i := range postgres {
		postgres[i] = strings.Replace(postgres[i], "sha256(name_head)", "name_head", 1)
		postgres[i] = strings.Replace(postgres[i], "substr(name, 1, 512)", "expression", 1) // SQLite names none
	}
	sessions := func(line string) bool {
		return strings.HasPrefix(line, "sessions") || strings.HasPrefix(line, "session_")
	}
	sqlite, postgres = slices.DeleteFunc(sqlite, sessions), slices.DeleteFunc(postgres, sessions)
	testenv.Equal(t, strings.Join(describe(t, lite, `SELECT CAST(name AS BLOB) FROM pragma_table_info('sessions') ORDER BY cid`), ", "), strings.Join(describe(t, post, `
		SELECT convert_to(column_name, 'UTF8') FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = 'sessions' ORDER BY ordinal_position`), ", "), "columns of sessions")
	if len(sqlite) < 150 {
		t.Errorf("only %d columns, keys and indexes were found", len(sqlite))
	}
	for _, line := range sqlite {
		if !slices.Contains(postgres, line) {
			t.Errorf("only SQLite has %s", line)
		}
	}
	for _, line := range postgres {
		if !slices.Contains(sqlite, line) {
			t.Errorf("only PostgreSQL has %s", line)
		}
	}
}

// describe returns the rows of queries.
func describe(t *testing.T, c runner, queries ...string) []string {
	t.Helper()
	var lines []string
	for _, query := range queries {
		var line string
		testenv.OK(t, (&Tx{conn: c}).Each(query, nil, Args{&line}, func() error {
			lines = append(lines, line)
			return nil
		}))
	}
	return lines
}
