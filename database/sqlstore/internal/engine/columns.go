package engine

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"time"
)

// Truncate returns a time as it is stored: to the microsecond, in UTC.
func Truncate(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Micros returns a time's column. The zero time is NULL.
func Micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// BlocksColumn returns the column for an extent's block checksums.
func BlocksColumn(blocks []uint32) []byte {
	b := make([]byte, 0, 4*len(blocks))
	for _, c := range blocks {
		b = binary.BigEndian.AppendUint32(b, c)
	}
	return b
}

// BytesColumn returns the column for optional bytes. nil is NULL.
func BytesColumn(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// OptionalColumn returns an optional text's column. The empty text is NULL.
func OptionalColumn(s string) any {
	if s == "" {
		return nil
	}
	return []byte(s)
}

var emptyText any = []byte{}

// TextColumn returns a text's column.
func TextColumn(s string) any {
	if s == "" {
		return emptyText // many are, and each would allocate a slice
	}
	return []byte(s)
}

// FlagColumn returns a flag's column.
func FlagColumn(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// The types below implement sql.Scanner to scan columns without reflection.

// Integer scans an integer.
type Integer int64

// Scan implements sql.Scanner.
func (i *Integer) Scan(src any) error {
	v, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is not an integer", src)
	}
	*i = Integer(v)
	return nil
}

// Boolean scans 0 and 1.
type Boolean bool

// Scan implements sql.Scanner.
func (b *Boolean) Scan(src any) error {
	v, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is not 0 or 1", src)
	}
	*b = v != 0
	return nil
}

// CRC scans a checksum, which is stored as a signed integer.
type CRC uint64

// Scan implements sql.Scanner.
func (c *CRC) Scan(src any) error {
	v, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is not a CRC", src)
	}
	*c = CRC(v)
	return nil
}

// Instant scans microseconds since 1970, and NULL as the zero time.
type Instant time.Time

// Scan implements sql.Scanner.
func (i *Instant) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*i = Instant{}
	case int64:
		*i = Instant(time.UnixMicro(v).UTC())
	default:
		return fmt.Errorf("%T is not a time", src)
	}
	return nil
}

// ContentID scans an id of 16 bytes.
type ContentID [16]byte

// Scan implements sql.Scanner.
func (c *ContentID) Scan(src any) error {
	b, ok := src.([]byte)
	if !ok || len(b) != len(c) {
		return fmt.Errorf("%T of %d bytes is not a content id", src, len(b))
	}
	copy(c[:], b)
	return nil
}

// Blocks scans NULL as nil.
type Blocks []uint32

// Scan implements sql.Scanner.
func (b *Blocks) Scan(src any) error {
	if src == nil {
		*b = nil
		return nil
	}
	raw, ok := src.([]byte)
	if !ok || len(raw)%4 != 0 {
		return fmt.Errorf("%T of %d bytes is not a list of block checksums", src, len(raw))
	}
	*b = make(Blocks, 0, len(raw)/4)
	for ; len(raw) > 0; raw = raw[4:] {
		*b = append(*b, binary.BigEndian.Uint32(raw))
	}
	return nil
}

// OptionalText scans NULL as the empty string.
type OptionalText string

// Scan implements sql.Scanner.
func (s *OptionalText) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*s = ""
	case []byte:
		*s = OptionalText(v)
	default:
		return fmt.Errorf("%T is not bytes", src)
	}
	return nil
}

// Body scans anything but bytes as nil: a value of another type, as somebody could store it in
// SQLite, is no body, and must not fail a query for other rows.
type Body []byte

// Scan implements sql.Scanner.
func (b *Body) Scan(src any) error {
	if v, ok := src.([]byte); ok {
		return scanBytes(b, v)
	}
	*b = nil
	return nil
}

// scanInteger is scan for an integer. For the most frequent destinations it converts it to no
// interface, because that allocates.
func scanInteger(out any, v int64) error {
	switch out := out.(type) {
	case *Integer:
		*out = Integer(v)
	case *CRC:
		*out = CRC(v)
	case *Boolean:
		*out = v != 0
	case *Instant:
		*out = Instant(time.UnixMicro(v).UTC())
	case *StoredSum:
		*out = StoredSum{v, true}
	default:
		return scan(out, v)
	}
	return nil
}

// scanBytes is scan for bytes. For the most frequent destinations it converts them to no interface,
// because that allocates. A string that has these bytes already is kept: successive rows often have
// equal columns.
func scanBytes(out any, v []byte) error {
	switch out := out.(type) {
	case *string:
		if *out != string(v) {
			*out = string(v)
		}
		return nil
	case *OptionalText:
		if *out != OptionalText(v) {
			*out = OptionalText(v)
		}
		return nil
	case *Body:
		*out = append([]byte(nil), v...)
		return nil
	case *ContentID:
		if len(v) == len(out) {
			copy(out[:], v)
			return nil
		}
	}
	return scan(out, v)
}

// scan stores a column. A driver's []byte is valid only until the next row, so scan copies it.
func scan(out, v any) error {
	switch out := out.(type) {
	case sql.Scanner:
		return out.Scan(v)
	case *string:
		switch v := v.(type) {
		case []byte:
			return scanBytes(out, v)
		case string:
			*out = v
			return nil
		}
	case *[]byte:
		switch v := v.(type) {
		case []byte:
			*out = append([]byte(nil), v...)
			return nil
		case nil:
			*out = nil
			return nil
		}
	}
	return fmt.Errorf("cannot scan %T into %T", v, out)
}
