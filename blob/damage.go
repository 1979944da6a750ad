package blob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/bytestore"
	"sluice/database"
	"sluice/metastore"
)

// refreshDamage is how long a node may not know what another one has recorded. Until then its reads
// find the damage themselves.
const refreshDamage = 30 * time.Second

// WatchDamage learns which damage is recorded, at the start and then every 30 seconds, until ctx
// ends. Each node must run it. report is called with errors.
func (s *Service) WatchDamage(ctx context.Context, report func(error)) {
	for {
		if err := s.learnDamage(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
		if wait(ctx, refreshDamage) != nil {
			return
		}
	}
}

// learnDamage reads which contents have recorded damage.
func (s *Service) learnDamage(ctx context.Context) error {
	const page = 1_000
	s.damaged.beginRefresh()
	var ids []metastore.ContentID
	for after := (metastore.ExtentID{}); ; {
		list, err := s.meta.Damages(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			if id := list[i].Content; len(ids) == 0 || ids[len(ids)-1] != id {
				ids = append(ids, id)
			}
		}
		if len(list) < page || len(ids) > maxDamaged {
			if s.damaged.replace(ids) {
				s.mendSoon() // what another node has recorded
			}
			return nil
		}
		after = list[len(list)-1].ExtentID
	}
}

// CheckRanges returns ErrCorrupt if it is recorded that stored bytes in one range or more are
// damaged. It costs nothing for a content without recorded damage. That it returns nil does not say
// that the bytes are intact: WriteNext checks them.
func (c *Content) CheckRanges(ctx context.Context, ranges []Range) error {
	if !c.s.damaged.may(c.Content) {
		return nil
	}
	list, err := c.s.meta.DamagesOf(ctx, c.Content)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		c.s.damaged.remove(c.Content)
	}
	for i := range list {
		d := &list[i]
		start, err := c.partStart(ctx, d.Part)
		if err != nil {
			return err
		}
		start += d.Offset
		for block := int64(0); block < maxBlocks; block++ {
			from, to := start+block*blockSize, start+min((block+1)*blockSize, d.Size)
			if d.Bad>>block&1 == 1 && touches(ranges, from, to) {
				c.s.counts.damaged.Add(1)
				return fmt.Errorf("%w: bytes %d to %d of content %s, as recorded on %s: %s", ErrCorrupt, from, to-1, c.Content, d.Since.Format(time.RFC3339), d.Reason)
			}
		}
	}
	return nil
}

// touches reports whether a range has a byte of [from, to).
func touches(ranges []Range, from, to int64) bool {
	for _, r := range ranges {
		if r.Off < to && r.Off+r.N > from {
			return true
		}
	}
	return false
}

// partStart returns a part's offset in the content.
func (c *Content) partStart(ctx context.Context, part int) (int64, error) {
	if c.PartSize != metastore.UnevenParts {
		return int64(part) * c.PartSize, nil
	}
	list, _, err := c.s.meta.PartRanges(ctx, c.Content, part-1, 1)
	if err == nil && (len(list) == 0 || list[0].Index != part) {
		err = fmt.Errorf("%w: content %s has no part %d", ErrCorrupt, c.Content, part)
	}
	if err != nil {
		return 0, err
	}
	return list[0].Start, nil
}

// lookAgain is called when a read has found that an extent's blocks first to last are damaged. It
// returns the extent if reading it again may succeed: it has another object by now, because it was
// healed, or what the store itself has is intact, so that the damage was in a cache. Otherwise it
// records the damage. What cannot be found out is not recorded.
func (s *Service) lookAgain(ctx context.Context, content metastore.ContentID, e *metastore.Extent, first, last int64) (*metastore.Extent, bool) {
	at := metastore.Position{Part: e.Part, Offset: e.Offset}
	list, err := s.meta.Extents(ctx, content, at, 1)
	if err != nil || len(list) == 0 || list[0].Part != e.Part || list[0].Offset != e.Offset {
		return nil, false
	}
	now := &list[0]
	now.Start = e.Start
	if now.Object != e.Object {
		return now, true
	}
	check := storedCheck{open: s.opt.OpenStored, step: ctx.Err, e: now}
	if err := check.blocks(ctx, first, last); err != nil {
		return nil, false
	}
	if check.bad == 0 {
		return now, true
	}
	// What cannot be recorded now is found again by the next read, or by the scrub.
	_ = s.recordDamage(context.WithoutCancel(ctx), check.damage(metastore.ExtentID{Content: content, Position: at}))
	return nil, false
}

// recordDamage records damage that was found, unless the extent has another object by now, or is
// garbage: then its object may have been deleted. If bytes are missing, it first requires that the
// store is the instance's, so that a folder that is not mounted is no damage.
func (s *Service) recordDamage(ctx context.Context, d metastore.Damage) error {
	if d.Object != "" {
		if err := s.requireStore(ctx); err != nil {
			return err
		}
	}
	recorded, err := s.meta.RecordDamage(ctx, d)
	if err != nil || !recorded {
		return err
	}
	if s.damaged.may(d.Content) {
		s.damaged.add(d.Content)
		return nil
	}
	s.damaged.add(d.Content)
	s.counts.found.Add(1)
	s.opt.Found(d)
	s.mendSoon()
	return nil
}

// requireStore returns an error unless the store has the object that identifies the instance.
func (s *Service) requireStore(ctx context.Context) error {
	want, err := s.meta.Property(ctx, InstanceProperty)
	if errors.Is(err, database.ErrNotFound) { // it was never bound
		return nil
	}
	if err != nil {
		return err
	}
	return RequireInstance(ctx, s.opt.OpenStored, want)
}

// InstanceOf returns the instance's id that a store has, or "" if it has none.
func InstanceOf(ctx context.Context, open bytestore.OpenFunc) (string, error) {
	return readID(ctx, open, InstanceObject)
}

// RequireInstance returns an error unless a store has the object that identifies the instance.
func RequireInstance(ctx context.Context, open bytestore.OpenFunc, instance string) error {
	got, err := InstanceOf(ctx, open)
	if err == nil && got == "" {
		err = fmt.Errorf("%w: the store has no object %s: it may not be mounted, or has lost everything", ErrForeignStore, InstanceObject)
	}
	if err == nil && got != instance {
		err = fmt.Errorf("%w: the store belongs to the instance %s, not to %s", ErrForeignStore, got, instance)
	}
	return err
}

// mendSoon makes Run look at the recorded damage.
func (s *Service) mendSoon() {
	select {
	case s.mending <- struct{}{}:
	default:
	}
}

// DamageTotals returns what recorded damage sums up to.
func (s *Service) DamageTotals(ctx context.Context) (metastore.DamageTotals, error) {
	return s.meta.DamageTotals(ctx)
}
