package dbtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

// Invariant 138.
func TestBrokenDatabasesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "records have one nonce", Schema: dbtest.On(`AFTER INSERT ON records`, `UPDATE records SET nonce = x'61616161616161616161616161616161'`), Caught: []string{"history/records"}},
		{Name: "records have one owner", Schema: dbtest.On(`AFTER INSERT ON records`, `UPDATE records SET owner = x'61616161616161616161616161616161'`), Caught: []string{"history/records"}},
		{Name: "every record is outside", Schema: dbtest.On(`AFTER INSERT ON records`, `UPDATE records SET outside = 1`), Caught: []string{"history/records"}},
		{Name: "forgets the last record", Schema: dbtest.On(`AFTER INSERT ON records`, `DELETE FROM records WHERE number = NEW.number - 1`), Caught: []string{"history/records"}},
		{Name: "does not store some records", Schema: `CREATE TRIGGER broken BEFORE INSERT ON records WHEN NEW.number = 3 BEGIN SELECT RAISE(IGNORE); END`, Caught: []string{"history/racing"}},
		{Name: "retains one record too few", Schema: dbtest.On(`AFTER INSERT ON records`, `DELETE FROM records WHERE number <= NEW.number - 999`), Caught: []string{"history/retained"}},
		{Name: "a second setback replaces the first", Schema: dbtest.On(`AFTER UPDATE OF set_back ON history WHEN CAST(NEW.set_back AS TEXT) LIKE '%another%'`, `UPDATE history SET set_back = CAST('another' AS BLOB)`), Caught: []string{"history/setback"}},
		{Name: "a release has no effect", Schema: dbtest.On(`AFTER UPDATE OF kept_until ON history WHEN NEW.kept_until IS NULL`, `UPDATE history SET kept_until = OLD.kept_until`), Caught: []string{"history/setback"}},
		{Name: "no id is lost", Break: dbtest.Broken[losesNoSession], Caught: []string{"history/lost"}},
		{Name: "a generation remains set back", Schema: dbtest.On(`AFTER UPDATE OF generation ON history`, `UPDATE history SET set_back = OLD.set_back`), Caught: []string{"history/setback"}},
		{Name: "grants a lease to every holder", Break: dbtest.Broken[leasesToAll], Caught: []string{"leases/life", "leases/racing", "leases/release"}},
		{Name: "leases never expire", Break: dbtest.Broken[leasesForever], Caught: []string{"leases/life", "leases/racing"}},
		{Name: "renews no lease", Break: func(c dbtest.Correct) dbtest.Handle { return &renewsNoLease{Correct: c} }, Caught: []string{"leases/life"}},
		{Name: "releases no lease", Break: dbtest.Broken[takesNoLeaseBack], Caught: []string{"leases/release"}},
		{Name: "replaces any value", Break: dbtest.Broken[replacesAny], Caught: []string{"properties/replace", "properties/racing-replaces"}},
		{Name: "has another time", Break: dbtest.Broken[ownTime], Caught: []string{"clock/one-time"}},
		{Name: "waits without a limit", Break: dbtest.Broken[waitsForever], Caught: []string{"patience/over"}},
		{Name: "forgets no node", Break: dbtest.Broken[joinsForever], Caught: []string{"nodes/life", "nodes/racing"}},
		{Name: "admits a node with other settings", Break: dbtest.Broken[asksLater], Caught: []string{"nodes/life"}},
		{Name: "removes no node", Schema: `CREATE TRIGGER broken BEFORE DELETE ON nodes BEGIN SELECT RAISE(IGNORE); END`, Caught: []string{"nodes/life"}},
		{Name: "charges for a cancelled call", Break: dbtest.Broken[ignoresContext], Caught: []string{"blobs/cancelled"}},
		{Name: "counts exhausted sessions as active", Break: miscounting(func(c *database.Census) {
			c.Sessions.Active, c.Sessions.Exhausted = c.Sessions.Active+c.Sessions.Exhausted, 0
		}), Caught: []string{"census/states"}},
		{Name: "counts closed channels as expired", Break: miscounting(func(c *database.Census) {
			c.Channels.Expired, c.Channels.Closed = c.Channels.Expired+c.Channels.Closed, 0
		}), Caught: []string{"census/states"}},
		{Name: "counts inline extents as objects", Break: miscounting(func(c *database.Census) {
			c.Objects.Extents, c.Inline.Extents = c.Objects.Extents+c.Inline.Extents, 0
		}), Caught: []string{"census/states", "census/pages"}},
		{Name: "counts the first page", Break: miscounting(func(c *database.Census) {
			c.Objects.Extents, c.Objects.Bytes = min(c.Objects.Extents, 1_000), min(c.Objects.Bytes, 1_000)
		}), Caught: []string{"census/pages"}},
	})
}

