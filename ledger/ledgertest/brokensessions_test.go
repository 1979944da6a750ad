package ledgertest_test

import (
	"context"
	"errors"
	"testing"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

func TestBrokenSessionsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "charges twice", Break: dbtest.Broken[chargesTwice], Caught: []string{"sessions/use", "sessions/racing-uses"}},
		{Name: "both get the last chunkset", Break: dbtest.Broken[losesCharge], Caught: []string{"sessions/last-chunkset", "sessions/racing-uses"}},
		{Name: "ignores the idempotency key", Break: dbtest.Broken[noIdempotency], Caught: []string{"idempotency/use", "idempotency/create", "idempotency/racing"}},
		{Name: "forgets the hash of the request", Break: dbtest.Broken[noHash], Caught: []string{"idempotency/hash"}},
	})
}

type chargesTwice struct{ dbtest.Correct }

func (s chargesTwice) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	out, err := s.Correct.UseSession(ctx, id, n, idem)
	if err != nil {
		return out, err
	}
	again, err := s.Correct.UseSession(ctx, id, n, nil)
	if err != nil { // nothing left for the second charge
		return out, nil
	}
	return again, nil
}

// losesCharge reads, and writes a result computed from that, so a concurrent charge is lost.
type losesCharge struct{ dbtest.Correct }

func (s losesCharge) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	before, err := s.Session(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Correct.UseSession(ctx, id, n, idem)
	if errors.Is(err, ledger.ErrExhausted) && before.Left > 0 {
		before.Left -= n
		return before, nil
	}
	return out, err
}

type noIdempotency struct{ dbtest.Correct }

func (s noIdempotency) UseSession(ctx context.Context, id string, n int64, _ *database.Idempotency) (ledger.Session, error) {
	return s.Correct.UseSession(ctx, id, n, nil)
}

func (s noIdempotency) CreateSession(ctx context.Context, session ledger.Session, _ *database.Idempotency) (ledger.Session, error) {
	return s.Correct.CreateSession(ctx, session, nil)
}

// noHash replays an outcome to any request with the key.
type noHash struct{ dbtest.Correct }

func (s noHash) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	if idem != nil {
		idem = &database.Idempotency{Scope: idem.Scope, Key: idem.Key}
	}
	return s.Correct.UseSession(ctx, id, n, idem)
}
