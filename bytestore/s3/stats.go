package s3

// Requests returns an operation's figures. Each attempt is a request. A refusal that the protocol
// expects is no error: 404, 409, 412 and 416.
func (s *Store) Requests(op Operation) RequestStats {
	c := s.requests[op]
	return RequestStats{Seconds: c.seconds, Errors: c.errors.Load()}
}

// Staged returns how many bytes the bodies that are staged have reserved, and the limit.
func (s *Store) Staged() (bytes, limit int64) {
	q := s.staging.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used, q.limit
}
