package sqlstore

import (
	"crypto/sha256"
	"strings"
)

// headLen is the number of bytes of a name that the key of its row holds.
const headLen = 2000

// name is the name of a blob as it is stored. The slices are never nil, which would be
// NULL.
type name struct {
	head, hash, tail []byte
}

func splitName(s string) name {
	if len(s) <= headLen {
		return name{head: []byte(s), hash: []byte{}, tail: []byte{}}
	}
	tail := []byte(s[headLen:])
	hash := sha256.Sum256(tail)
	return name{head: []byte(s[:headLen]), hash: hash[:], tail: tail}
}

// blobKey identifies a row of blobs.
type blobKey struct{ account, head, hash string }

// cloned returns a copy that shares no memory with the key, which may be a part of a request.
func (k blobKey) cloned() blobKey {
	return blobKey{strings.Clone(k.account), strings.Clone(k.head), strings.Clone(k.hash)}
}

// blobKeyOf returns the key of a name without copying it, unless it is long.
func blobKeyOf(account, name string) blobKey {
	if len(name) <= headLen {
		return blobKey{account: account, head: name}
	}
	n := splitName(name)
	return blobKey{account, string(n.head), string(n.hash)}
}
