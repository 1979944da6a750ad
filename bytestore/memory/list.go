package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/bytestore"
)

// List implements bytestore.Store. It shows the objects of one moment.
func (s *Store) List(ctx context.Context, after bytestore.Key, fn func(bytestore.Object) error) error {
	for _, o := range s.objectsAfter(after) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("memory: list: %w", err)
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) objectsAfter(after bytestore.Key) []bytestore.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []bytestore.Object
	for key, data := range s.objects {
		if key > after {
			list = append(list, bytestore.Object{Key: key, Size: int64(len(data))})
		}
	}
	slices.SortFunc(list, func(a, b bytestore.Object) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return list
}
