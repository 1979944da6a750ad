package blob

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockSum returns a block's CRC-32C, or a piece's.
func blockSum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// updateBlockSum returns the CRC-32C after b, where sum is the one before b.
func updateBlockSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
