package micropay

import (
	"encoding/binary"
	"math"
)

// reader decodes BCS values from a byte slice. It records the first error and continues as far as
// possible, so callers decode a whole structure and then check err once; after the end it returns
// zero values, and rest is nil. It does not allocate: byte strings alias the input.
type reader struct {
	rest []byte
	err  error
}

// fail records an error after which decoding can continue.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// stop records an error after which decoding cannot continue.
func (r *reader) stop(err error) {
	r.fail(err)
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.stop(refuse(ClassParse, ReasonTruncated, "the bytes end before the transaction does"))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u8() uint8 {
	b := r.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (r *reader) u64() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) address() (a Address) {
	copy(a[:], r.take(len(a)))
	return a
}

// uleb decodes a length, count or variant: ULEB128 in its shortest form, up to 2^31-1, which is
// the greatest length in BCS.
func (r *reader) uleb() int {
	v, n := binary.Uvarint(r.rest)
	if n < 0 || v > math.MaxInt32 {
		r.stop(refuse(ClassParse, ReasonNotCanonical, "a length is above 2^31-1"))
		return 0
	}
	if n == 0 { // the number does not end before the bytes do
		n = len(r.rest) + 1
	}
	b := r.take(n)
	if len(b) > 1 && b[n-1] == 0 {
		r.fail(refuse(ClassParse, ReasonNotCanonical, "a length is not in its shortest form"))
	}
	return int(v)
}

// variant decodes a variant's number, which must be below known. Errors name the type by label.
func (r *reader) variant(label string, known int) int {
	v := r.uleb()
	if v >= known {
		r.stop(refuse(ClassParse, ReasonUnknownVariant, "%s has no variant %d", label, v))
	}
	return v
}

func (r *reader) option(label string) bool {
	tag := r.u8()
	if tag > 1 {
		r.stop(refuse(ClassParse, ReasonUnknownVariant, "%s has option tag %d", label, tag))
	}
	return tag == 1
}

// bytes decodes a byte string of any length.
func (r *reader) bytes() []byte { return r.take(r.uleb()) }

// sized decodes a byte string with exactly n bytes.
func (r *reader) sized(label string, n int) []byte {
	b := r.bytes()
	if b != nil && len(b) != n {
		r.stop(refuse(ClassParse, ReasonAuthenticator, "%s has %d bytes, not %d", label, len(b), n))
		return nil
	}
	return b
}

func appendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// appendUleb encodes v as ULEB128, which is the varint of encoding/binary.
func appendUleb(b []byte, v int) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendBytes(b []byte, s string) []byte { return append(appendUleb(b, len(s)), s...) }
