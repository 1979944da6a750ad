package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/test/testenv"
)

// bodiesOfTest are an instance's inline bodies by their keys.
type bodiesOfTest map[string][]byte

func keyOfTest(n int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func inlineRow(key string, body []byte) []any {
	crc := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	return []any{[]byte(key), int64(0), int64(0), int64(len(body)), binary.BigEndian.AppendUint32(nil, crc)}
}

// backUp makes a backup of inline bodies. It returns how many bytes of them were read.
func backUp(t *testing.T, repo *Repository, bodies bodiesOfTest) (m *Manifest, read int) {
	t.Helper()
	ctx, w, err := repo.Begin(t.Context())
	testenv.OK(t, err)
	w.Reset()
	w.Manifest.Instance, w.Manifest.Snapshot = "instance", time.Now().UTC()
	testenv.OK(t, w.Table(InlineTable, []string{"content", "part", "off", "size", "blocks"}, 3))
	for _, key := range slices.Sorted(maps.Keys(bodies)) {
		testenv.OK(t, w.Rows([][]any{inlineRow(key, bodies[key])}))
	}
	testenv.OK(t, w.Table(ObjectsTable, []string{"object", "size", "blocks"}, 1))
	testenv.OK(t, w.EndTables())
	testenv.OK(t, w.StoreTables(ctx))
	b := testenv.Must(w.Bodies(ctx))(t)
	testenv.OK(t, b.Each(ctx, func(inline []any, kept bool) error {
		if kept {
			return nil
		}
		body := bodies[string(inline[0].([]byte))]
		read += len(body)
		return b.Add(ctx, inline, body)
	}))
	testenv.OK(t, b.End(ctx))
	m = testenv.Must(w.Finish(ctx))(t)
	testenv.OK(t, w.Close())
	return m, read
}

// checkBodies verifies a backup, and compares its bodies with the expected ones.
func checkBodies(t *testing.T, repo *Repository, m *Manifest, want bodiesOfTest) {
	t.Helper()
	testenv.OK(t, testenv.Error(repo.Verify(t.Context(), m, VerifyOptions{Bytes: true})))
	got := bodiesOfTest{}
	var last []any
	testenv.OK(t, repo.Bodies(t.Context(), m, func(page []Body) error {
		for _, b := range page {
			if last != nil && CompareKeys(last, b.Key) >= 0 {
				t.Fatal("bodies are not ordered by key")
			}
			last = b.Key
			got[string(b.Key[0].([]byte))] = b.Body
		}
		return nil
	}))
	if !maps.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("the backup has %d bodies that differ from the %d of the instance", len(got), len(want))
	}
}

// historyOfTest changes an instance's bodies.
type historyOfTest struct {
	random *rand.Rand
	bodies bodiesOfTest
	last   int
}

func (h *historyOfTest) body() []byte {
	body := make([]byte, 1_000+h.random.IntN(15_000))
	for i := 0; i+8 <= len(body); i += 8 {
		binary.BigEndian.PutUint64(body[i:], h.random.Uint64())
	}
	return body
}

func (h *historyOfTest) add(n int) (bytes int) {
	for range n {
		h.last++
		body := h.body()
		h.bodies[keyOfTest(h.last)] = body
		bytes += len(body)
	}
	return bytes
}

// some returns the keys of so many bodies, anywhere.
func (h *historyOfTest) some(n int) (keys []string) {
	all := slices.Sorted(maps.Keys(h.bodies))
	for _, i := range h.random.Perm(len(all))[:n] {
		keys = append(keys, all[i])
	}
	return keys
}

func (h *historyOfTest) remove(n int) {
	for _, key := range h.some(n) {
		delete(h.bodies, key)
	}
}

// replace replaces bodies under their keys.
func (h *historyOfTest) replace(n int) (bytes int) {
	for _, key := range h.some(n) {
		h.bodies[key] = h.body()
		bytes += len(h.bodies[key])
	}
	return bytes
}

func (b bodiesOfTest) size() (sum int) {
	for _, body := range b {
		sum += len(body)
	}
	return sum
}

// TestBodiesStayInTheirPacks makes backups, between which 2 % of all bodies go, 2 % are replaced
// under their keys and 2 % added: each reads and stores little more than the new bodies, and the
// packs of each have at most twice as many bytes as its bodies. Each backup that is kept has the
// bodies that the instance had.
func TestBodiesStayInTheirPacks(t *testing.T) {
	t.Parallel()
	h := &historyOfTest{random: rand.New(rand.NewPCG(1, 2)), bodies: bodiesOfTest{}}
	h.add(1_000)
	repo := &Repository{Bytes: memory.New()}
	first, read := backUp(t, repo, h.bodies)
	testenv.Equal(t, read, h.bodies.size(), "bytes that the first backup reads")
	checkBodies(t, repo, first, h.bodies)
	kept := map[string]bodiesOfTest{first.ID(): maps.Clone(h.bodies)}
	added, reads := 0, 0
	for round := range 40 {
		h.remove(20)
		added += h.replace(20)
		added += h.add(20)
		m, read := backUp(t, repo, h.bodies)
		reads += read
		kept[m.ID()] = maps.Clone(h.bodies)
		packed := int64(0)
		for _, p := range m.Packs {
			packed += p.Size
		}
		if limit := int64(2*h.bodies.size() + chunkLeast); packed > limit {
			t.Fatalf("round %d: the packs have %d bytes, more than %d", round, packed, limit)
		}
		if round%7 == 0 {
			pruned := testenv.Must(repo.Prune(t.Context(), Retention{Last: 2}))(t)
			for _, id := range pruned.Removed {
				delete(kept, id)
			}
			for id, bodies := range kept {
				checkBodies(t, repo, testenv.Must(repo.Open(t.Context(), id))(t), bodies)
			}
		}
	}
	// Each backup may read the last pack again, which is small. Every body is packed again once on
	// average before it goes.
	t.Logf("%d bytes were new, and %d were read", added, reads)
	if limit := 2*added + 40*chunkLeast/2; reads > limit {
		t.Errorf("after changes of %d bytes, %d were read, more than %d", added, reads, limit)
	}
}

