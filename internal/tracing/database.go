package tracing

import "sluice/database/whole"

// Meta returns a database that starts a span for each call on behalf of a traced request.
func (t *Tracer) Meta(db whole.Database) whole.Database { return tracedDatabase{db, t} }

// tracedDatabase adds spans to the methods of the contracts that requests call. Background tasks use
// the others, such as those of database.Maintenance.
type tracedDatabase struct {
	whole.Database
	*Tracer
}

//go:generate go run ./gen
