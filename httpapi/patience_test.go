package httpapi

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/wire"
)

// patienceStore records how long each session's use may wait.
type patienceStore struct {
	whole.Database
	waited atomic.Int64
}

func (s *patienceStore) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	call := database.Await(ctx, 0)
	defer call.End()
	s.waited.Store(int64(time.Until(call.Until)))
	return s.Database.UseSession(ctx, id, n, idem)
}

// TestRequestsHaveATimeout checks how long a request may wait for the database.
func TestRequestsHaveATimeout(t *testing.T) {
	var waits *patienceStore
	s := startOver(t, func(m whole.Database) whole.Database {
		waits = &patienceStore{Database: m}
		return waits
	}, nil, nil)
	_, body := s.do(t, "POST", "/v1/sessions", `{}`)
	var session wire.Session
	testenv.OK(t, json.Unmarshal([]byte(body), &session))
	for range 2 {
		if res, body := s.do(t, "POST", "/v1/sessions/"+session.SessionID+"/use", ""); res.StatusCode != http.StatusOK {
			t.Errorf("use: %d %s", res.StatusCode, body)
		}
		if left := time.Duration(waits.waited.Swap(0)); left <= 0 || left > database.Patience {
			t.Errorf("the request may wait for %v", left)
		}
	}
}