// TestBodiesOfADamagedRepository damages the previous backup's objects, in each way: the next
// backup reads the bodies anew that it cannot rely on, and is whole.
func TestBodiesOfADamagedRepository(t *testing.T) {
	t.Parallel()
	h := &historyOfTest{random: rand.New(rand.NewPCG(3, 4)), bodies: bodiesOfTest{}}
	h.add(400)
	size := h.bodies.size()
	for name, c := range map[string]struct {
		damage func(t *testing.T, repo *Repository, m *Manifest)
		reads  func(read int) bool
	}{
		"nothing":           {func(*testing.T, *Repository, *Manifest) {}, func(read int) bool { return read == 0 }},
		"a pack is missing": {func(t *testing.T, r *Repository, m *Manifest) { replaceObject(t, r, m.Packs[1].Object(), nil) }, func(read int) bool { return read > 0 && read < size }},
		"a pack is cut": {func(t *testing.T, r *Repository, m *Manifest) {
			replaceObject(t, r, m.Packs[1].Object(), []byte("cut"))
		}, func(read int) bool { return read > 0 && read < size }},
		"places are missing":  {func(t *testing.T, r *Repository, m *Manifest) { replaceObject(t, r, placesOf(m), nil) }, func(read int) bool { return read == size }},
		"places are damaged":  {func(t *testing.T, r *Repository, m *Manifest) { replaceObject(t, r, placesOf(m), []byte("changed")) }, func(read int) bool { return read == size }},
		"the manifest":        {func(t *testing.T, r *Repository, m *Manifest) { replaceObject(t, r, m.name, []byte("{}")) }, func(read int) bool { return read == size }},
		"the manifest is cut": {func(t *testing.T, r *Repository, m *Manifest) { replaceObject(t, r, m.name, []byte("{")) }, func(read int) bool { return read == size }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := &Repository{Bytes: memory.New()}
			m, _ := backUp(t, repo, h.bodies)
			c.damage(t, repo, m)
			second, read := backUp(t, repo, h.bodies)
			if !c.reads(read) {
				t.Errorf("%d of %d bytes were read", read, size)
			}
			checkBodies(t, repo, second, h.bodies)
		})
	}
}

func placesOf(m *Manifest) bytestore.Name { return m.Table(BodiesTable).Chunks[0].Object() }

func replaceObject(t *testing.T, r *Repository, name bytestore.Name, content []byte) {
	t.Helper()
	testenv.OK(t, r.Bytes.Delete(t.Context(), name))
	if content != nil {
		testenv.OK(t, r.Bytes.Put(t.Context(), name, bytes.NewReader(content), int64(len(content))))
	}
}

// TestBodiesOfOthersAreNotUsed makes backups of another instance with the same keys, and of a
// part that was sent again with as many bytes.
func TestBodiesOfOthersAreNotUsed(t *testing.T) {
	t.Parallel()
	repo := &Repository{Bytes: memory.New()}
	h := &historyOfTest{random: rand.New(rand.NewPCG(7, 8)), bodies: bodiesOfTest{}}
	h.add(100)
	was, now := h.bodies, maps.Clone(h.bodies)
	now[keyOfTest(1)] = bytes.Repeat([]byte("a"), len(was[keyOfTest(1)]))
	first, _ := backUp(t, repo, was)
	second, read := backUp(t, repo, now)
	if read >= was.size()/2 {
		t.Errorf("%d of %d bytes were read", read, was.size())
	}
	checkBodies(t, repo, first, was)
	checkBodies(t, repo, second, now)
	previous := testenv.Must(repo.previous(t.Context(), "another instance"))(t)
	if previous != nil {
		t.Error("a backup of another instance is taken for the previous one")
	}
}

// TestPacksAreReadOnce reads bodies that are in turn in many packs: each pack is read once.
func TestPacksAreReadOnce(t *testing.T) {
	t.Parallel()
	h := &historyOfTest{random: rand.New(rand.NewPCG(5, 6)), bodies: bodiesOfTest{}}
	repo := &Repository{Bytes: memory.New()}
	for i := range 6 { // of each generation every sixth key
		for n := range 100 {
			h.bodies[keyOfTest(6*n+i)] = h.body()
		}
		backUp(t, repo, h.bodies)
	}
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	if len(m.Packs) < 6 {
		t.Fatalf("there are %d packs", len(m.Packs))
	}
	counted := &countedOpens{Store: repo.Bytes, opens: map[bytestore.Name]int{}}
	checkBodies(t, repo, m, h.bodies)
	testenv.OK(t, (&Repository{Bytes: counted}).Bodies(t.Context(), m, func([]Body) error { return nil }))
	for _, p := range m.Packs {
		testenv.Equal(t, counted.opens[p.Object()], 1, "reads of %s", p.Object())
	}
}

type countedOpens struct {
	bytestore.Store
	opens map[bytestore.Name]int
}

func (s *countedOpens) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	s.opens[name]++
	return s.Store.Open(ctx, name, off, n)
}
