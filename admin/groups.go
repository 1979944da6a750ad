package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/database"
	"sluice/wire"
)

// groupPage is the greatest number of groups in a page: each costs a query for its usage.
const groupPage = 100

// Groups returns the groups, sorted by name; for an administrator of some accounts its own.
func (s *Service) Groups(ctx context.Context, by By, after string, limit int) (out wire.GroupPage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	list := []keys.Group{}
	if a.everything() {
		limit = min(limit, groupPage)
		if list, err = s.store.ListGroups(ctx, after, limit+1); err != nil {
			return out, err
		}
	} else if a.key.Group > after {
		list = append(list, keys.Group{Name: a.key.Group, Limits: a.key.Limits})
	}
	if len(list) > limit {
		list = list[:limit]
		out.Next = list[limit-1].Name
	}
	out.Groups = []wire.Group{}
	for _, g := range list {
		group, err := s.group(ctx, g.Name, g.Limits)
		if err != nil {
			return wire.GroupPage{}, err
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

// Group returns a group.
func (s *Service) Group(ctx context.Context, by By, name string) (wire.Group, error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return wire.Group{}, err
	}
	if !a.everything() && name != a.key.Group {
		return wire.Group{}, groupError(database.ErrNotFound)
	}
	limits, err := s.store.GroupLimits(ctx, name)
	if err != nil {
		return wire.Group{}, groupError(err)
	}
	return s.group(ctx, name, limits)
}

// UpdateGroup changes a group's limits. match is a condition on the group before; nil: there is
// none.
func (s *Service) UpdateGroup(ctx context.Context, by By, name string, match func(etag string) bool, in wire.UpdateGroup) (out wire.Group, err error) {
	limits, defaults, err := limitsOf(in.Limits)
	if err != nil {
		return out, err
	}
	err = s.decide(ctx, by, func(a actor) error {
		if !a.everything() {
			return ErrEverything
		}
		changed, err := access.SetLimits(ctx, s.store, name, limits, defaults, func(before, after keys.Limits) (*actions.Act, error) {
			if match != nil && !match(groupTag(name, before)) {
				return nil, ErrChanged
			}
			return a.act("group.update", name, nil, limitsRecord(before), limitsRecord(after))
		})
		if err != nil {
			return groupError(err)
		}
		out, err = s.group(ctx, name, changed)
		return err
	})
	return out, err
}

// limitsRecord returns limits for an action's record.
func limitsRecord(l keys.Limits) any { return map[string]any{"limits": l.Members()} }

// limitsOf returns the limits in a request, and the kinds that it sets to the default.
func limitsOf(in map[string]int64) (limits keys.Limits, defaults []keys.LimitKind, err error) {
	var members []string
	for _, k := range keys.LimitKinds {
		members = append(members, k.Member())
		limit, named := in[k.Member()]
		if *k.Of(&limits) = limit; named && limit == 0 {
			defaults = append(defaults, k)
		}
	}
	for name := range in {
		if !slices.Contains(members, name) {
			return limits, nil, fmt.Errorf("%w: %.40q is not a limit; the limits are %s", ErrInvalid, name, strings.Join(members, ", "))
		}
	}
	return limits, defaults, nil
}

func (s *Service) group(ctx context.Context, name string, limits keys.Limits) (wire.Group, error) {
	used, err := s.store.Usage(ctx, name)
	if err != nil {
		return wire.Group{}, err
	}
	effective := limits.Resolve(s.opt.KeyLimits)
	out := wire.Group{Group: name, Limits: limits.Members(), Effective: effective.Members(), Used: map[string]int64{}, ETag: groupTag(name, limits)}
	for _, k := range keys.LimitKinds {
		if k.Quota() {
			out.Used[k.Member()] = k.Used(used)
		}
	}
	return out, nil
}

// groupTag returns a tag that differs for different limits.
func groupTag(name string, limits keys.Limits) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %+v", name, limits))
	return fmt.Sprintf(`"%x"`, sum[:16])
}

func groupError(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: a group exists once it has a key", ErrNotFound)
	}
	return err
}
