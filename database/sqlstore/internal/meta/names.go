package meta

import (
	"crypto/sha256"
	"strings"

	"sluice/database/sqlstore/internal/engine"
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

// cloned returns a copy that shares no memory with the key, which may be a part of a request.
func cloned(k engine.RowKey) engine.RowKey {
	return engine.RowKey{strings.Clone(k[0]), strings.Clone(k[1]), strings.Clone(k[2])}
}

// blobKey returns the key of a blob's row without copying its name, unless that is long.
func blobKey(account, name string) engine.RowKey {
	if len(name) <= headLen {
		return engine.RowKey{account, name}
	}
	return rowKey(account, splitName(name))
}

// rowKey returns the key of a blob's row.
func rowKey(account string, n name) engine.RowKey {
	return engine.RowKey{account, string(n.head), string(n.hash)}
}
