package money

// sessionStatements are the statements on sessions that differ between the engines. On SQLite
// sessions is a view of session_terms and session_counts. A statement that changes a view does not
// return the number of changed rows, and a use must write only the counts.
type sessionStatements struct {
	// add inserts an unused session, unless its id exists.
	add string
	// take uses $2 of a session's chunksets if it has not ended at $3 and has so many left.
	take string
	// takeIfUnchanged is take if the session is as in the other parameters.
	takeIfUnchanged string
	// purge deletes sessions without sales after the end of their retention.
	purge string
}

var postgresSessions = sessionStatements{
	add: `INSERT INTO sessions (id, user_identity, channel, total, remaining, used, created, expires, row_sum)
		VALUES ($1, $2, $3, $4, $4, 0, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
	take: `UPDATE sessions SET remaining = remaining - $2, used = used + $2 WHERE id = $1 AND remaining >= $2 AND expires > $3`,
	takeIfUnchanged: `UPDATE sessions SET remaining = remaining - $2, used = used + $2
		WHERE id = $1 AND remaining = $3 AND used = $4 AND total = $5 AND created = $6`,
	purge: `DELETE FROM sessions AS e WHERE id IN ` + endedSessions + ` AND NOT EXISTS (SELECT 1 FROM sales s WHERE s.session = e.id)`,
}

var sqliteSessions = sessionStatements{
	// A trigger inserts the counts.
	add: `INSERT INTO session_terms (id, counts, user_identity, channel, total, created, expires, row_sum)
		VALUES ($1, (SELECT COALESCE(MAX(n), 0) + 1 FROM session_counts), $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
	take: `UPDATE session_counts SET remaining = remaining - $2, used = used + $2
		WHERE n = (SELECT counts FROM session_terms WHERE id = $1 AND expires > $3) AND remaining >= $2`,
	takeIfUnchanged: `UPDATE session_counts SET remaining = remaining - $2, used = used + $2
		WHERE n = (SELECT counts FROM session_terms WHERE id = $1 AND total = $5 AND created = $6) AND remaining = $3 AND used = $4`,
	purge: `DELETE FROM session_terms AS e WHERE id IN ` + endedSessions + ` AND NOT EXISTS (SELECT 1 FROM sales s WHERE s.session = e.id)`,
}

func (t tx) sessionStatements() *sessionStatements {
	if t.Embedded() {
		return &sqliteSessions
	}
	return &postgresSessions
}
