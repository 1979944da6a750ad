// Package memory is a bytestore.Store in memory, for tests: as strict as the
// contract allows, and as forgetful as the process.
package memory

import (
	"sync"

	"sluice/bytestore"
)

var _ bytestore.Store = (*Store)(nil)

// Store keeps objects in memory. Whoever shares the pointer shares the data.
type Store struct {
	mu      sync.RWMutex
	objects map[bytestore.Key][]byte // values never change
}

// New is an empty store.
func New() *Store {
	return &Store{objects: map[bytestore.Key][]byte{}}
}
