package blob

import "math/bits"

// polynomial is that of CRC-64/NVME (NVM Express NVM Command Set
// Specification 1.0, 5.2.1.3.4) with its bits reflected: the top bit is the
// coefficient of x^0.
const polynomial = 0x9a6c9329ac4bc9b5

// combiner appends runs of bytes to a CRC-64/NVME without seeing them. It
// remembers the operator of the last length, so that equal parts cost one
// multiplication each. The zero value is ready to use.
type combiner struct {
	length int64
	shift  uint64 // x^(8*length) modulo the polynomial
}

// combine gives the CRC of a followed by b from the CRCs of both and the
// length of b in bytes. (M. Adler's crc32_combine, by multiplication modulo the
// polynomial. The register's initial and final inversions cancel out.)
func (c *combiner) combine(a, b uint64, lengthOfB int64) uint64 {
	if lengthOfB == 0 {
		return a
	}
	if c.length != lengthOfB {
		c.length, c.shift = lengthOfB, power(uint64(lengthOfB))
	}
	return multiply(a, c.shift) ^ b
}

// power gives x^(8n) modulo the polynomial.
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

// multiply gives a*b modulo the polynomial.
func multiply(a, b uint64) uint64 {
	var product uint64
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 63)
		b = b>>1 ^ polynomial&-(b&1)
	}
	return product
}
