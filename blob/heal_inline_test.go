package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/history"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// inlineFixture is a fixture with a blob of one inline extent, which is damaged in the database and
// intact in the heal source, and recorded as damaged.
type inlineFixture struct {
	*fixture
	source copySource
	body   []byte
	damage metastore.Damage
}

func newInlineFixture(t testing.TB) *inlineFixture {
	t.Helper()
	f := &inlineFixture{fixture: newFixture(t, blob.Options{}), body: randomBytes(1, 1000)}
	testenv.Must(history.Bind(t.Context(), f.meta, f.bytes))(t)
	f.source = copySource{Store: memory.New(), bodies: map[metastore.ExtentID][]byte{}}
	f.copyTo(t, f.source.Store)
	f.put(t, "name", f.body)
	f.damage = f.damageInline(t, "name", f.body)
	f.source.bodies[f.damage.ExtentID] = f.body
	testenv.Must(f.Scrub(t.Context()))(t)
	f.wantDamages(t, 1, "after the scrub")
	f.Service = f.service(f.source)
	return f
}

func (f *inlineFixture) service(source copySource) *blob.Service {
	return blob.New(f.meta, f.bytes, blob.Options{HealFrom: source})
}

// damageInline flips a bit of a blob's body in the database.
func (f *fixture) damageInline(t testing.TB, name string, body []byte) metastore.Damage {
	t.Helper()
	b := testenv.Must(f.meta.Blob(t.Context(), "a", name))(t)
	d := metastore.Damage{ExtentID: metastore.ExtentID{Content: b.Content}, Size: b.Size, Bad: 1}
	testenv.OK(t, f.meta.HealBody(t.Context(), d, body, flip(len(body)/2)(bytes.Clone(body))))
	return d
}

// wantDamages fails the test, which goes on, unless so many extents are recorded as damaged.
func (f *fixture) wantDamages(t testing.TB, n int, when string) {
	t.Helper()
	list := testenv.Must(f.meta.Damages(t.Context(), metastore.ExtentID{}, 100))(t)
	testenv.Equal(t, len(list), n, "damaged extents %s", when)
}

func (f *inlineFixture) wantHealed(t testing.TB) {
	t.Helper()
	f.wantDamages(t, 0, "after the heal")
	f.wantRead(t, "name", 0, f.body, "the healed blob")
	f.wantNoGarbage(t, "after the heal")
	testenv.Equal(t, len(testenv.Must(f.meta.Audit(t.Context()))(t)), 0, "inconsistencies")
}

// TestHealInline reads a damaged body, which is an error before the first byte, and heals it for
// the blob and its copy; and so one that the scrub alone has found.
// Invariant 118.
func TestHealInline(t *testing.T) {
	f := newInlineFixture(t)
	testenv.Must(f.Copy(t.Context(), blob.CopyOptions{From: metastore.BlobName{Account: "a", Name: "name"}, To: metastore.BlobName{Account: "a", Name: "copy"}}))(t)
	f.put(t, "read", f.body[:10])
	read := f.damageInline(t, "read", f.body[:10])
	f.source.bodies[read.ExtentID] = f.body[:10]
	c := f.open(t, "read")
	testenv.OK(t, c.CheckRanges(t.Context(), []blob.Range{{N: 10}}))
	var out bytes.Buffer
	_, err := c.WriteRange(t.Context(), &out, 0, 10)
	testenv.Is(t, err, integrity.ErrCorrupt, "a read of a damaged body")
	testenv.Equal(t, out.Len(), 0, "bytes of a damaged body that were written")
	testenv.Is(t, c.CheckRanges(t.Context(), []blob.Range{{N: 1}}), integrity.ErrCorrupt, "the next read")
	f.wantDamages(t, 2, "before the heal")

	testenv.Equal(t, testenv.Must(f.Heal(t.Context()))(t), 2, "extents")
	testenv.Equal(t, f.Stats().Healed, 2, "extents that were counted")
	f.wantHealed(t)
	f.wantRead(t, "copy", 0, f.body, "the copy")
	f.wantRead(t, "read", 0, f.body[:10], "the other blob")
	// A reader that has the damaged body looks at the row again.
	testenv.OK(t, c.CheckRanges(t.Context(), []blob.Range{{N: 10}}))
	_, err = c.WriteRange(t.Context(), &out, 0, 10)
	testenv.OK(t, err)
	testenv.Equal(t, bytes.Equal(out.Bytes(), f.body[:10]), true, "whether an older reader got the right bytes")
	testenv.Equal(t, testenv.Must(f.Heal(t.Context()))(t), 0, "extents of a second run")
}

