package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// damagedFixture is a fixture with a blob that has two extents: the first is damaged in the
// store and intact in the backup, and a scrub has found it.
type damagedFixture struct {
	*fixture
	backup *memory.Store
	body   []byte
	object bytestore.Name
}

func newDamagedFixture(t testing.TB) *damagedFixture {
	t.Helper()
	f := &damagedFixture{fixture: newFixture(t, blob.Options{}), backup: memory.New(), body: randomBytes(1, 3<<20)}
	testenv.Must(history.Bind(t.Context(), f.meta, f.bytes))(t)
	f.put(t, "name", f.body)
	f.copyTo(t, f.backup)
	f.object = f.objectsOf(t, "name")[0]
	alter(t, f.bytes, f.object, 2<<20, flip(7))
	testenv.Must(f.Scrub(t.Context()))(t)
	f.wantDamage(t, map[bytestore.Name]uint64{f.object: 1}, "before the heal")
	f.Service = f.service(blob.Options{})
	return f
}

// copySource is a integrity.HealSource with copied objects, and with bodies.
type copySource struct {
	bytestore.Store
	bodies map[metastore.ExtentID][]byte
	before func() // is called before something is returned; nil: nothing is
}

func (s copySource) begin() {
	if s.before != nil {
		s.before()
	}
}

func (s copySource) Require(ctx context.Context, instance string) error {
	return history.RequireInstance(ctx, s.Store.Open, instance)
}

func (s copySource) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	s.begin()
	return s.Store.Open(ctx, name, off, n)
}

