// Package checksums verifies the checksums that S3 clients send with a body: the flexible checksums
// ("Checking object integrity" in the Amazon S3 User Guide) and Content-MD5. It knows headers and
// bytes, but no requests and no storage.
package checksums

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"

	"sluice/checksum"
)

// Algorithm is a flexible checksum's algorithm, under the name that it has in documents and in
// x-amz-checksum-algorithm. The empty Algorithm is none.
type Algorithm string

// The algorithms.
const (
	CRC32     Algorithm = "CRC32"
	CRC32C    Algorithm = "CRC32C"
	CRC64NVME Algorithm = "CRC64NVME"
	SHA1      Algorithm = "SHA1"
	SHA256    Algorithm = "SHA256"
	SHA512    Algorithm = "SHA512"
	MD5       Algorithm = "MD5"
	XXHash64  Algorithm = "XXHASH64"
	XXHash3   Algorithm = "XXHASH3" // with a seed of 0 and 64 bits
	XXHash128 Algorithm = "XXHASH128"
)

// Algorithms returns all algorithms.
func Algorithms() []Algorithm {
	return []Algorithm{CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHash64, XXHash3, XXHash128}
}

// ParseAlgorithm returns the algorithm with this name, in any case. The error wraps
// ErrInvalidRequest.
func ParseAlgorithm(name string) (Algorithm, error) {
	for _, a := range Algorithms() {
		if strings.EqualFold(string(a), name) {
			return a, nil
		}
	}
	return "", fmt.Errorf("%w: the checksum algorithm must be one of %v", ErrInvalidRequest, Algorithms())
}

// headerPrefix begins the name of every header with a checksum.
const headerPrefix = "x-amz-checksum-"

// Header names the header or trailer field with the checksum, in lower case.
func (a Algorithm) Header() string { return headerPrefix + strings.ToLower(string(a)) }

// algorithmOf returns the algorithm with this header. The name must be in lower case.
func algorithmOf(header string) (Algorithm, bool) {
	for _, a := range Algorithms() {
		if a.Header() == header {
			return a, true
		}
	}
	return "", false
}

// Size returns how many bytes a checksum has. It is 0 if a is none.
func (a Algorithm) Size() int {
	if a == "" {
		return 0
	}
	return a.New().Size()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// New returns a hash. It panics if a is none.
func (a Algorithm) New() hash.Hash {
	switch a {
	case CRC32:
		return crc32.NewIEEE()
	case CRC32C:
		return crc32.New(castagnoli)
	case CRC64NVME:
		return bigEndian{checksum.New()}
	case SHA1:
		return sha1.New()
	case SHA256:
		return sha256.New()
	case SHA512:
		return sha512.New()
	case MD5:
		return md5.New()
	case XXHash64:
		return xxhash.New()
	case XXHash3:
		return xxh3.New()
	case XXHash128:
		return wide{xxh3.New()}
	}
	panic(fmt.Sprintf("checksums: there is no algorithm %q", string(a)))
}

// bigEndian is a CRC-64 that S3 writes with the highest byte first.
type bigEndian struct{ hash.Hash64 }

// Sum implements hash.Hash.
func (b bigEndian) Sum(p []byte) []byte { return binary.BigEndian.AppendUint64(p, b.Sum64()) }

// wide is XXH3 with 128 bits.
type wide struct{ *xxh3.Hasher }

// Size implements hash.Hash.
func (wide) Size() int { return 16 }

// Sum implements hash.Hash.
func (w wide) Sum(p []byte) []byte {
	sum := w.Sum128().Bytes()
	return append(p, sum[:]...)
}

// Value is a checksum. The zero Value is none.
type Value struct {
	Algorithm Algorithm
	Sum       []byte // of Algorithm.Size bytes
}

// ParseValue reads a checksum in base64, as headers and documents have it. The error wraps
// ErrInvalidRequest.
func ParseValue(a Algorithm, text string) (Value, error) {
	sum, ok := decode(text, a.Size())
	if !ok {
		return Value{}, fmt.Errorf("%w: the value for %s must be the base64 form of %d bytes", ErrInvalidRequest, a.Header(), a.Size())
	}
	return Value{a, sum}, nil
}

// decode reads base64, and reports whether it has this many bytes. There is one form of them, so a
// line's end in the text is refused, which base64 ignores.
func decode(text string, size int) ([]byte, bool) {
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sum) != size || base64.StdEncoding.EncodeToString(sum) != text {
		return nil, false
	}
	return sum, true
}

// String returns the checksum in base64, or nothing for none.
func (v Value) String() string { return base64.StdEncoding.EncodeToString(v.Sum) }

// Type is the way in which an object's checksum comes from its parts' checksums.
type Type string

// The types.
const (
	Composite  Type = "COMPOSITE"   // computed over the parts' checksums
	FullObject Type = "FULL_OBJECT" // computed over the whole content
)

// TypeOf returns an object's type of checksum, by the form in which S3 writes it.
func TypeOf(text string) Type {
	if strings.Contains(text, "-") {
		return Composite
	}
	return FullObject
}

// ParseType returns the type with this name, in any case. With no name it is the one that S3
// assumes for a. The error, if a does not have the type, wraps ErrInvalidRequest.
func ParseType(a Algorithm, name string) (Type, error) {
	full, composite := a != SHA1 && a != SHA256, a != CRC64NVME
	switch {
	case name == "" && composite, composite && strings.EqualFold(name, string(Composite)):
		return Composite, nil
	case name == "" && full, full && strings.EqualFold(name, string(FullObject)):
		return FullObject, nil
	}
	return "", fmt.Errorf("%w: the checksum type must be COMPOSITE or FULL_OBJECT, and one that %s has", ErrInvalidRequest, a)
}

// CompositeOf returns an object's composite checksum from its parts' checksums, in the form
// that S3 gives it: base64, a hyphen and the number of parts.
func CompositeOf(a Algorithm, parts []Value) string {
	h := a.New()
	for _, part := range parts {
		h.Write(part.Sum)
	}
	return Value{a, h.Sum(nil)}.String() + "-" + strconv.Itoa(len(parts))
}
