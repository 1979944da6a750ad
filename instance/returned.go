package instance

import (
	"context"

	"sluice/admin"
	"sluice/wire"
)

// maxReturned is how many keys and places Returned has, each.
const maxReturned = 100

// Returned are the rights in an instance that has gone back to a moment: perhaps also such as had
// ended since. Each list has the first maxReturned, in order.
type Returned struct {
	Keys         []wire.Key   `json:"keys"` // valid ones
	KeyCount     int64        `json:"keyCount"`
	Blocked      []wire.Place `json:"blocked"`
	BlockedCount int64        `json:"blockedCount"`
	Public       []wire.Place `json:"public"` // where everybody may read or list
	PublicCount  int64        `json:"publicCount"`
}

// returned reads all keys and places.
func returned(ctx context.Context, store admin.Store) (r Returned, err error) {
	const page = 1000
	r = Returned{Keys: []wire.Key{}, Blocked: []wire.Place{}, Public: []wire.Place{}}
	s, operator := admin.New(store, admin.Options{}), admin.By{From: "sluice"}
	for after, more := "", true; more; more = after != "" {
		list, err := s.Keys(ctx, operator, after, page)
		if err != nil {
			return r, err
		}
		for _, k := range list.Keys {
			if k.State == wire.KeyActive {
				first(&r.Keys, &r.KeyCount, k)
			}
		}
		after = list.Next
	}
	for after, more := "", true; more; more = after != "" {
		list, err := s.Places(ctx, operator, "", after, page)
		if err != nil {
			return r, err
		}
		for _, p := range list.Places {
			if p.Blocked != nil {
				first(&r.Blocked, &r.BlockedCount, p)
			} else if p.Reads == "public" || p.Reads == "free" || p.Lists == "public" {
				first(&r.Public, &r.PublicCount, p)
			}
		}
		after = list.Next
	}
	return r, nil
}

// first counts one, and adds it to a list that is not full.
func first[E any](list *[]E, count *int64, one E) {
	if *count++; len(*list) < maxReturned {
		*list = append(*list, one)
	}
}
