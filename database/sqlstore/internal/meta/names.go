package meta

import (
	"crypto/sha256"
	"strings"

	"sluice/database/sqlstore/internal/engine"
)

// headLen is how many bytes of a name its row's key holds.
const headLen = 2000

// name is a blob's name as it is stored. The slices are never nil: nil would be NULL.
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

// cloned returns a copy that shares no memory with the key: the key may be part of a request.
func cloned(k engine.RowKey) engine.RowKey {
	return engine.RowKey{strings.Clone(k[0]), strings.Clone(k[1]), strings.Clone(k[2])}
}

// blobKey returns the row key for a blob without copying its name, unless that is long.
func blobKey(account, name string) engine.RowKey {
	if len(name) <= headLen {
		return engine.RowKey{account, name}
	}
	return rowKey(account, splitName(name))
}

// rowKey returns a blob's row key.
func rowKey(account string, n name) engine.RowKey {
	return engine.RowKey{account, string(n.head), string(n.hash)}
}
