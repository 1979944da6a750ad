package blob

import (
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of a block, or of a piece of one.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// updateChecksum returns the CRC-32C of the bytes summed so far followed by b.
func updateChecksum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// polynomial is that of CRC-64/NVME (NVM Express NVM Command Set Specification 1.0,
// 5.2.1.3.4) with its bits reflected: the highest bit is the coefficient of x^0.
const polynomial = 0x9a6c9329ac4bc9b5

// crcCombiner computes the CRC-64/NVME of concatenated bytes from the CRCs of the
// parts. It caches the operator of the last length, so that parts of equal length
// cost one multiplication each. The zero value is ready to use.
type crcCombiner struct {
	length int64
	shift  uint64 // x^(8*length) modulo the polynomial
}

// combine returns the CRC of a followed by b from the CRCs of both and the length
// of b in bytes. It is M. Adler's crc32_combine, by multiplication modulo the
// polynomial. The initial and final inversions of the register cancel out.
func (c *crcCombiner) combine(a, b uint64, lengthOfB int64) uint64 {
	if lengthOfB == 0 {
		return a
	}
	if c.length != lengthOfB {
		c.length, c.shift = lengthOfB, power(uint64(lengthOfB))
	}
	return multiply(a, c.shift) ^ b
}

// power returns x^(8n) modulo the polynomial.
func power(n uint64) uint64 {
	const one = 1 << 63
	result, square := uint64(one), uint64(one>>8)
	for range bits.Len64(n) {
		if n&1 != 0 {
			result = multiply(result, square)
		}
		square = multiply(square, square)
		n >>= 1
	}
	return result
}

// multiply returns a*b modulo the polynomial.
func multiply(a, b uint64) uint64 {
	var product uint64
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 63)
		b = b>>1 ^ polynomial&-(b&1)
	}
	return product
}
