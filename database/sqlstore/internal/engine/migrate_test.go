package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// madeUp are migrations to the schemas 31 to 33.
var madeUp = []migration{
	{31, `CREATE TABLE one (x BIGINT)`},
	{32, `CREATE TABLE two (x BIGINT); INSERT INTO two SELECT x FROM one`},
	{33, `CREATE TABLE three (x BIGINT)`},
}

// onConnections runs a test on an empty database of each engine. tables counts the tables that
// checkVersion looks for.
func onConnections(t *testing.T, test func(t *testing.T, c migrator, tables string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		c := testenv.Must(openSQLiteConn(databasePath(t), 0, nil))(t)
		defer closeConn(t, c)
		test(t, c, sqliteVersionTables)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, connectPostgres(t, testenv.Postgres(t)), postgresVersionTables)
	})
}

// TestMigrates applies migrations that a database lacks, once each and in order.
// Invariant 109.
func TestMigrates(t *testing.T) {
	onConnections(t, func(t *testing.T, c migrator, _ string) {
		testenv.OK(t, migrate(c, madeUp[:1]))
		testenv.OK(t, c.script(`INSERT INTO one VALUES (7)`))
		for range 2 {
			testenv.OK(t, migrate(c, madeUp))
		}
		var x Integer
		found := testenv.Must((&Tx{conn: c}).Row(`SELECT x FROM two`, nil, &x))(t)
		if !found || x != 7 {
			t.Errorf("the second migration found %d, %t", x, found)
		}
		for version, want := range map[int64]error{database.OldestSchema + 3: database.ErrNewer, database.OldestSchema - 1: database.ErrOlder} {
			testenv.OK(t, c.script(fmt.Sprintf(`DELETE FROM schema_version; INSERT INTO schema_version VALUES (%d)`, version)))
			testenv.Is(t, migrate(c, madeUp), want, "migrating from schema %d", version)
		}
	})
}

// TestSchemasThatOpen checks which schemas may be opened, changed and created.
// Invariant 109.
func TestSchemasThatOpen(t *testing.T) {
	const first, last = database.OldestSchema, database.OldestSchema + 2
	onConnections(t, func(t *testing.T, c migrator, tables string) {
		check := func(have int64, want map[SchemaChange]error) {
			t.Helper()
			for change, err := range want {
				v, got := checkVersion(c, madeUp, change, tables)
				testenv.Is(t, got, err, "opening the schema %d with the change %d", have, change)
				if err == nil {
					testenv.Equal(t, v, versions{have, last}, "the versions")
				}
			}
		}
		none := map[SchemaChange]error{Migrate: nil, Create: nil, Keep: database.ErrOlder}
		check(0, none)
		testenv.OK(t, migrate(c, madeUp))
		for version, want := range map[int64]map[SchemaChange]error{
			1:                          {Migrate: database.ErrOlder, Create: database.ErrOlder, Keep: database.ErrOlder},
			database.DevelopmentSchema: {Migrate: database.ErrOlder, Create: database.ErrOlder, Keep: database.ErrOlder},
			first:                      {Migrate: nil, Create: database.ErrOlder, Keep: database.ErrOlder},
			last:                       {Migrate: nil, Create: nil, Keep: nil},
			last + 1:                   {Migrate: database.ErrNewer, Create: database.ErrNewer, Keep: database.ErrNewer},
		} {
			testenv.OK(t, c.script(fmt.Sprintf(`DELETE FROM schema_version; INSERT INTO schema_version VALUES (%d)`, version)))
			check(version, want)
			_, err := checkVersion(c, madeUp, Migrate, tables)
			if version < first && !strings.Contains(err.Error(), "the commit 897e77e3 is the last that opens it") {
				t.Errorf("the schema %d is refused: %v", version, err)
			}
		}
	})
}

// TestRefusedSchemasAreKept opens databases with schemas that this version does not open, and finds
// them as they were.
// Invariant 109.
func TestRefusedSchemasAreKept(t *testing.T) {
	refused := map[int64]error{database.DevelopmentSchema: database.ErrOlder, 1000: database.ErrNewer}
	for version, want := range refused {
		one := `DELETE FROM schema_version WHERE version < (SELECT MAX(version) FROM schema_version)`
		insert := fmt.Sprintf(`UPDATE schema_version SET version = %d`, version)
		path, dsn := databasePath(t), testenv.Postgres(t)
		lite := testenv.Must(openDB(path, Options{}))(t)
		execute(t, lite, one)
		execute(t, lite, insert)
		testenv.OK(t, lite.Close())
		testenv.Is(t, testenv.Error(openDB(path, Options{})), want, "schema %d on SQLite", version)
		post, _ := openNode(t, dsn)
		execute(t, post, one)
		execute(t, post, insert)
		testenv.Is(t, testenv.Error(openNodeDB(t.Context(), dsn, Options{})), want, "schema %d on PostgreSQL", version)
		holds(t, post, version, `SELECT MAX(version) FROM schema_version`)
	}
}

