package cached

import (
	"hash/crc32"

	"sluice/bytestore"
)

// blockSize is a block's length in bytes. An object's last block may be shorter.
const blockSize = 1 << 20

// headerSize is the length in bytes of the header in a block's file.
const headerSize = 256

// blockID identifies an object's block.
type blockID struct {
	object bytestore.Name
	number int64 // from 0
}

// span is a block's first length bytes.
type span struct {
	blockID
	length int64 // 1 to blockSize
}

// entry is a cached block. It is immutable.
type entry struct {
	span
	tag uint64 // distinguishes the same block's files
}

// size returns the disk space that the file takes in bytes.
func (e *entry) size() int64 {
	return (headerSize + e.length + diskBlock - 1) / diskBlock * diskBlock
}

// diskBlock is the unit of disk space in bytes.
const diskBlock = 4 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
