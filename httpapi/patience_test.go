package httpapi

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/metastore"
	"sluice/wire"
)

// patienceStore records how long each session's use may wait.
type patienceStore struct {
	metastore.Store
	waited atomic.Int64
}

func (s *patienceStore) UseSession(ctx context.Context, id string, n int64, idem *metastore.Idempotency) (metastore.Session, error) {
	call := metastore.Await(ctx, 0)
	defer call.End()
	s.waited.Store(int64(time.Until(call.Until)))
	return s.Store.UseSession(ctx, id, n, idem)
}

// TestRequestsHaveATimeout checks how long a request may wait for the database.
func TestRequestsHaveATimeout(t *testing.T) {
	var waits *patienceStore
	s := startOver(t, func(m metastore.Store) metastore.Store {
		waits = &patienceStore{Store: m}
		return waits
	}, nil, nil)
	_, body := s.do(t, "POST", "/v1/sessions", `{}`)
	var session wire.Session
	if err := json.Unmarshal([]byte(body), &session); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if res, body := s.do(t, "POST", "/v1/sessions/"+session.SessionID+"/use", ""); res.StatusCode != http.StatusOK {
			t.Errorf("use: %d %s", res.StatusCode, body)
		}
		if left := time.Duration(waits.waited.Swap(0)); left <= 0 || left > metastore.Patience {
			t.Errorf("the request may wait for %v", left)
		}
	}
}
