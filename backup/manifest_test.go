package backup

import (
	"bytes"
	"testing"
	"time"

	"sluice/bytestore/memory"
	"sluice/internal/testenv"
)

// TestChangedManifests flips a bit of each byte of a manifest: it is not read, also if it is still
// the JSON that it should be.
func TestChangedManifests(t *testing.T) {
	r := &Repository{Bytes: memory.New()}
	r.backUp(t, "one", time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), 3, func(int) bool { return true })
	o := testenv.Must(r.objects(t.Context(), manifestPrefix))(t)[0]
	text := testenv.Must(r.read(t.Context(), o.Name, o.Size))(t)
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		testenv.OK(t, r.Bytes.Delete(t.Context(), o.Name))
		testenv.OK(t, r.Bytes.Put(t.Context(), o.Name, bytes.NewReader(changed), o.Size))
		testenv.Is(t, testenv.Error(r.Open(t.Context(), "")), ErrDamaged, "a manifest with another byte %d", i)
	}
}
