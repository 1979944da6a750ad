package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// chunksOf divides rows into chunks, and returns their checksums and sizes.
func chunksOf(t *testing.T, rows [][]any) (sums []string, sizes []int) {
	t.Helper()
	table := &Table{Key: 1, Columns: []string{"key", "value"}}
	k := chunker{table: table, store: func(_ *Chunk, lines []byte) error {
		sizes = append(sizes, len(lines))
		got, err := parseRows(lines, 2, int64(bytes.Count(lines, []byte{'\n'})))
		if err != nil || len(got) == 0 {
			t.Errorf("a chunk has %d rows, %v", len(got), err)
		}
		return nil
	}}
	for _, row := range rows {
		if err := k.add(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
	if table.Rows != int64(len(rows)) {
		t.Errorf("the chunks have %d rows of %d", table.Rows, len(rows))
	}
	for _, c := range table.Chunks {
		sums = append(sums, c.SHA256)
	}
	return sums, sizes
}

// rowsOf returns rows with ascending keys, of about so many bytes each.
func rowsOf(n, size int) (rows [][]any) {
	for i := range n {
		key := binary.BigEndian.AppendUint64(nil, uint64(i))
		value := sha256.Sum256(key)
		rows = append(rows, []any{key, bytes.Repeat(value[:], size/32+1)[:size]})
	}
	return rows
}

// TestChunksAreShared adds and removes rows anywhere: all chunks but those around them are the
// same, for small and for large rows, and no chunk is too small or too large.
func TestChunksAreShared(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 300, 12_000} {
		rows := rowsOf(16<<20/(size+40), size)
		before, sizes := chunksOf(t, rows)
		if len(before) < 8 || len(before) > 80 {
			t.Errorf("rows of %d bytes: %d chunks for 16 MiB", size, len(before))
		}
		for _, n := range sizes[:len(sizes)-1] {
			if n < chunkLeast || n > chunkMost+2*size+100 {
				t.Errorf("rows of %d bytes: a chunk has %d bytes", size, n)
			}
		}
		changed := slices.Clone(rows)
		at := rand.New(rand.NewPCG(1, uint64(size))).IntN(len(rows))
		changed = slices.Delete(changed, at, at+1)
		changed = slices.Insert(changed, len(changed)/3, []any{append(slices.Clone(changed[len(changed)/3-1][0].([]byte)), 1), []byte("new")})
		after, _ := chunksOf(t, changed)
		fresh := 0
		for _, sum := range after {
			if !slices.Contains(before, sum) {
				fresh++
			}
		}
		if fresh > 6 {
			t.Errorf("rows of %d bytes: after two changes %d of %d chunks are new", size, fresh, len(after))
		}
	}
}

// FuzzRows parses any line. It writes a line that it could parse, and parses it again.
func FuzzRows(f *testing.F) {
	f.Add([]byte(`[1,"AQID",null]`), 3)
	f.Add([]byte(`[-9223372036854775808,""]`), 2)
	f.Add([]byte(`["=",1e3,{}]`), 3)
	f.Fuzz(func(t *testing.T, line []byte, columns int) {
		row, err := parseRow(line, columns)
		if err != nil {
			return
		}
		written, err := appendRow(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseRow(written, columns)
		if err != nil || !reflect.DeepEqual(row, again) {
			t.Errorf("%q became %s, %v", line, fmt.Sprint(again), err)
		}
	})
}
