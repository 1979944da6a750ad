package blob

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockSum returns the CRC-32C of a block, or of a piece of one.
func blockSum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// updateBlockSum returns the CRC-32C of the bytes summed so far followed by b.
func updateBlockSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
