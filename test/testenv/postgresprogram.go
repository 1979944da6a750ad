package testenv

// NewPostgres is StartPostgres, on the disk, for a program that is no test. The caller must call
// Remove.
func NewPostgres() (*PostgresServer, error) { return newPostgres("") }

// Remove stops the server, and removes its data.
func (s *PostgresServer) Remove() error { return s.remove() }
