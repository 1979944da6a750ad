// Package checksum computes the ETags of blobs. An ETag is a content's size and its CRC-64/NVME,
// which can be combined from the parts' CRCs without reading them again.
//
// A CRC protects against accidents. It does not protect against someone who chooses the bytes.
package checksum

import (
	"hash"
	"strconv"
	"strings"

	"github.com/minio/crc64nvme"
)

// New returns a CRC-64/NVME (NVM Express NVM Command Set Specification 1.0, 5.2.1.3.4).
func New() hash.Hash64 { return crc64nvme.New() }

// Update returns the CRC-64/NVME over the bytes summed so far and then p. Over no bytes it is 0.
func Update(crc uint64, p []byte) uint64 { return crc64nvme.Update(crc, p) }

// ETag returns a content's strong entity tag, including the quotes. It depends only on the
// content's size in bytes and its CRC-64/NVME.
func ETag(size int64, crc uint64) string {
	buffer := make([]byte, 0, len(`"-"`)+2*16)
	buffer = strconv.AppendInt(append(buffer, '"'), size, 16)
	buffer = append(buffer, '-')
	for shift := 60; shift >= 0; shift -= 4 {
		buffer = append(buffer, "0123456789abcdef"[crc>>shift&0xf])
	}
	return string(append(buffer, '"'))
}

// ParseETag returns a content's size and CRC-64/NVME from its ETag, with or without the quotes. It
// reports whether the ETag has the form that ETag returns.
func ParseETag(etag string) (size int64, crc uint64, ok bool) {
	unquoted := strings.TrimSuffix(strings.TrimPrefix(etag, `"`), `"`)
	sizeHex, crcHex, _ := strings.Cut(unquoted, "-")
	size, sizeErr := strconv.ParseInt(sizeHex, 16, 64)
	crc, crcErr := strconv.ParseUint(crcHex, 16, 64)
	if sizeErr != nil || crcErr != nil || size < 0 || strings.Trim(ETag(size, crc), `"`) != unquoted {
		return 0, 0, false
	}
	return size, crc, true
}

// polynomial is CRC-64/NVME's, with its bits reflected: the highest bit is the coefficient of x^0.
const polynomial = 0x9a6c9329ac4bc9b5

// Combiner computes the CRC-64/NVME of concatenated bytes from the parts' CRCs. It caches the
// operator for the last length, so that parts of equal length cost one multiplication each. The
// zero value is ready to use. A Combiner must not be used concurrently.
type Combiner struct {
	length int64
	shift  uint64 // x^(8*length) modulo the polynomial
}

// Combine returns the CRC over a and then b, from their CRCs and b's length in bytes. It is M.
// Adler's crc32_combine, by multiplication modulo the polynomial. The register's initial and final
// inversions cancel out.
func (c *Combiner) Combine(a, b uint64, lengthOfB int64) uint64 {
	if lengthOfB == 0 {
		return a
	}
	if c.length != lengthOfB {
		c.length, c.shift = lengthOfB, power(lengthOfB, uint64(polynomial))
	}
	return multiply(a, c.shift, polynomial) ^ b
}

// Combine32 is Combiner.Combine for the CRC-32 that has this polynomial, as package hash/crc32
// writes it.
func Combine32(polynomial, a, b uint32, lengthOfB int64) uint32 {
	return multiply(a, power(lengthOfB, polynomial), polynomial) ^ b
}

// power returns x^(8n) modulo the polynomial.
func power[T uint32 | uint64](n int64, polynomial T) T {
	one := ^(^T(0) >> 1) // the highest bit
	result, square := one, one>>8
	for ; n != 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(result, square, polynomial)
		}
		square = multiply(square, square, polynomial)
	}
	return result
}

// multiply returns a*b modulo the polynomial.
func multiply[T uint32 | uint64](a, b, polynomial T) T {
	var product T
	for highest := ^(^T(0) >> 1); a != 0; a <<= 1 {
		if a&highest != 0 {
			product ^= b
		}
		b = b>>1 ^ polynomial&-(b&1)
	}
	return product
}
