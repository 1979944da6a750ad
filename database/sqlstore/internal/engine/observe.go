package engine

// Observe calls see before each statement that runs from now on, until the function that it returns
// is called. It is for tests that count or examine statements.
func (t *Tx) Observe(see func(query string, in Args)) (end func()) {
	conn := t.conn
	t.conn = observed{conn, see}
	return func() { t.conn = conn }
}

// observed is a runner that sees statements before they run.
type observed struct {
	runner
	see func(query string, in Args)
}

func (o observed) exec(query string, in Args) (int64, error) {
	o.see(query, in)
	return o.runner.exec(query, in)
}

func (o observed) change(query string, in Args) error {
	o.see(query, in)
	return o.runner.change(query, in)
}

func (o observed) query(query string, in Args) (cursor, error) {
	o.see(query, in)
	return o.runner.query(query, in)
}

func (o observed) lock(kind string, name []string) error {
	if o.forUpdate() != "" { // where there are no concurrent writers, a lock needs no statement
		o.see("SELECT pg_advisory_xact_lock()", nil)
	}
	return o.runner.lock(kind, name)
}