func (s copySource) Bodies(_ context.Context, search integrity.BodySearch) error {
	for _, id := range search.Extents {
		body, ok := s.bodies[id]
		if !ok {
			continue
		}
		if err := search.Step(); err != nil {
			return err
		}
		s.begin()
		if err := search.Found(id, body); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies all objects to another store, as a backup does.
func (f *fixture) copyTo(t testing.TB, to bytestore.Store) {
	t.Helper()
	err := f.bytes.List(t.Context(), "", func(o bytestore.Object) error {
		r, err := f.bytes.Open(t.Context(), o.Name, 0, o.Size)
		if err != nil {
			return err
		}
		return errors.Join(to.Put(t.Context(), o.Name, r, o.Size), r.Close())
	})
	testenv.OK(t, err)
}

// service returns a Service that heals from the backup.
func (f *damagedFixture) service(opt blob.Options) *blob.Service {
	opt.ExtentSize, opt.HealFrom = 2<<20, copySource{Store: f.backup}
	return blob.New(f.meta, f.bytes, opt)
}

// wantHealed fails the test, which goes on, unless the blob is whole and nothing else is left.
func (f *damagedFixture) wantHealed(t testing.TB) {
	t.Helper()
	f.wantDamage(t, nil, "after the heal")
	testenv.OK(t, f.FreeGarbage(t.Context()))
	f.wantRead(t, "name", 0, f.body, "the healed blob")
	if f.objectsOf(t, "name")[0] == f.object {
		t.Error("the extent has the damaged object")
	}
	testenv.Is(t, testenv.Error(f.bytes.Open(t.Context(), f.object, 0, 0)), bytestore.ErrNotFound, "the damaged object was not freed")
}

// TestHeal repairs a damaged object of a blob and its copy.
// Invariant 118.
func TestHeal(t *testing.T) {
	f := newDamagedFixture(t)
	testenv.Must(f.Copy(t.Context(), blob.CopyOptions{From: metastore.BlobName{Account: "a", Name: "name"}, To: metastore.BlobName{Account: "a", Name: "copy"}}))(t)
	testenv.Equal(t, testenv.Must(f.Heal(t.Context()))(t), 1, "extents")
	testenv.Equal(t, f.Stats().Healed, 1, "extents that were counted")
	f.wantHealed(t)
	f.wantRead(t, "copy", 0, f.body, "the copy")
	testenv.Equal(t, testenv.Must(f.Heal(t.Context()))(t), 0, "extents of a second run")
	f.wantObjects(t, 3, "two extents and the instance's id")
}

// TestHealOfALockedVersion damages a version that is not current and has a lock: the scrub records
// its damage, which names it, no purge drops it or its record, and the heal repairs it.
// Invariants 116, 118, 216.
func TestHealOfALockedVersion(t *testing.T) {
	f := newDamagedFixture(t)
	f.keep(t)
	of, hold := metastore.BlobName{Account: "a", Name: "name"}, true
	b := testenv.Must(f.SetLock(t.Context(), metastore.LockChange{VersionName: metastore.VersionName{BlobName: of}, Hold: &hold}))(t)
	v := metastore.VersionName{BlobName: of, Version: metastore.VersionOf(&b)}
	testenv.OK(t, f.Delete(t.Context(), "a", "name", nil))
	for _, d := range testenv.Must(f.meta.Damages(t.Context(), metastore.ExtentID{}, 10))(t) {
		testenv.OK(t, f.meta.ForgetDamage(t.Context(), d))
	}
	testenv.Must(f.Scrub(t.Context()))(t)
	purge := func() {
		t.Helper()
		f.clock.Advance(30 * 24 * time.Hour)
		testenv.Must(f.meta.PurgeVersions(t.Context(), 10))(t)
		testenv.Must(f.meta.PruneDamage(t.Context(), 10))(t)
		testenv.OK(t, f.FreeGarbage(t.Context()))
	}
	purge()
	f.wantDamage(t, map[bytestore.Name]uint64{f.object: 1}, "of a version")
	testenv.Equal(t, fmt.Sprint(testenv.Must(f.meta.BlobsWith(t.Context(), []metastore.ContentID{b.Content}))(t)),
		fmt.Sprint([]metastore.BlobContent{{BlobName: of, Version: v.Version, Content: b.Content}}), "the damaged version")
	testenv.Equal(t, testenv.Must(f.Heal(t.Context()))(t), 1, "extents")
	purge()
	f.wantDamage(t, nil, "after the heal")
	c := testenv.Must(f.OpenVersion(t.Context(), v))(t)
	t.Cleanup(c.Close)
	var out bytes.Buffer
	testenv.OK(t, testenv.Error(c.WriteRange(t.Context(), &out, 0, int64(len(f.body)))))
	testenv.Equal(t, bytes.Equal(out.Bytes(), f.body) && c.Lock.Hold, true, "whether the version has its bytes and its lock")
	f.wantObjects(t, 3, "two extents and the instance's id")
}

// TestHealRefusesDamagedSources has a backup that is damaged, cut, empty, another instance's, or
// out of reach: nothing changes.
// Invariant 118.
func TestHealRefusesDamagedSources(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, f *damagedFixture){
		"damaged": func(t *testing.T, f *damagedFixture) { alter(t, f.backup, f.object, 2<<20, flip(1<<20)) },
		"cut":     func(t *testing.T, f *damagedFixture) { alter(t, f.backup, f.object, 2<<20, cut(1<<20)) },
		"missing": func(t *testing.T, f *damagedFixture) { alter(t, f.backup, f.object, 2<<20, removed) },
		"foreign": func(t *testing.T, f *damagedFixture) { alter(t, f.backup, history.InstanceObject, 32, flip(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newDamagedFixture(t)
			change(t, f)
			n, err := f.Heal(t.Context())
			if err == nil || n != 0 {
				t.Errorf("Heal = %d, %v, want an error", n, err)
			}
			f.wantDamage(t, map[bytestore.Name]uint64{f.object: 1}, "after a refused heal")
			f.wantObjects(t, 3, "after a refused heal")
			f.wantNoGarbage(t, "after a refused heal")
		})
	}
}

// TestHealWaitsForSpace heals on a full disk, and once there is space.
// Invariant 118.
func TestHealWaitsForSpace(t *testing.T) {
	f := newDamagedFixture(t)
	full := f.service(blob.Options{Space: func(int64) error { return bytestore.ErrNoSpace }})
	_, err := full.Heal(t.Context())
	testenv.Is(t, err, bytestore.ErrNoSpace, "a heal on a full disk")
	f.wantDamage(t, map[bytestore.Name]uint64{f.object: 1}, "on a full disk")
	testenv.Must(f.Heal(t.Context()))(t)
	f.wantHealed(t)
}

// healCuts is metadata with a fault of HealExtent.
type healCuts struct {
	blob.Metadata
	kind fault.Kind
}

func (m healCuts) HealExtent(ctx context.Context, d metastore.Damage, fresh metastore.Extent, retired metastore.ContentID) error {
	return m.kind.Do(database.ErrUnknownOutcome, func() error { return m.Metadata.HealExtent(ctx, d, fresh, retired) })
}

// TestHealIsCut ends a heal before the new object is complete, before the transaction and after it.
// The blob is never worse than before, and the next heal repairs it. What is left is an orphan.
// Invariant 118.
func TestHealIsCut(t *testing.T) {
	for _, c := range []struct {
		name    string
		cut     func(t *testing.T, f *damagedFixture)
		orphans int
	}{
		{"while the object is read", func(t *testing.T, f *damagedFixture) {
			ctx, cancel := context.WithCancel(t.Context())
			source := copySource{Store: f.backup, before: cancel}
			s := blob.New(f.meta, f.bytes, blob.Options{HealFrom: source})
			testenv.Is(t, testenv.Error(s.Heal(ctx)), context.Canceled, "a heal that is cut")
		}, 0},
		{"before the transaction", func(t *testing.T, f *damagedFixture) {
			s := blob.New(healCuts{f.meta, fault.Fail}, f.bytes, blob.Options{HealFrom: copySource{Store: f.backup}})
			testenv.Is(t, testenv.Error(s.Heal(t.Context())), database.ErrUnknownOutcome, "a heal that is cut")
		}, 1},
		{"after the transaction", func(t *testing.T, f *damagedFixture) {
			s := blob.New(healCuts{f.meta, fault.Lose}, f.bytes, blob.Options{HealFrom: copySource{Store: f.backup}})
			testenv.Is(t, testenv.Error(s.Heal(t.Context())), database.ErrUnknownOutcome, "a heal that is cut")
			f.wantDamage(t, nil, "after the transaction")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newDamagedFixture(t)
			c.cut(t, f)
			f.wantRead(t, "name", 1<<20, f.body[1<<20:], "what was never damaged")
			testenv.Must(f.Heal(t.Context()))(t)
			f.wantHealed(t)
			f.wantObjects(t, 3+c.orphans, "of the blob, of the instance, and orphans")
		})
	}
}

// TestHealsAtOnce heals in several processes at once: the blob is whole, and no object is left
// over.
// Invariant 118.
func TestHealsAtOnce(t *testing.T) {
	f := newDamagedFixture(t)
	var all sync.WaitGroup
	for range 4 {
		s := f.service(blob.Options{})
		all.Go(func() { _, err := s.Heal(t.Context()); testenv.Check(t, err) })
	}
	all.Wait()
	f.wantHealed(t)
	f.wantObjects(t, 3, "two extents and the instance's id")
}

// TestHealKeepsWhatIsRead heals a blob that is being read: the old object stays until the reader
// has ended, and the reader goes on with the new one.
// Invariant 118.
func TestHealKeepsWhatIsRead(t *testing.T) {
	f := newDamagedFixture(t)
	c := f.open(t, "name")
	testenv.Must(f.Heal(t.Context()))(t)
	testenv.OK(t, f.FreeGarbage(t.Context()))
	if r, err := f.bytes.Open(t.Context(), f.object, 0, 0); err != nil {
		t.Errorf("the object was freed while it may be read: %v", err)
	} else {
		testenv.OK(t, r.Close())
	}
	var out bytes.Buffer
	_, err := c.WriteRange(t.Context(), &out, 0, int64(len(f.body)))
	testenv.OK(t, err)
	testenv.Equal(t, bytes.Equal(out.Bytes(), f.body), true, "whether the reader got the right bytes")
	c.Close()
	f.wantHealed(t)
}

// TestHealFollowsOtherNodes lets a node that does no background work find damage: the one that does
// heals it soon after it has learned it.
// Invariant 118.
func TestHealFollowsOtherNodes(t *testing.T) {
	var source copySource
	service := func(f *fixture) *blob.Service {
		source = copySource{Store: memory.New()}
		testenv.Must(history.Bind(context.Background(), f.meta, f.bytes))(t)
		return blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1, HealFrom: source})
	}
	inRun(t, service, func(t *testing.T, f *fixture) {
		body := randomBytes(1, 100)
		f.put(t, "name", body)
		f.copyTo(t, source.Store)
		var watch sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		watch.Go(func() { f.WatchDamage(ctx, func(err error) { t.Error(err) }) })
		defer watch.Wait()
		defer stop()
		synctest.Wait() // the first look at damage is over
		alter(t, f.bytes, f.objectsOf(t, "name")[0], 100, flip(7))
		other := blob.New(f.meta, f.bytes, blob.Options{})
		c := testenv.Must(other.Open(t.Context(), "a", "name"))(t)
		_, err := c.WriteRange(t.Context(), io.Discard, 0, 100)
		c.Close()
		testenv.Is(t, err, integrity.ErrCorrupt, "a read on the other node")
		time.Sleep(time.Minute)
		synctest.Wait()
		f.wantRead(t, "name", 0, body, "the healed blob")
		testenv.Equal(t, f.Stats().Healed, 1, "heals")
	})
}

// TestReaderFollowsAHeal has a reader on another node, which has the extent's row from before the
// heal: it reads the new object once the old one is gone.
// Invariant 118.
func TestReaderFollowsAHeal(t *testing.T) {
	f := newDamagedFixture(t)
	other := blob.New(f.meta, f.bytes, blob.Options{ExtentSize: 2 << 20})
	c := testenv.Must(other.Open(t.Context(), "a", "name"))(t)
	defer c.Close()
	testenv.Must(f.Heal(t.Context()))(t)
	f.wantHealed(t)
	var out bytes.Buffer
	_, err := c.WriteRange(t.Context(), &out, 0, int64(len(f.body)))
	testenv.OK(t, err)
	testenv.Equal(t, bytes.Equal(out.Bytes(), f.body), true, "whether the reader got the right bytes")
}
