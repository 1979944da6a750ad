package backup

import (
	"bytes"
	"testing"
	"time"

	"sluice/bytestore/memory"
	"sluice/test/testenv"
)

// TestChangedManifests flips a bit in each byte of a manifest: it is not read, even if it is still
// valid JSON.
// Invariant 122.
func TestChangedManifests(t *testing.T) {
	r := &Repository{Bytes: memory.New()}
	r.backUp(t, "one", time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), 3, func(int) bool { return true })
	r.eachChange(t, manifestPrefix, 1, func(at int) {
		testenv.Is(t, testenv.Error(r.Open(t.Context(), "")), ErrDamaged, "a manifest with another byte %d", at)
	})
}

// TestChangedPacks flips a bit in a pack: no body in it is read.
// Invariant 124.
func TestChangedPacks(t *testing.T) {
	r := &Repository{Bytes: memory.New()}
	r.backUp(t, "one", time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), 3, func(int) bool { return true })
	m := testenv.Must(r.Open(t.Context(), ""))(t)
	r.eachChange(t, packPrefix, 1000, func(at int) {
		err := r.Bodies(t.Context(), m, func([]Body) error { t.Errorf("byte %d: bodies were read", at); return nil })
		testenv.Is(t, err, ErrDamaged, "a pack with another byte %d", at)
		found, _, err := r.find(t, "one", 3)
		testenv.Is(t, err, ErrDamaged, "a search in a pack with another byte %d", at)
		testenv.Equal(t, len(found), 0, "bodies that were found")
	})
}

// eachChange changes a byte, each of those that are so far apart, of the first object that has a
// prefix, and calls check with where.
func (r *Repository) eachChange(t *testing.T, prefix string, apart int, check func(at int)) {
	t.Helper()
	o := testenv.Must(r.objects(t.Context(), prefix))(t)[0]
	content := testenv.Must(r.read(t.Context(), o.Name, o.Size))(t)
	for at := 0; at < len(content); at += apart {
		changed := bytes.Clone(content)
		changed[at] ^= 1
		testenv.OK(t, r.Bytes.Delete(t.Context(), o.Name))
		testenv.OK(t, r.Bytes.Put(t.Context(), o.Name, bytes.NewReader(changed), o.Size))
		check(at)
	}
}
