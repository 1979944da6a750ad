package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strconv"
)

// A chunk ends after chunkTarget bytes on average, and not before chunkLeast or after chunkMost.
const (
	chunkLeast  = 256 << 10
	chunkTarget = 1 << 20
	chunkMost   = 8 << 20
)

func appendRow(b []byte, row []any) ([]byte, error) {
	b = append(b, '[')
	for i, v := range row {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := v.(type) {
		case nil:
			b = append(b, "null"...)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case []byte:
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, v)
			b = append(b, '"')
		default:
			return nil, fmt.Errorf("backup: a column has a %T", v)
		}
	}
	return append(b, "]\n"...), nil
}

// parseRow parses a line with so many columns.
func parseRow(line []byte, columns int) ([]any, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	if len(raw) != columns {
		return nil, fmt.Errorf("a row has %d columns, want %d", len(raw), columns)
	}
	row := make([]any, columns)
	for i, v := range raw {
		switch {
		case string(v) == "null":
		case v[0] == '"':
			b := []byte{}
			if err := json.Unmarshal(v, &b); err != nil {
				return nil, err
			}
			row[i] = b
		default:
			n, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return nil, err
			}
			row[i] = n
		}
	}
	return row, nil
}

// cutter decides where chunks end: after rows with keys that have a small enough hash, the more
// often the longer the rows are.
type cutter struct{ size int }

// ends reports whether a chunk ends after a row with this key, which adds n bytes.
func (c *cutter) ends(key []byte, n int) bool {
	c.size += n
	h := fnv.New64a()
	_, _ = h.Write(key) // it returns no error
	small := float64(mixed(h.Sum64())) < float64(n)/chunkTarget*math.MaxUint64
	if c.size >= chunkMost || c.size >= chunkLeast && small {
		c.size = 0
		return true
	}
	return false
}

// mixed spreads a hash of FNV, which changes its high bits little for short keys: it is the
// finalizer of MurmurHash3.
func mixed(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// chunker divides a table's rows into chunks.
type chunker struct {
	table *Table
	store func(c *Chunk, lines []byte) error // sets the chunk's Size

	cut   cutter
	lines []byte
	rows  int64
}

func newChunker(table string, columns []string, key int, store func(*Chunk, []byte) error) chunker {
	return chunker{table: &Table{Name: table, Columns: columns, Key: key, Chunks: []Chunk{}}, store: store}
}

func (k *chunker) add(row []any) error {
	begin := len(k.lines)
	lines, err := appendRow(k.lines, row)
	if err != nil {
		return err
	}
	k.lines = lines
	k.rows++
	key, err := appendRow(nil, row[:k.table.Key])
	if err != nil {
		return err
	}
	if k.cut.ends(key, len(lines)-begin) {
		return k.end()
	}
	return nil
}

// end ends the chunk, if it has rows.
func (k *chunker) end() error {
	if k.rows == 0 {
		return nil
	}
	sum := sha256.Sum256(k.lines)
	c := Chunk{SHA256: hex.EncodeToString(sum[:]), Rows: k.rows}
	if err := k.store(&c, k.lines); err != nil {
		return err
	}
	k.table.Rows += c.Rows
	k.table.Chunks = append(k.table.Chunks, c)
	k.lines, k.rows, k.cut = k.lines[:0], 0, cutter{}
	return nil
}

// compressed returns the content for a chunk's object.
func compressed(lines []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(lines); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// lines returns a chunk's verified lines.
func (r *Repository) lines(ctx context.Context, c Chunk) ([]byte, error) {
	if len(c.SHA256) != 2*sha256.Size || c.Size > 2*chunkMost+maxRow {
		return nil, fmt.Errorf("%w: a manifest has a chunk of %d bytes with the checksum %q", ErrDamaged, c.Size, c.SHA256)
	}
	content, err := r.read(ctx, c.Object(), c.Size)
	if err != nil {
		return nil, err
	}
	from, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, c.Object(), err)
	}
	lines, err := io.ReadAll(io.LimitReader(from, chunkMost+maxRow))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, c.Object(), err)
	}
	if sum := sha256.Sum256(lines); hex.EncodeToString(sum[:]) != c.SHA256 {
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, c.Object())
	}
	return lines, nil
}

// maxRow is more than any row's length: an upload's metadata, a payment's proof.
const maxRow = 4 << 20

// Rows calls fn with a table's rows, a chunk at a time. It returns ErrDamaged for a chunk that is
// missing or does not match its checksum.
func (r *Repository) Rows(ctx context.Context, t *Table, fn func(rows [][]any) error) error {
	if t == nil {
		return fmt.Errorf("%w: the manifest lacks a table", ErrDamaged)
	}
	for _, c := range t.Chunks {
		lines, err := r.lines(ctx, c)
		if err != nil {
			return err
		}
		rows, err := parseRows(lines, len(t.Columns), c.Rows)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, c.Object(), err)
		}
		if err := fn(rows); err != nil {
			return err
		}
	}
	return nil
}

func parseRows(lines []byte, columns int, want int64) ([][]any, error) {
	var rows [][]any
	scan := bufio.NewScanner(bytes.NewReader(lines))
	scan.Buffer(nil, len(lines)+1)
	for scan.Scan() {
		row, err := parseRow(scan.Bytes(), columns)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if int64(len(rows)) != want {
		return nil, errors.New("it does not have as many rows as in the manifest")
	}
	return rows, nil
}
