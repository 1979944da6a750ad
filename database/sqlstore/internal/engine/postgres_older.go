package engine

import (
	"errors"
	"fmt"
	"strings"

	"sluice/database"
)

// sessionMark is the first key of an advisory lock that every session of a store shares as long as
// it is open. The second key is the schema that the store knows. Versions before this lock take
// none.
const sessionMark = 0x736c7569 // "slui"

// defaultApplication is the application_name of sessions if the DSN does not set one.
const defaultApplication = "sluice"

// errOlderNodes is a migration's error while nodes run that cannot work on its result.
var errOlderNodes = errors.New("sqlstore: nodes of an older version run")

// admitMigration implements migrator. It returns errOlderNodes, with the sessions to end, if the
// database has a schema before database.OldestSchema and others than stores of this version or a
// newer one are connected to it. Nodes of that schema cannot start once it is migrated.
func (c *postgresConn) admitMigration(have int64) error {
	if have == 0 || have >= database.OldestSchema {
		return nil
	}
	type client struct{ address, application string }
	var one client
	clients, err := Collect(&Tx{conn: c}, `
		SELECT DISTINCT convert_to(COALESCE(host(a.client_addr), 'the machine of the database'), 'UTF8'), convert_to(a.application_name, 'UTF8')
		FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.usename = session_user AND a.pid <> pg_backend_pid()
		AND (a.application_name = '`+defaultApplication+`' OR a.application_name = NULLIF(current_setting('application_name'), ''))
		AND NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.objsubid = 2
			AND CAST(l.classid AS BIGINT) = $1 AND CAST(l.objid AS BIGINT) >= $2)
		ORDER BY 1, 2 LIMIT 10`,
		Args{int64(sessionMark), int64(database.OldestSchema)}, Args{&one.address, &one.application}, &one)
	if err != nil || len(clients) == 0 {
		return err
	}
	names := make([]string, len(clients))
	for i, one := range clients {
		names[i] = fmt.Sprintf("%s (application_name %s)", one.address, one.application)
	}
	return fmt.Errorf("%w: the database has schema %d, and nodes of versions before schema %d cannot work on a newer one: stop those at %s",
		errOlderNodes, have, database.OldestSchema, strings.Join(names, ", "))
}
