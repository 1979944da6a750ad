package integrity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/bytestore"
	"sluice/database"
	"sluice/history"
	"sluice/internal/task"
	"sluice/metastore"
)

// damagePage is how many records of damage are read at a time, and bodiesPage for how many extents
// the heal source is searched at a time, because it may read all that it has for that.
const (
	damagePage = 100
	bodiesPage = 10_000
)

// Heal examines all recorded damage. Bytes that are intact again, because the medium or the object
// was restored, are no longer recorded as damaged. Bytes that are still damaged are read from
// Options.HealFrom, if there is one, and checked. An object is stored under a new name, and put
// into the damaged one's place, and that one becomes garbage; an inline body is replaced. Heal
// returns the number of extents that are not damaged any more. It continues after failures, and
// returns their number with a few of them.
//
// The new object is stored before the one transaction that refers to it, so that a crash leaves an
// orphan at most. If two processes heal one extent, one of them succeeds, and the other process's
// object is deleted.
func (c *Checker) Heal(ctx context.Context) (extents int64, err error) {
	for {
		n, err := c.meta.PruneDamage(ctx, damagePage)
		if err != nil {
			return 0, err
		}
		if n < damagePage {
			break
		}
	}
	h := healing{c: c, pace: c.opt.Pace()}
	if err = h.all(ctx); ctx.Err() != nil {
		return h.extents, ctx.Err()
	}
	return h.extents, errors.Join(h.failed.Err(), err)
}

// healing is a run of Heal.
type healing struct {
	c       *Checker
	pace    Pace
	extents int64 // that are not damaged any more
	failed  task.Failures

	inline map[metastore.ExtentID]metastore.Damage // to be looked for in the source

	instance string // empty: the source was not examined yet
	source   error  // why it must not be used; nil: it may be
}

// all heals all recorded damage. An error ends the run.
func (h *healing) all(ctx context.Context) error {
	h.inline = map[metastore.ExtentID]metastore.Damage{}
	for after := (metastore.ExtentID{}); ; {
		list, err := h.c.meta.Damages(ctx, after, damagePage)
		if err != nil {
			return err
		}
		for i := range list {
			if err := h.count(ctx, list[i].ExtentID, func() (bool, error) { return h.one(ctx, list[i]) }); err != nil {
				return err
			}
		}
		if len(list) == 0 || len(h.inline) >= bodiesPage {
			if err := h.bodies(ctx); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			return nil
		}
		after = list[len(list)-1].ExtentID
	}
}

// count calls heal, which reports whether an extent is not damaged any more. It returns an error
// that ends the run.
func (h *healing) count(ctx context.Context, id metastore.ExtentID, heal func() (bool, error)) error {
	done, err := heal()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, bytestore.ErrNoSpace), errors.Is(err, database.ErrNoSpace):
		return fmt.Errorf("healing waits until there is space: %w", err)
	case err != nil:
		h.failed.Add(fmt.Errorf("content %s, part %d, offset %d: %w", id.Content, id.Part, id.Offset, err))
	case done:
		h.extents++
	}
	return nil
}

// extent returns a damaged extent, or nil if its content or its object is another by now.
func (c *Checker) extent(ctx context.Context, d metastore.Damage) (*metastore.Extent, error) {
	list, err := c.meta.Extents(ctx, d.Content, d.Position, 1)
	if err != nil || len(list) == 0 || list[0].Part != d.Part || list[0].Offset != d.Offset || list[0].Object != d.Object {
		return nil, err
	}
	return &list[0], nil
}

// one heals an extent, or notes that its body is to be looked for.
func (h *healing) one(ctx context.Context, d metastore.Damage) (done bool, err error) {
	c := h.c
	e, err := c.extent(ctx, d)
	if e == nil || err != nil {
		return false, err
	}
	check := storedCheck{open: c.opt.OpenStored, e: e, step: h.pace.step(ctx)}
	if err := check.all(ctx); err != nil {
		return false, err
	}
	if check.bad == 0 {
		return true, c.meta.ForgetDamage(ctx, d)
	}
	if check.bad|d.Bad != d.Bad {
		if err := c.recordDamage(ctx, check.damage(d.ExtentID)); err != nil {
			return false, err
		}
	}
	if c.opt.HealFrom == nil {
		return false, nil
	}
	if e.Object == "" {
		h.inline[d.ExtentID] = d
		return false, nil
	}
	return h.object(ctx, d, e)
}

// object heals an extent with the object that the heal source has, if it is intact. It reports
// whether it did: another process may have been faster.
func (h *healing) object(ctx context.Context, d metastore.Damage, e *metastore.Extent) (healed bool, err error) {
	if err := h.requireSource(ctx); err != nil {
		return false, err
	}
	r, err := h.c.opt.HealFrom.Open(ctx, bytestore.Name(e.Object), 0, e.Size)
	if err != nil {
		return false, fmt.Errorf("--heal-from: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	healed, err = h.c.opt.Replace(ctx, d, CheckObject(r, *e))
	if healed {
		h.c.counts.healed.Add(1)
	}
	return healed, damagedSource(err)
}

// damagedSource returns err, and adds that the heal source is damaged if it is.
func damagedSource(err error) error {
	if errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("--heal-from has damaged bytes too, and they are not used: %w", err)
	}
	return err
}

// requireSource returns an error if the heal source cannot be used, or belongs to another instance.
func (h *healing) requireSource(ctx context.Context) (err error) {
	if h.instance != "" {
		return h.source
	}
	if h.instance, err = h.c.meta.Property(ctx, history.InstanceProperty); err != nil {
		return err
	}
	if err := h.c.opt.HealFrom.Require(ctx, h.instance); err != nil {
		h.source = fmt.Errorf("--heal-from: %w", err)
	}
	return h.source
}

// bodies heals the inline extents that one has noted. An error ends the run.
func (h *healing) bodies(ctx context.Context) error {
	if len(h.inline) == 0 {
		return nil
	}
	if err := h.requireSource(ctx); err != nil {
		return err
	}
	var ended error
	err := h.c.opt.HealFrom.Bodies(ctx, BodySearch{
		Instance: h.instance, Extents: slices.Collect(maps.Keys(h.inline)), Step: h.pace.step(ctx),
		Found: func(id metastore.ExtentID, body []byte) error {
			d := h.inline[id]
			delete(h.inline, id)
			ended = h.count(ctx, id, func() (bool, error) { return h.body(ctx, d, body) })
			return ended
		},
	})
	if ended != nil {
		return ended
	}
	for id := range h.inline {
		h.failed.Add(fmt.Errorf("content %s, part %d, offset %d: --heal-from does not have this body", id.Content, id.Part, id.Offset))
	}
	clear(h.inline)
	if err != nil {
		err = fmt.Errorf("--heal-from: %w", err)
	}
	return err
}

// body heals an inline extent with the body that the heal source has, if it is intact. It reports
// whether it did.
func (h *healing) body(ctx context.Context, d metastore.Damage, body []byte) (bool, error) {
	c := h.c
	e, err := c.extent(ctx, d)
	if e == nil || err != nil {
		return false, err
	}
	if CheckInline(*e) == nil { // another process was faster
		return false, nil
	}
	healed := *e
	healed.Body = body
	if err := CheckInline(healed); err != nil {
		return false, damagedSource(err)
	}
	if err := c.opt.Space(e.Size); err != nil {
		return false, err
	}
	err = c.meta.HealBody(ctx, d, e.Body, body)
	if errors.Is(err, database.ErrNotFound) { // or it was deleted
		return false, nil
	}
	if err == nil {
		c.counts.healed.Add(1)
	}
	return err == nil, err
}
