package integrity

import (
	"context"
	"errors"
	"time"

	"sluice/database"
	"sluice/history"
	"sluice/internal/task"
	"sluice/metastore"
)

// refreshDamage is how long a node may not know another node's records. Until then its reads find
// the damage themselves.
const refreshDamage = 30 * time.Second

// WatchDamage learns which damage is recorded, at the start and then every 30 seconds, until ctx
// ends. Each node must run it. report is called with errors.
func (c *Checker) WatchDamage(ctx context.Context, report func(error)) {
	for {
		if err := c.learnDamage(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
		if task.Wait(ctx, refreshDamage) != nil {
			return
		}
	}
}

// learnDamage reads which contents have recorded damage.
func (c *Checker) learnDamage(ctx context.Context) error {
	const page = 1_000
	c.damaged.beginRefresh()
	var ids []metastore.ContentID
	for after := (metastore.ExtentID{}); ; {
		list, err := c.meta.Damages(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			if id := list[i].Content; len(ids) == 0 || ids[len(ids)-1] != id {
				ids = append(ids, id)
			}
		}
		if len(list) < page || len(ids) > maxDamaged {
			if c.damaged.replace(ids) {
				c.mendSoon() // another node's records
			}
			return nil
		}
		after = list[len(list)-1].ExtentID
	}
}

// DamagesOf returns the recorded damage of a content. It costs nothing for a content without any.
func (c *Checker) DamagesOf(ctx context.Context, content metastore.ContentID) ([]metastore.Damage, error) {
	if !c.damaged.may(content) {
		return nil, nil
	}
	list, err := c.meta.DamagesOf(ctx, content)
	if err == nil && len(list) == 0 {
		c.damaged.remove(content)
	}
	return list, err
}

// LookAgain is called when a read has found that an extent's blocks first to last are damaged. It
// returns the extent if reading it again may succeed: it has another object by now, because it was
// healed, or the store's own bytes are intact, so that the damage was in a cache. Otherwise it
// records the damage. If it cannot find out, it records nothing.
func (c *Checker) LookAgain(ctx context.Context, content metastore.ContentID, e *metastore.Extent, first, last int64) (*metastore.Extent, bool) {
	at := metastore.Position{Part: e.Part, Offset: e.Offset}
	list, err := c.meta.Extents(ctx, content, at, 1)
	if err != nil || len(list) == 0 || list[0].Part != e.Part || list[0].Offset != e.Offset {
		return nil, false
	}
	now := &list[0]
	now.Start = e.Start
	if now.Object != e.Object {
		return now, true
	}
	check := storedCheck{open: c.opt.OpenStored, step: ctx.Err, e: now}
	if err := check.blocks(ctx, first, last); err != nil {
		return nil, false
	}
	if check.bad == 0 {
		return now, true
	}
	// If this cannot be recorded now, the next read or the scrub finds it again.
	_ = c.recordDamage(context.WithoutCancel(ctx), check.damage(metastore.ExtentID{Content: content, Position: at}))
	return nil, false
}

// recordDamage records damage that was found, unless the extent has another object by now, or is
// garbage: then its object may have been deleted. If bytes are missing, it first requires that the
// store is the instance's, so that a folder that is not mounted is no damage.
func (c *Checker) recordDamage(ctx context.Context, d metastore.Damage) error {
	if d.Object != "" {
		if err := c.requireStore(ctx); err != nil {
			return err
		}
	}
	recorded, err := c.meta.RecordDamage(ctx, d)
	if err != nil || !recorded {
		return err
	}
	if c.damaged.may(d.Content) {
		c.damaged.add(d.Content)
		return nil
	}
	c.damaged.add(d.Content)
	c.counts.found.Add(1)
	c.opt.Found(d)
	c.mendSoon()
	return nil
}

// requireStore returns an error unless the store has the object that identifies the instance.
func (c *Checker) requireStore(ctx context.Context) error {
	want, err := c.meta.Property(ctx, history.InstanceProperty)
	if errors.Is(err, database.ErrNotFound) { // it was never bound
		return nil
	}
	if err != nil {
		return err
	}
	return history.RequireInstance(ctx, c.opt.OpenStored, want)
}

// mendSoon makes Run look at the recorded damage.
func (c *Checker) mendSoon() {
	select {
	case c.mending <- struct{}{}:
	default:
	}
}

// DamageTotals returns the sums of recorded damage.
func (c *Checker) DamageTotals(ctx context.Context) (metastore.DamageTotals, error) {
	return c.meta.DamageTotals(ctx)
}
