// Package integrity checks stored bytes against their blocks' checksums, records damage, and heals
// it from a second store. It finds damage by a scrub, which reads everything once in a period, by a
// comparison with the store's listing, and by reads that fail.
package integrity

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"syscall"

	"sluice/bytestore"
	"sluice/metastore"
)

// ErrCorrupt is returned if stored bytes do not match their checksum, are missing, or cannot be
// read off their medium (EIO). It is not returned if the store is unreachable.
var ErrCorrupt = errors.New("stored bytes are damaged")

const (
	// BlockSize is a block's length in bytes. An extent's last block may be shorter. Each block has
	// its own CRC-32C.
	BlockSize = 1 << 20

	// MaxBlocks is the number of blocks in the longest extent.
	MaxBlocks = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the CRC-32C of a block, or of a part of it.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// UpdateSum returns the CRC-32C after b, where sum is the one before b.
func UpdateSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// buffers has buffers of a block.
var buffers = sync.Pool{New: func() any { return new([BlockSize]byte) }}

// CheckExtent reports whether an extent has a checksum for each of its blocks.
func CheckExtent(e *metastore.Extent) error {
	blocks := (e.Size + BlockSize - 1) / BlockSize
	if int64(len(e.Blocks)) != blocks || blocks > MaxBlocks {
		return fmt.Errorf("%w: extent %s of %d bytes has %d checksums", ErrCorrupt, e.Object, e.Size, len(e.Blocks))
	}
	return nil
}

// IsDamage reports whether a store's error means that bytes are missing or unreadable: any other
// error, such as an outage, is not about the bytes.
func IsDamage(err error) bool {
	for _, damage := range []error{io.EOF, bytestore.ErrNotFound, bytestore.ErrTruncated, syscall.EIO} {
		if errors.Is(err, damage) {
			return true
		}
	}
	return false
}