// losesNoSession does not report that a session was lost.
type losesNoSession struct{ dbtest.Correct }

func (s losesNoSession) Session(ctx context.Context, id string) (ledger.Session, error) {
	found, err := s.Correct.Session(ctx, id)
	if errors.Is(err, database.ErrLost) {
		err = database.ErrNotFound
	}
	return found, err
}

// waitsForever uses sessions regardless of the caller's patience.
type waitsForever struct{ dbtest.Correct }

func (s waitsForever) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	return s.Correct.UseSession(database.WithPatience(ctx, time.Hour), id, n, idem)
}

// replacesAny replaces a property whatever its value.
type replacesAny struct{ dbtest.Correct }

func (s replacesAny) ReplaceProperty(ctx context.Context, name, _, value string) error {
	for {
		old, err := s.Property(ctx, name)
		if err != nil {
			return err
		}
		if err := s.Correct.ReplaceProperty(ctx, name, old, value); !errors.Is(err, database.ErrNotFound) {
			return err
		}
	}
}

// ignoresContext uses a chunkset for a caller that was cancelled.
type ignoresContext struct{ dbtest.Correct }

func (s ignoresContext) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	out, err := s.Correct.UseSession(context.WithoutCancel(ctx), id, n, idem)
	return out, errors.Join(err, ctx.Err())
}

type leasesToAll struct{ dbtest.Correct }

func (s leasesToAll) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	_, err := s.Correct.Lease(ctx, name, holder, ttl)
	return err == nil, err
}

// renewsNoLease reports that a lease was renewed, but does not renew it.
type renewsNoLease struct {
	dbtest.Correct
	held sync.Map // by holder
}

func (s *renewsNoLease) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if _, ok := s.held.Load(holder); ok {
		return true, nil
	}
	held, err := s.Correct.Lease(ctx, name, holder, ttl)
	if held {
		s.held.Store(holder, true)
	}
	return held, err
}

type takesNoLeaseBack struct{ dbtest.Correct }

func (s takesNoLeaseBack) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if ttl <= 0 {
		return false, nil
	}
	return s.Correct.Lease(ctx, name, holder, ttl)
}

type ownTime struct{ dbtest.Correct }

func (s ownTime) Now() time.Time { return s.Correct.Now().Add(time.Second) }

// joinsForever forgets no node.
type joinsForever struct{ dbtest.Correct }

func (s joinsForever) Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func([]string) error) error {
	return s.Correct.Join(ctx, node, settings, 1000*ttl, agrees)
}

// asksLater records a node before it calls agrees.
type asksLater struct{ dbtest.Correct }

func (s asksLater) Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func([]string) error) error {
	var seen []string
	err := s.Correct.Join(ctx, node, settings, ttl, func(others []string) error { seen = others; return nil })
	if err != nil {
		return err
	}
	return agrees(seen)
}

// miscounts changes the census.
type miscounts struct {
	dbtest.Correct
	change func(*database.Census)
}

func miscounting(change func(*database.Census)) func(dbtest.Correct) dbtest.Handle {
	return func(c dbtest.Correct) dbtest.Handle { return miscounts{c, change} }
}

func (s miscounts) Census(ctx context.Context) (database.Census, error) {
	c, err := s.Correct.Census(ctx)
	s.change(&c)
	return c, err
}

type leasesForever struct{ dbtest.Correct }

func (s leasesForever) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	return s.Correct.Lease(ctx, name, holder, ttl*1000)
}
