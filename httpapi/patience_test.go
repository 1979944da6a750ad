package httpapi

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

// patienceStore records how long each session's use may wait.
type patienceStore struct {
	whole.Database
	waited atomic.Int64
}

func (s *patienceStore) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	call := database.Await(ctx, 0)
	defer call.End()
	s.waited.Store(int64(time.Until(call.Until)))
	return s.Database.UseSession(ctx, id, n, idem)
}

// TestRequestsHaveATimeout checks how long a request may wait for the database.
// Invariant 59.
func TestRequestsHaveATimeout(t *testing.T) {
	waits := &patienceStore{}
	s := start(t, setup{around: func(m whole.Database) whole.Database {
		waits.Database = m
		return waits
	}})
	id := s.newSession(t)
	for range 2 {
		s.want(t, 200, "POST", "/v1/sessions/"+id+"/use", "")
		if left := time.Duration(waits.waited.Swap(0)); left <= 0 || left > database.Patience {
			t.Errorf("the request may wait for %v", left)
		}
	}
}
