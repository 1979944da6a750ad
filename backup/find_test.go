package backup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

func inlineID(i int) metastore.ExtentID {
	id := metastore.ExtentID{Position: metastore.Position{Part: i % 2, Offset: int64(i)}}
	id.Content[0], id.Content[1] = byte(i>>8), byte(i)
	return id
}

// inlineBody returns a body, of two different sizes.
func inlineBody(i int) []byte { return fmt.Appendf(nil, "%0*d", 8_000+8_000*(i%2), i) }

// backUp makes an instance's backup with those inline extents, from the first n, that has reports.
func (r *Repository) backUp(t *testing.T, instance string, at time.Time, n int, has func(i int) bool) {
	t.Helper()
	ctx, w, err := r.Begin(t.Context())
	testenv.OK(t, err)
	w.Reset()
	w.Manifest.Instance, w.Manifest.Snapshot = instance, at
	testenv.OK(t, w.Table(InlineTable, []string{"content", "part", "off", "size", "blocks"}, bodyKey))
	bodies := map[string][]byte{}
	for i := range n {
		if id := inlineID(i); has(i) {
			row := inlineRow(string(id.Content[:]), inlineBody(i))
			row[1], row[2] = int64(id.Part), id.Offset
			bodies[string(id.Content[:])] = inlineBody(i)
			testenv.OK(t, w.Rows([][]any{row}))
		}
	}
	testenv.OK(t, w.EndTables())
	testenv.OK(t, w.StoreTables(ctx))
	b := testenv.Must(w.Bodies(ctx))(t)
	testenv.OK(t, b.Each(ctx, func(inline []any, kept bool) error {
		if kept {
			return nil
		}
		return b.Add(ctx, inline, bodies[string(bytesIn(inline, 0))])
	}))
	testenv.OK(t, b.End(ctx))
	testenv.Must(w.Finish(ctx))(t)
	testenv.OK(t, w.Close())
}

// find returns which bodies were found, and in how many steps.
func (r *Repository) find(t *testing.T, instance string, n int) (found map[int]bool, steps int, err error) {
	t.Helper()
	indexes := map[metastore.ExtentID]int{}
	search := integrity.BodySearch{Instance: instance, Step: func() error { steps++; return nil }}
	for i := range n {
		indexes[inlineID(i)] = i
		search.Extents = append(search.Extents, inlineID(i))
	}
	found = map[int]bool{}
	search.Found = func(id metastore.ExtentID, body []byte) error {
		i := indexes[id]
		if found[i] || string(body) != string(inlineBody(i)) {
			t.Errorf("body %d was found before, or differs", i)
		}
		found[i] = true
		return nil
	}
	return found, steps, r.FindBodies(t.Context(), search)
}

// TestFindBodies looks for bodies that the newest backup has, that an older one has, and that none
// has. Chunks that two backups share are read once.
func TestFindBodies(t *testing.T) {
	const n = 400 // in several packs
	r := &Repository{Bytes: memory.New()}
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	_, _, err := r.find(t, "one", 1)
	testenv.Is(t, err, ErrNotFound, "a search in no backup")
	r.backUp(t, "one", now, n, func(i int) bool { return i != 5 })
	_, alone, err := r.find(t, "one", n)
	testenv.OK(t, err)
	r.backUp(t, "one", now.Add(time.Hour), n, func(i int) bool { return i != 5 })
	_, twice, err := r.find(t, "one", n)
	testenv.OK(t, err)
	testenv.Equal(t, twice, alone, "chunks that were read of two backups")
	r.backUp(t, "one", now.Add(2*time.Hour), n, func(i int) bool { return i != 5 && i != 300 })
	r.backUp(t, "two", now.Add(3*time.Hour), n, func(int) bool { return true })

	found, _, err := r.find(t, "one", n)
	testenv.OK(t, err)
	want := map[int]bool{}
	for i := range n {
		if i != 5 {
			want[i] = true
		}
	}
	testenv.Equal(t, maps.Equal(found, want), true, "whether all but one were found, of %d", len(found))
	testenv.OK(t, r.RequireInstance(t.Context(), "one"))
	_, _, err = r.find(t, "three", n)
	testenv.Is(t, err, ErrForeign, "a search in other instances' backups")
	testenv.Is(t, r.RequireInstance(t.Context(), "three"), ErrForeign, "other instances' backups")
}

// addAll copies another repository's objects.
func (r *Repository) addAll(t *testing.T, from *Repository) {
	t.Helper()
	testenv.OK(t, from.Bytes.List(t.Context(), "", func(o bytestore.Object) error {
		content, err := from.read(t.Context(), o.Name, o.Size)
		if err != nil {
			return err
		}
		if err := r.Bytes.Put(t.Context(), o.Name, bytes.NewReader(content), o.Size); !errors.Is(err, bytestore.ErrExists) {
			return err
		}
		return nil
	}))
}

// TestFindBodiesPastDamage damages a backup's packs one by one. Bodies that an older backup has in
// other packs are found.
func TestFindBodiesPastDamage(t *testing.T) {
	const n = 400
	for damaged := 0; ; damaged++ {
		r := &Repository{Bytes: memory.New()}
		now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
		r.backUp(t, "one", now, n, func(i int) bool { return i%2 == 0 })
		apart := &Repository{Bytes: memory.New()} // it would use the older packs
		apart.backUp(t, "one", now.Add(time.Hour), n, func(int) bool { return true })
		r.addAll(t, apart)
		packs := testenv.Must(r.objects(t.Context(), packPrefix))(t)
		newest := testenv.Must(r.Open(t.Context(), ""))(t)
		if damaged == len(newest.Packs) {
			if len(packs) <= damaged || damaged < 3 {
				t.Fatalf("there are %d packs, and %d in the newest backup", len(packs), damaged)
			}
			return
		}
		testenv.OK(t, r.Bytes.Delete(t.Context(), newest.Packs[damaged].Object()))
		found, _, err := r.find(t, "one", n)
		testenv.Is(t, err, ErrDamaged, "without pack %d", damaged)
		for i := 0; i < n; i += 2 {
			if !found[i] {
				t.Errorf("without pack %d, body %d is not found, which the older backup has", damaged, i)
				break
			}
		}
		if len(found) == n || len(found) == n/2 {
			t.Errorf("without pack %d, %d bodies were found", damaged, len(found))
		}
	}
}
