package journal_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/bytestore/localfs/internal/journal"
	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// segmentOf returns a segment with objects, a removal, and bodies that are segments themselves. The
// records that begin before the offset synced were durable when a later one was written.
func segmentOf(t *testing.T) (segment []byte, objects map[string]string, starts []int64, synced int64) {
	t.Helper()
	other := folder(t)
	stored := journal.New(other, "/j", limit, itself)
	testenv.OK(t, appendTo(stored, "stored0", []byte("zero")))
	testenv.OK(t, appendTo(stored, "stored1", []byte("one")))
	disk := folder(t)
	j := journal.New(disk, "/j", limit, itself)
	objects = map[string]string{}
	for i, sync := range []bool{true, false, true, true, false, true, false, false} {
		name, body := fmt.Sprint("name", i), strings.Repeat("x", i*20)
		if i == 2 || i == 5 { // a stored journal, which ends within a record
			body = vfstest.Read(t, other, "/j/"+vfstest.Names(t, other, "/j")[0])
			body = body[:len(body)-1]
		}
		starts = append(starts, j.Size())
		testenv.OK(t, j.Append(name, append(make([]byte, journal.Room), body...)))
		objects[name] = body
		if sync {
			testenv.OK(t, j.Sync())
			synced = j.Size()
		}
	}
	starts = append(starts, j.Size())
	j.Forget("name6") // after the last sync
	delete(objects, "name6")
	return []byte(vfstest.Read(t, disk, "/j/"+vfstest.Names(t, disk, "/j")[0])), objects, starts, synced
}

// inFolder returns a folder with a segment.
func inFolder(t *testing.T, segment []byte) vfs.FS {
	t.Helper()
	disk := folder(t)
	vfstest.Write(t, disk, "/j/.journal-other", string(segment), true)
	return disk
}

// TestRecordsBehindDamage flips each fifth bit in a segment. Only the record with the bit is lost.
// Read reports that it is damaged, with the number of records behind it, if it was durable when a
// later record was written; otherwise a power failure may have left it so.
// Invariant 115.
func TestRecordsBehindDamage(t *testing.T) {
	segment, objects, starts, synced := segmentOf(t)
	for bit := 0; bit < 8*len(segment); bit += 5 {
		damaged := bytes.Clone(segment)
		damaged[bit/8] ^= 1 << (bit % 8)
		disk := inFolder(t, damaged)
		hit := 0
		for hit+1 < len(starts) && starts[hit+1] <= int64(bit/8) {
			hit++
		}
		want := maps.Clone(objects)
		delete(want, fmt.Sprint("name", hit))
		if hit == len(starts)-1 { // the removal
			want["name6"] = strings.Repeat("x", 120)
		}
		got := found(t, disk)
		maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "stored") })
		equal(t, got, want, "bit %d, in record %d", bit, hit)
		var told []journal.Damage
		if starts[hit] < synced {
			told = []journal.Damage{{File: "/j/.journal-other", Kept: "/j/.damaged-journal-other", Offset: starts[hit], Behind: len(starts) - hit - 1}}
		}
		log := testenv.Must(journal.Read(disk, "/j"))(t)
		if hit == 2 || hit == 5 { // the stored journal's records may be among those behind the damage
			told[0].Behind = log.Damage()[0].Behind
		}
		if got := log.Damage(); fmt.Sprint(got) != fmt.Sprint(told) {
			t.Fatalf("bit %d, in record %d: %v is told, want %v", bit, hit, got, told)
		}
		testenv.OK(t, log.Remove())
		kept := testenv.Must(journal.Read(disk, "/j"))(t).Kept()
		if len(kept) != len(told) || len(vfstest.Names(t, disk, "/j")) != len(told) || told != nil && vfstest.Read(t, disk, kept[0]) != string(damaged) {
			t.Fatalf("bit %d: %q is kept, and the folder has %q", bit, kept, vfstest.Names(t, disk, "/j"))
		}
	}
}

// TestPowerFailuresAreNoDamage lets the power fail while records are written and synced: any of
// those that were not durable may be torn, and whole ones may be behind them.
// Invariant 115.
func TestPowerFailuresAreNoDamage(t *testing.T) {
	behind := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		disk := folder(t)
		j := journal.New(disk, "/j", limit, itself)
		want := map[string]string{}
		var unsynced []string
		for i := range 3 + r.IntN(7) {
			name := strings.Repeat(fmt.Sprint(i%10), 60)
			testenv.OK(t, j.Append(name, append(make([]byte, journal.Room), strings.Repeat(name, r.IntN(30))...)))
			if unsynced = append(unsynced, name); r.IntN(3) == 0 {
				testenv.OK(t, j.Sync())
				for _, name := range unsynced {
					want[name] = ""
				}
				unsynced = nil
			}
		}
		cut := disk.Tear(r)
		got := found(t, cut)
		for name := range want {
			if _, there := got[name]; !there {
				t.Fatalf("seed %d: %s is lost", seed, name)
			}
		}
		lost := false
		for _, name := range unsynced {
			_, there := got[name]
			if there && lost {
				behind++
			}
			lost = lost || !there
		}
		if damage := testenv.Must(journal.Read(cut, "/j"))(t).Damage(); len(damage) > 0 {
			t.Fatalf("seed %d: %v", seed, damage)
		}
	}
	if behind < 10 {
		t.Errorf("only %d times a whole record was behind a torn one", behind)
	}
}

// TestRecordsOfTheNextSync writes a record while the one before it is synced, and damages it: the
// sync has not made it durable, so a power failure may have left it so.
// Invariant 115.
func TestRecordsOfTheNextSync(t *testing.T) {
	disk := folder(t)
	var j *journal.Journal
	second := int64(0)
	j = journal.New(vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindSync && second == 0 {
			second = j.Size()
			testenv.OK(t, j.Append("second", make([]byte, journal.Room)))
		}
		return do()
	}), "/j", limit, itself)
	testenv.OK(t, j.Append("first", make([]byte, journal.Room)))
	testenv.OK(t, j.Sync())
	testenv.OK(t, j.Append("third", make([]byte, journal.Room)))
	segment := []byte(vfstest.Read(t, disk, "/j/"+vfstest.Names(t, disk, "/j")[0]))
	for at, want := range map[int64]int{5: 1, second + 5: 0} {
		damaged := bytes.Clone(segment)
		damaged[at] ^= 1
		log := testenv.Must(journal.Read(inFolder(t, damaged), "/j"))(t)
		testenv.Equal(t, len(log.Damage()), want, "damages with byte %d flipped", at)
	}
}
