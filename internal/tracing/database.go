package tracing

import "sluice/database/whole"

// Meta returns a database that starts a span for each call that a traced request makes.
func (t *Tracer) Meta(db whole.Database) whole.Database { return tracedDatabase{db, t} }

// tracedDatabase adds spans to the contracts' methods that requests call. Only background tasks and
// commands use the other contracts, such as database.Maintenance.
type tracedDatabase struct {
	whole.Database
	*Tracer
}

//go:generate go run ./gen
