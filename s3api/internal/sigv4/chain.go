package sigv4

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// Chain verifies the signatures of a body's chunks. Each covers the one before. A Chain is not safe
// for concurrent use.
type Chain struct {
	key         key
	time, scope string
	last        [sha256.Size]byte
}

// emptyDigest is the SHA-256 of nothing, which a chunk's text to sign contains.
var emptyDigest = func() string {
	sum := sha256.Sum256(nil)
	return hex.EncodeToString(sum[:])
}()

// Chunk reports whether the next chunk has this signature, in hexadecimal digits. digest is its
// SHA-256. After false the chain must not be used again.
func (c *Chain) Chunk(digest [sha256.Size]byte, signature string) bool {
	return c.next(algorithm+"-PAYLOAD", emptyDigest+"\n"+hex.EncodeToString(digest[:]), signature)
}

// Trailer reports whether the trailer has this signature. digest is its SHA-256. It must follow the
// last chunk.
func (c *Chain) Trailer(digest [sha256.Size]byte, signature string) bool {
	return c.next(algorithm+"-TRAILER", hex.EncodeToString(digest[:]), signature)
}

func (c *Chain) next(kind, digests, signature string) bool {
	want := mac(c.key[:], kind+"\n"+c.time+"\n"+c.scope+"\n"+hex.EncodeToString(c.last[:])+"\n"+digests)
	c.last = want
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(want[:])), []byte(signature)) == 1
}
