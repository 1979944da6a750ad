package instance

import (
	"context"
	"errors"

	"sluice/admin"
	"sluice/internal/task"
	"sluice/wire"
)

// maxReturned is how many keys and places Returned has, each.
const maxReturned = 100

// Returned are the rights in an instance that has gone back to a moment: perhaps also such as had
// ended since. Each list has the first maxReturned, in order. With them are the tasks that wait
// until they are resumed.
type Returned struct {
	Keys         []wire.Key   `json:"keys"` // valid ones
	KeyCount     int64        `json:"keyCount"`
	Blocked      []wire.Place `json:"blocked"`
	BlockedCount int64        `json:"blockedCount"`
	Public       []wire.Place `json:"public"` // where everybody may read or list
	PublicCount  int64        `json:"publicCount"`
	Waiting      []task.Name  `json:"waiting"`
}

// returned reads all keys and places, and which of task.Waiting have something to do.
func returned(ctx context.Context, store admin.Store) (r Returned, err error) {
	const page = 1000
	r = Returned{Keys: []wire.Key{}, Blocked: []wire.Place{}, Public: []wire.Place{}, Waiting: []task.Name{}}
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
	keeping, err := store.ListKeeping(ctx, "", 1)
	if len(keeping) > 0 {
		r.Waiting = append(r.Waiting, task.Versions)
	}
	rules, err2 := store.ListRules(ctx, "", 1)
	if len(rules) > 0 {
		r.Waiting = append(r.Waiting, task.Rules)
	}
	return r, errors.Join(err, err2)
}

// first counts one, and adds it to a list that is not full.
func first[E any](list *[]E, count *int64, one E) {
	if *count++; len(*list) < maxReturned {
		*list = append(*list, one)
	}
}
