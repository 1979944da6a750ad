package dbtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

func TestBrokenDatabasesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "grants a lease to every holder", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return leasesToAll{h} }, Caught: []string{"leases/life", "leases/racing", "leases/release"}},
		{Name: "leases never expire", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return leasesForever{h} }, Caught: []string{"leases/life", "leases/racing"}},
		{Name: "renews no lease", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return &renewsNoLease{Handle: h} }, Caught: []string{"leases/life"}},
		{Name: "releases no lease", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return takesNoLeaseBack{h} }, Caught: []string{"leases/release"}},
		{Name: "replaces any value", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return replacesAny{h} }, Caught: []string{"properties/replace", "properties/racing-replaces"}},
		{Name: "has another time", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return ownTime{h} }, Caught: []string{"clock/one-time"}},
		{Name: "waits without a limit", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return waitsForever{h} }, Caught: []string{"patience/over"}},
		{Name: "forgets no node", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return joinsForever{h} }, Caught: []string{"nodes/life", "nodes/racing"}},
		{Name: "admits a node with other settings", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return asksLater{h} }, Caught: []string{"nodes/life"}},
		{Name: "removes no node", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return neverLeaves{h} }, Caught: []string{"nodes/life"}},
		{Name: "charges for a cancelled call", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return ignoresContext{h} }, Caught: []string{"blobs/cancelled"}},
	})
}

// waitsForever uses sessions regardless of the caller's patience.
type waitsForever struct{ dbtest.Handle }

func (s waitsForever) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	return s.Handle.UseSession(database.WithPatience(ctx, time.Hour), id, n, idem)
}

// replacesAny replaces a property whatever its value.
type replacesAny struct{ dbtest.Handle }

func (s replacesAny) ReplaceProperty(ctx context.Context, name, _, value string) error {
	for {
		old, err := s.Property(ctx, name)
		if err != nil {
			return err
		}
		if err := s.Handle.ReplaceProperty(ctx, name, old, value); !errors.Is(err, database.ErrNotFound) {
			return err
		}
	}
}

// ignoresContext uses a chunkset for a caller that was cancelled.
type ignoresContext struct{ dbtest.Handle }

func (s ignoresContext) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	out, err := s.Handle.UseSession(context.WithoutCancel(ctx), id, n, idem)
	return out, errors.Join(err, ctx.Err())
}