// TestMigrationIsOneTransaction makes the second of two migrations fail: neither may have an
// effect.
// Invariant 109.
func TestMigrationIsOneTransaction(t *testing.T) {
	path := databasePath(t)
	c := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, c)
	broken := migration{database.OldestSchema + 1, "CREATE TABLE more (x BIGINT); CREATE TABLE more (x BIGINT);"}
	testenv.OK(t, c.run(sqliteBegin))
	if err := migrate(c, slices.Concat(madeUp[:1], []migration{broken})); err == nil {
		t.Fatal("a broken migration succeeded")
	}
	testenv.OK(t, c.run("ROLLBACK"))
	var tables Integer
	if _, err := (&Tx{conn: c}).Row(`SELECT COUNT(*) FROM sqlite_master`, nil, &tables); err != nil || tables != 0 {
		t.Fatalf("%d tables and indexes left, error %v", tables, err)
	}
	openAt(t, path, Options{})
}

// TestMigratesAlone migrates a database with running nodes to a schema beside which they must not
// run: it is refused as long as one of them is within its time. Afterwards none of them joins.
// Invariant 194.
func TestMigratesAlone(t *testing.T) {
	c := connectPostgres(t, testenv.Postgres(t))
	list := listMigrations(t, postgresMigrations)
	testenv.OK(t, migrate(c, list[:1]))
	const join = `INSERT INTO nodes (id, settings, expires) VALUES ('%s', '{}', %s)`
	testenv.OK(t, c.script(fmt.Sprintf(join, "killed", postgresMicros+" - 1")))
	testenv.OK(t, c.script(fmt.Sprintf(join, "running", postgresMicros+" + 30000000")))
	attempt := func() error {
		testenv.OK(t, c.script("BEGIN"))
		if err := migrate(c, list); err != nil {
			c.rollback()
			return err
		}
		return c.script("COMMIT")
	}
	testenv.Is(t, attempt(), database.ErrNodesRun, "beside a node")
	testenv.Equal(t, testenv.Must((&Tx{conn: c}).schemaVersion())(t), database.OldestSchema, "the schema after a refusal")
	testenv.OK(t, c.script(`DELETE FROM nodes WHERE id = 'running'`))
	testenv.OK(t, attempt())
	if err := c.script(fmt.Sprintf(join, "older", postgresMicros+" + 30000000")); err == nil {
		t.Error("a node of an earlier version joined afterwards")
	}
	testenv.OK(t, attempt())
}

// TestMigratesGrants brings keys of the first release to the schema in which they have grants.
// Invariant 194.
func TestMigratesGrants(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			c, list := d.open(t), listMigrations(t, d.migrations)
			testenv.OK(t, migrate(c, list[:1]))
			for i, columns := range []string{`NULL, NULL`, `'["cmVhZA=="]', NULL`, `'["cmVhZA=="]', '[]'`, `'["cmVhZA=="]', '["YQ=="]'`} {
				testenv.OK(t, c.script(fmt.Sprintf(`INSERT INTO api_keys (id, hash, label, scopes, accounts, key_group, created) VALUES ('%d', '', '', %s, '', 1)`, i, columns)))
			}
			testenv.OK(t, c.script(`UPDATE keys_version SET version = 9223372036854775807`))
			testenv.OK(t, migrate(c, list))
			for i, want := range []string{"", `[{"scopes":["cmVhZA=="],"accounts":null}]`, `[{"scopes":["cmVhZA=="],"accounts":[]}]`, `[{"scopes":["cmVhZA=="],"accounts":["YQ=="]}]`} {
				var grants []byte
				_, err := (&Tx{conn: c}).Row(fmt.Sprintf(`SELECT grants FROM api_keys WHERE id = CAST('%d' AS %s)`, i, map[string]string{"SQLite": "TEXT", "PostgreSQL": "BYTEA"}[name]), nil, &grants)
				testenv.OK(t, err)
				testenv.Equal(t, string(grants), want, "the grants of key %d", i)
			}
			var version Integer
			testenv.Must((&Tx{conn: c}).Row(`SELECT version FROM keys_version`, nil, &version))(t)
			testenv.Equal(t, version, -9223372036854775808, "the version of the keys")
		})
	}
}
