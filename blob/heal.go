package blob

import (
	"context"
	"errors"
	"fmt"

	"sluice/bytestore"
	"sluice/database"
	"sluice/metastore"
)

// Heal examines all recorded damage. Bytes that are intact again, because the medium or the object
// was restored, are no longer recorded as damaged. Other objects are read from Options.HealFrom, if
// there is one, checked, stored under a new name, and put into their places, which
// become garbage. It returns the number of extents that are not damaged any more. It continues
// after failures, and returns their number with a few of them.
//
// The new object is stored before the one transaction that refers to it, so that a crash leaves an
// orphan at most. If two processes heal one extent, one of them succeeds, and the other one's
// object is deleted.
func (s *Service) Heal(ctx context.Context) (extents int64, err error) {
	const page = 100
	for {
		n, err := s.meta.PruneDamage(ctx, page)
		if err != nil {
			return 0, err
		}
		if n < page {
			break
		}
	}
	var failed failures
	pace := s.newPacer()
	for after := (metastore.ExtentID{}); ; {
		list, err := s.meta.Damages(ctx, after, page)
		if err != nil || len(list) == 0 {
			return extents, errors.Join(failed.err(), err)
		}
		for i := range list {
			done, err := s.healOne(ctx, pace, list[i])
			switch {
			case ctx.Err() != nil:
				return extents, ctx.Err()
			case errors.Is(err, bytestore.ErrNoSpace), errors.Is(err, database.ErrNoSpace):
				return extents, errors.Join(failed.err(), fmt.Errorf("healing waits until there is space: %w", err))
			case err != nil:
				failed.add(fmt.Errorf("content %s, part %d, offset %d: %w", list[i].Content, list[i].Part, list[i].Offset, err))
			case done:
				extents++
			}
		}
		after = list[len(list)-1].ExtentID
	}
}

// healOne reports whether an extent is not damaged any more.
func (s *Service) healOne(ctx context.Context, pace *pacer, d metastore.Damage) (done bool, err error) {
	list, err := s.meta.Extents(ctx, d.Content, d.Position, 1)
	if err != nil || len(list) == 0 || list[0].Part != d.Part || list[0].Offset != d.Offset || list[0].Object != d.Object {
		return false, err
	}
	e := &list[0]
	check := storedCheck{open: s.opt.OpenStored, e: e, step: func() error {
		_, err := pace.next(ctx, 1)
		return err
	}}
	if err := check.all(ctx); err != nil {
		return false, err
	}
	if check.bad == 0 {
		return true, s.meta.ForgetDamage(ctx, d)
	}
	if check.bad|d.Bad != d.Bad {
		if err := s.recordDamage(ctx, check.damage(d.ExtentID)); err != nil {
			return false, err
		}
	}
	if s.opt.HealFrom == nil || e.Object == "" {
		return false, nil
	}
	fresh, err := s.fetch(ctx, e)
	if err != nil {
		return false, err
	}
	return s.replaceObject(ctx, d, fresh)
}

// fetch stores what the heal source has of an extent as a new object, if it is intact.
func (s *Service) fetch(ctx context.Context, e *metastore.Extent) (fresh metastore.Extent, err error) {
	if err := s.requireSource(ctx); err != nil {
		return fresh, fmt.Errorf("--heal-from: %w", err)
	}
	if err := s.checkSpace(e.Size); err != nil {
		return fresh, err
	}
	r, err := s.opt.HealFrom(ctx, bytestore.Name(e.Object), 0, e.Size)
	if err != nil {
		return fresh, fmt.Errorf("--heal-from: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	fresh = metastore.Extent{Size: e.Size, Created: s.meta.Now()}
	name := bytestore.NewName(fresh.Created)
	fresh.Object = string(name)
	if err := s.bytes.Put(ctx, name, CheckObject(r, *e), e.Size); err != nil {
		if errors.Is(err, ErrCorrupt) {
			err = fmt.Errorf("--heal-from has damaged bytes too, and they are not used: %w", err)
		}
		return fresh, err
	}
	return fresh, nil
}

// requireSource returns an error if the heal source belongs to another instance.
func (s *Service) requireSource(ctx context.Context) error {
	want, err := s.meta.Property(ctx, InstanceProperty)
	if errors.Is(err, database.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	got, err := readID(ctx, s.opt.HealFrom, InstanceObject)
	if err == nil && got != "" && got != want {
		err = fmt.Errorf("%w: it belongs to the instance %s, not to %s", ErrForeignStore, got, want)
	}
	return err
}

// replaceObject makes a new object an extent's, and the damaged one garbage. It reports whether it
// did: another process may have been faster.
func (s *Service) replaceObject(ctx context.Context, d metastore.Damage, fresh metastore.Extent) (bool, error) {
	retired := metastore.NewContentID(s.meta.Now())
	s.pins.retire(d.Content, retired) // before the old object can be freed
	err := s.meta.HealExtent(ctx, d, fresh, retired)
	if err != nil {
		err = s.discard(ctx, []metastore.Extent{fresh}, err)
		if errors.Is(err, database.ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	s.counts.healed.Add(1)
	s.garbageArose()
	return true, nil
}
