package engine

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"sluice/database"
)

// A row on which bytes or money depend has a checksum over its immutable columns in its column
// row_sum: a CRC-32C of their encodings, which begin with their lengths. NULL is unchecked: a
// backup of the time before the first release had the row without one.

var (
	rowSumTable   = crc32.MakeTable(crc32.Castagnoli)
	rowSumBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}
)

// RowSum is the checksum of a row to which columns are added. BeginRowSum makes it and Sum ends it.
type RowSum struct{ columns *[]byte }

// BeginRowSum returns a checksum of no columns.
func BeginRowSum() RowSum { return RowSum{rowSumBuffers.Get().(*[]byte)} }

// Int adds an integer.
func (s RowSum) Int(v int64) RowSum {
	*s.columns = binary.BigEndian.AppendUint64(*s.columns, uint64(v))
	return s
}

// Bytes adds bytes.
func (s RowSum) Bytes(b []byte) RowSum {
	*s.columns = append(binary.BigEndian.AppendUint32(*s.columns, uint32(len(b))), b...)
	return s
}

// Text adds a text.
func (s RowSum) Text(text string) RowSum {
	*s.columns = append(binary.BigEndian.AppendUint32(*s.columns, uint32(len(text))), text...)
	return s
}

// Uints adds a list of integers.
func (s RowSum) Uints(list []uint32) RowSum {
	*s.columns = binary.BigEndian.AppendUint32(*s.columns, uint32(len(list)))
	for _, v := range list {
		*s.columns = binary.BigEndian.AppendUint32(*s.columns, v)
	}
	return s
}

// Sum returns the checksum. s must not be used any more.
func (s RowSum) Sum() int64 {
	sum := crc32.Checksum(*s.columns, rowSumTable)
	*s.columns = (*s.columns)[:0]
	rowSumBuffers.Put(s.columns)
	return int64(sum)
}

// StoredSum is the destination of a column row_sum.
type StoredSum struct {
	sum   int64
	known bool
}

// Scan implements sql.Scanner. NULL is no checksum.
func (s *StoredSum) Scan(src any) error {
	*s = StoredSum{}
	switch v := src.(type) {
	case nil:
	case int64:
		*s = StoredSum{v, true}
	default:
		return fmt.Errorf("%T is not a row's checksum", src)
	}
	return nil
}

// Known reports whether the row has a checksum.
func (s StoredSum) Known() bool { return s.known }

// Differs reports whether the row has another checksum than sum, and so is damaged.
func (s StoredSum) Differs(sum int64) bool { return s.known && s.sum != sum }

// DamagedRow returns the error for a row that does not match its checksum.
func DamagedRow(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), database.ErrDamagedRow)
}