// TestHealInlineRefusesSources has a source with damaged bytes, without the body, of another
// instance, and one that cannot be read: nothing changes.
// Invariant 118.
func TestHealInlineRefusesSources(t *testing.T) {
	unreadable := errors.New("unreadable")
	for name, change := range map[string]func(t *testing.T, f *inlineFixture) (why error){
		"damaged": func(_ *testing.T, f *inlineFixture) error {
			f.source.bodies[f.damage.ExtentID] = flip(3)(bytes.Clone(f.body))
			return integrity.ErrCorrupt
		},
		"longer": func(_ *testing.T, f *inlineFixture) error {
			f.source.bodies[f.damage.ExtentID] = append(bytes.Clone(f.body), 0)
			return integrity.ErrCorrupt
		},
		"missing": func(_ *testing.T, f *inlineFixture) error {
			delete(f.source.bodies, f.damage.ExtentID)
			return nil
		},
		"foreign": func(t *testing.T, f *inlineFixture) error {
			alter(t, f.source.Store, history.InstanceObject, 32, flip(0))
			return history.ErrForeignStore
		},
		"unreadable": func(_ *testing.T, f *inlineFixture) error {
			f.Service = blob.New(f.meta, f.bytes, blob.Options{HealFrom: unreadableSource{f.source, unreadable}})
			return unreadable
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newInlineFixture(t)
			why := change(t, f)
			n, err := f.Heal(t.Context())
			if err == nil || n != 0 || why != nil && !errors.Is(err, why) {
				t.Errorf("Heal = %d, %v, want %v", n, err, why)
			}
			f.wantDamages(t, 1, "after a refused heal")
			_, err = f.open(t, "name").WriteRange(t.Context(), io.Discard, 0, 1)
			testenv.Is(t, err, integrity.ErrCorrupt, "a read after a refused heal")
		})
	}
}

type unreadableSource struct {
	copySource
	err error
}

func (s unreadableSource) Bodies(context.Context, integrity.BodySearch) error { return s.err }

// TestHealInlineOfWhatIsGone deletes, replaces and restores a blob while its body is looked for.
// Invariant 118.
func TestHealInlineOfWhatIsGone(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, f *inlineFixture){
		"deleted": func(t *testing.T, f *inlineFixture) { testenv.OK(t, f.Delete(t.Context(), "a", "name", nil)) },
		"replaced": func(t *testing.T, f *inlineFixture) {
			f.body = randomBytes(2, 1000)
			f.put(t, "name", f.body)
		},
		"restored": func(t *testing.T, f *inlineFixture) {
			damaged := flip(len(f.body) / 2)(bytes.Clone(f.body))
			testenv.OK(t, f.meta.HealBody(t.Context(), f.damage, damaged, f.body))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newInlineFixture(t)
			source := f.source
			source.before = func() { change(t, f) }
			s := f.service(source)
			testenv.Equal(t, testenv.Must(s.Heal(t.Context()))(t), 0, "extents")
			testenv.Equal(t, s.Stats().Healed, 0, "extents that were counted")
			testenv.OK(t, s.FreeGarbage(t.Context()))
			if name != "deleted" {
				f.wantHealed(t)
				return
			}
			f.wantDamages(t, 0, "after the blob was deleted")
			f.wantNoGarbage(t, "after the blob was deleted")
			testenv.Equal(t, len(testenv.Must(f.meta.Audit(t.Context()))(t)), 0, "inconsistencies")
		})
	}
}
