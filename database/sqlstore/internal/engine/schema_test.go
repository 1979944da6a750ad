package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/test/testenv"
)

func connectPostgres(t *testing.T, dsn string) *postgresConn {
	t.Helper()
	c := testenv.Must(pgx.Connect(t.Context(), dsn))(t)
	t.Cleanup(func() {
		testenv.Check(t, c.Close(context.Background()))
	})
	return &postgresConn{ctx: context.Background(), conn: c}
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
	sqlite, postgres := sqliteSchema(t, lite), postgresSchema(t, post)
	// Only PostgreSQL looks up a COMMIT's outcome, limits an index entry's size, and commits in
	// another order than transactions begin.
	postgres = slices.DeleteFunc(postgres, func(line string) bool {
		return strings.HasPrefix(line, "transactions") || strings.HasPrefix(line, "changes_queue")
	})
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

// sqliteSchema returns a line for each column, key and index of a database.
func sqliteSchema(t *testing.T, c runner) []string {
	t.Helper()
	return describe(t, c, `
		SELECT CAST(m.name || '.' || c.cid || ' ' || c.name || ' ' || replace(replace(c.type, 'BLOB', 'BYTEA'), 'INTEGER', 'BIGINT')
				|| CASE WHEN c."notnull" THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || c.dflt_value, '') AS BLOB)
			FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`, `
		SELECT CAST(m.name || ' key ' || COALESCE((SELECT group_concat(c.name, ', ') FROM
				(SELECT name FROM pragma_table_info(m.name) WHERE pk > 0 ORDER BY pk) c), '') AS BLOB)
			FROM sqlite_master m WHERE m.type = 'table'`, `
		SELECT CAST(m.name || ' index ' || i.name || CASE WHEN i."unique" THEN ' UNIQUE' ELSE '' END || CASE WHEN i.partial THEN ' partial ' ELSE ' ' END
				|| (SELECT group_concat(COALESCE(c.name, 'expression'), ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno) c) AS BLOB)
			FROM sqlite_master m JOIN pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'c'`)
}

// postgresSchema is sqliteSchema for a schema of PostgreSQL.
func postgresSchema(t *testing.T, c runner) []string {
	t.Helper()
	return describe(t, c, `
		SELECT convert_to(table_name || '.' || (rank() OVER (PARTITION BY table_name ORDER BY ordinal_position) - 1) || ' ' || column_name || ' '
				|| upper(data_type) || CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END || COALESCE(' DEFAULT ' || column_default, ''), 'UTF8')
			FROM information_schema.columns WHERE table_schema = current_schema()`, `
		SELECT convert_to(c.relname || CASE WHEN i.indisprimary THEN ' key ' ELSE ' index ' || x.relname || CASE WHEN i.indisunique THEN ' UNIQUE' ELSE '' END
				|| CASE WHEN i.indpred IS NULL THEN ' ' ELSE ' partial ' END END
				|| (SELECT string_agg(pg_get_indexdef(x.oid, n, true), ', ' ORDER BY n) FROM generate_series(1, i.indnkeyatts) n), 'UTF8')
			FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
			JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = current_schema()`)
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
