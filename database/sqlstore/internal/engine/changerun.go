package engine

import (
	"encoding/binary"
	"errors"
	"iter"
)

// ChangeRun are consecutive changes of blobs as the table changes has them: each as its room
// encodes it, behind its length.
type ChangeRun struct {
	Packed []byte
	Count  int64
	At     int64 // the latest time, in microseconds
	newest int   // where the last change begins in Packed
}

// A row's bounds. A single change may have more bytes.
const (
	maxRowChanges = 1000
	maxRowBytes   = 256 << 10
)

// Add appends a change, or for one that was removed an empty one. It may be in the run's own memory
// directly behind the end.
func (r *ChangeRun) Add(change []byte) {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(change)))
	at := len(r.Packed)
	r.Packed = append(append(r.Packed, change...), length[:n]...)
	copy(r.Packed[at+n:], r.Packed[at:])
	copy(r.Packed[at:], length[:n])
	r.Count++
	r.newest = at + n
}

// reset makes the run empty, and keeps its memory unless that is large.
func (r *ChangeRun) reset() {
	if cap(r.Packed) > 4*maxRowBytes {
		r.Packed = nil
	}
	*r = ChangeRun{Packed: r.Packed[:0]}
}

var errChangeRun = errors.New("a run of changes is damaged")

// Unpack returns the changes in a run, and an error behind them if it is damaged.
func Unpack(packed []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(packed) > 0 {
			n, size := binary.Uvarint(packed)
			padded := size > 1 && packed[size-1] == 0
			if size <= 0 || padded || n > uint64(len(packed)-size) {
				yield(nil, errChangeRun)
				return
			}
			change := packed[size : size+int(n)]
			if packed = packed[size+int(n):]; !yield(change, nil) {
				return
			}
		}
	}
}

// ChangeRow is a row in the table changes.
type ChangeRow struct {
	Last   int64 // the last change's number
	At     int64
	Packed []byte
}

// Sum returns the row's checksum.
func (r *ChangeRow) Sum() int64 { return BeginRowSum().Int(r.Last).Int(r.At).Bytes(r.Packed).Sum() }

// Before returns the number before the row's first change, or an error if the row is damaged.
func (r *ChangeRow) Before() (int64, error) {
	number := r.Last
	for _, err := range Unpack(r.Packed) {
		if err != nil {
			return 0, err
		}
		number--
	}
	return number, nil
}

// Append appends a packed run's changes.
func (r *ChangeRun) Append(packed []byte) error {
	row := ChangeRow{Packed: packed}
	before, err := row.Before()
	if err != nil {
		return err
	}
	r.Packed, r.Count = append(r.Packed, packed...), r.Count-before
	return nil
}

// ChangeColumns are the columns of ChangeRow.Values.
const ChangeColumns = `last, at, packed, row_sum`

// Values returns the row's values.
func (r *ChangeRow) Values() []any { return []any{r.Last, r.At, r.Packed, r.Sum()} }

// Cut removes the first changes from the run, as many as a row can have, and returns the row with
// them. last is the number of the change before them. It returns false if the run is empty.
func (r *ChangeRun) Cut(last int64) (row ChangeRow, ok bool) {
	count, end := r.Count, len(r.Packed)
	if count > maxRowChanges || end > maxRowBytes {
		count, end = 0, 0
		for change, err := range Unpack(r.Packed) {
			if err != nil {
				panic(err) // Add and Append have checked it
			}
			next := end + len(binary.AppendUvarint(nil, uint64(len(change)))) + len(change)
			if count > 0 && (count == maxRowChanges || next > maxRowBytes) {
				break
			}
			count, end = count+1, next
		}
	}
	row = ChangeRow{last + count, r.At, r.Packed[:end:end]}
	r.Packed, r.Count = r.Packed[end:], r.Count-count
	return row, count > 0
}
