package backup

import (
	"context"
	"errors"
	"fmt"

	"sluice/integrity"
	"sluice/metastore"
)

// ErrForeign is returned if the repository has backups of other instances alone.
var ErrForeign = errors.New("backup: these are backups of another instance")

// RequireInstance returns an error unless the repository has a backup of this instance: ErrNotFound
// if it has no backup, ErrForeign if all are of other instances.
func (r *Repository) RequireInstance(ctx context.Context, instance string) error {
	found := errors.New("found")
	err := r.newestFirst(ctx, instance, func(*Manifest) error { return found })
	if errors.Is(err, found) {
		return nil
	}
	return err
}

// newestFirst calls fn with the manifests for an instance's backups until it returns an error. It
// skips damaged manifests, and returns their errors in the end. It returns the errors of
// RequireInstance.
func (r *Repository) newestFirst(ctx context.Context, instance string, fn func(*Manifest) error) error {
	ids, err := r.List(ctx)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("%w: the repository is empty", ErrNotFound)
	}
	var damaged []error
	var other string
	own := false
	for i := len(ids) - 1; i >= 0; i-- {
		m, err := r.Open(ctx, ids[i])
		switch {
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrNotFound): // pruned meanwhile
			damaged = append(damaged, err)
		case err != nil:
			return err
		case m.Instance != instance:
			other = m.Instance
		default:
			own = true
			if err := fn(m); err != nil {
				return err
			}
		}
	}
	if !own && other != "" {
		damaged = append(damaged, fmt.Errorf("%w: of %s, not of %s", ErrForeign, other, instance))
	}
	return errors.Join(damaged...)
}

// FindBodies looks for inline bodies in an instance's backups, in the newest first. It needs memory
// for a manifest, a chunk and some packs. It looks at everything that is not damaged before it
// returns ErrDamaged.
func (r *Repository) FindBodies(ctx context.Context, want integrity.BodySearch) error {
	s := search{BodySearch: want, repo: r, wanted: map[metastore.ExtentID]bool{}, seen: map[string]bool{}}
	for _, id := range want.Extents {
		s.wanted[id] = true
	}
	err := r.newestFirst(ctx, want.Instance, func(m *Manifest) error { return s.look(ctx, m) })
	if errors.Is(err, errEnd) { // all were found
		return nil
	}
	return errors.Join(err, errors.Join(s.damaged...))
}

// search looks for inline bodies in several backups.
type search struct {
	integrity.BodySearch

	repo    *Repository
	wanted  map[metastore.ExtentID]bool // that were not found yet
	seen    map[string]bool             // chunks, by checksum: most are in many backups
	damaged []error
}

// look looks in a backup. It returns errEnd once everything was found.
func (s *search) look(ctx context.Context, m *Manifest) error {
	t := m.Table(BodiesTable)
	if t == nil {
		s.damaged = append(s.damaged, fmt.Errorf("%w: the manifest %s lacks a table", ErrDamaged, m.ID()))
		return nil
	}
	packs := s.repo.packsOf(m)
	for _, c := range t.Chunks {
		if s.seen[c.SHA256] {
			continue
		}
		s.seen[c.SHA256] = true
		if err := s.Step(); err != nil {
			return err
		}
		one := *t
		one.Chunks = []Chunk{c}
		err := s.repo.Rows(ctx, &one, func(rows [][]any) error { return s.lookAt(ctx, rows, packs) })
		switch {
		case errors.Is(err, ErrDamaged):
			s.damaged = append(s.damaged, err)
		case err != nil:
			return err
		case len(s.wanted) == 0:
			return errEnd
		}
	}
	return nil
}

// lookAt looks at a chunk's rows. A body in a damaged pack is left for an older backup, which may
// have it in another pack.
func (s *search) lookAt(ctx context.Context, rows [][]any, packs *packs) error {
	for _, row := range rows {
		id, err := extentOf(row)
		if err != nil {
			return err
		}
		if !s.wanted[id] {
			continue
		}
		at, err := placeOf(row)
		if err != nil {
			return err
		}
		body, err := packs.body(ctx, at)
		if errors.Is(err, ErrDamaged) {
			s.damaged = append(s.damaged, err)
			continue
		}
		if err != nil {
			return err
		}
		delete(s.wanted, id)
		if err := s.Found(id, body); err != nil {
			return err
		}
	}
	return nil
}

// extentOf returns the extent that a row describes.
func extentOf(row []any) (id metastore.ExtentID, err error) {
	content, ok1 := row[0].([]byte)
	part, ok2 := row[1].(int64)
	off, ok3 := row[2].(int64)
	if !ok1 || !ok2 || !ok3 || len(content) != len(id.Content) {
		return id, fmt.Errorf("%w: a row of the table %s", ErrDamaged, BodiesTable)
	}
	copy(id.Content[:], content)
	id.Part, id.Offset = int(part), off
	return id, nil
}
