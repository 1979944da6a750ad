// Package commit computes the roots to which a blob is committed, writes ranges of it with a proof,
// and verifies them.
//
// # Roots
//
// A blob is cut into chunksets of 10 MiB, the last one filled up with zeros. An empty blob has one
// chunkset. The ten chunks of 1 MiB in a chunkset are data in the Clay code (16, 10, 13), which
// adds six parity chunks; see package claycode. A chunk is 1,024 samples of 1 KiB. Each root is the
// root in a binary tree of SHA-256 hashes:
//
//   - A chunk's root is over its samples. A leaf is the hash over a sample's bytes.
//   - A chunkset's root is over its sixteen chunks' roots.
//   - A blob's root is over its chunksets' roots.
//
// A node is the hash over its two children, one after the other. If a level has an odd number of
// nodes, 32 zero bytes are added as a node; a single node is the root. These are the commitments of
// @shelby-protocol/sdk 0.1.0.
//
// A root does not bind the blob's size: zeros at its end and the zeros that fill up its last
// chunkset are the same. So who verifies needs the root and the size.
//
// # Proven ranges
//
// A Prover writes a blob's range such that a Reader can verify it, 1 MiB at a time, without
// trusting the writer. The format has no lengths and no choices: size and range determine which
// hashes and bytes follow each other.
//
//  1. The blob's tree: from left to right, the roots of chunksets in the range, and of the greatest
//     subtrees beside it. A blob with one chunkset has none.
//  2. For each chunkset in the range, the tree of its chunks in the same way; then for each of its
//     chunks in the range:
//  3. the chunk's tree, with the greatest subtrees beside the range only, and
//  4. the range's bytes in the chunk, widened to whole samples.
//
// Samples beyond the blob's end are zero. Bytes that fill up the last sample, and subtrees of data
// that are wholly beyond the end, are not written.
package commit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Sizes in bytes.
const (
	SampleSize   = 1 << 10
	ChunkSize    = 1 << 20
	ChunksetSize = dataChunks * ChunkSize
	planeSize    = ChunkSize >> 8
)

// The network's Clay code, and the heights of trees over a chunk's samples and a chunkset's chunks.
const (
	chunks         = 16
	dataChunks     = 10
	helpers        = 13
	chunkHeight    = 10
	chunkSamples   = 1 << chunkHeight
	chunksetHeight = 4
)

// Root is a node in the trees: a blob's root, for example.
type Root [sha256.Size]byte

// String returns 0x and 64 hexadecimal digits.
func (r Root) String() string { return "0x" + hex.EncodeToString(r[:]) }

// MarshalText implements encoding.TextMarshaler.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseRoot parses a root's text.
func ParseRoot(text string) (r Root, err error) {
	digits, prefixed := strings.CutPrefix(text, "0x")
	if !prefixed || len(digits) != 2*len(r) {
		return Root{}, fmt.Errorf("commit: a root is 0x and %d hexadecimal digits, not %q", 2*len(r), text)
	}
	if _, err := hex.Decode(r[:], []byte(digits)); err != nil {
		return Root{}, fmt.Errorf("commit: root %q: %w", text, err)
	}
	return r, nil
}

// Commitment is a blob's roots.
type Commitment struct {
	Size      int64
	Root      Root
	Chunksets []Chunkset
}

// Chunkset is a chunkset's roots, for its ten data chunks and then its six parity chunks.
type Chunkset struct {
	Root   Root
	Chunks [chunks]Root
}

// Empty returns an empty blob's root.
func Empty() Root { return zeros[len(zeros)-1] }

// zeros has the roots of subtrees over samples of zeros, by their heights.
var zeros = func() (roots [chunkHeight + chunksetHeight + 1]Root) {
	roots[0] = sha256.Sum256(make([]byte, SampleSize))
	for h := range roots[1:] {
		roots[h+1] = node(roots[h], roots[h])
	}
	return roots
}()

// node returns the parent of two nodes.
func node(left, right Root) Root {
	var both [2 * sha256.Size]byte
	copy(both[:sha256.Size], left[:])
	copy(both[sha256.Size:], right[:])
	return sha256.Sum256(both[:])
}
