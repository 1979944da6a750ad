package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"sluice/bytestore"
)

// Pruned lists the backups that Prune has kept and removed, and counts removed objects.
type Pruned struct {
	Kept    []string // ids of backups
	Removed []string
	Objects int64 // with chunks, packs and manifests
	Bytes   int64
}

// Prune removes the backups that the retention does not keep, and then everything that no backup
// needs. A backup that was interrupted is removed with it. Prune removes nothing if a backup that
// is kept is damaged, because it would not know which objects that backup needs. It returns
// ErrInUse while a backup is made. It needs 8 bytes of memory for each object that a kept backup
// needs.
func (r *Repository) Prune(ctx context.Context, keep Retention) (result Pruned, err error) {
	if keep == (Retention{}) {
		return result, ErrKeepsNothing
	}
	if is, err := r.Exists(ctx); err != nil || !is {
		return result, errors.Join(err, fmt.Errorf("%w: the place is no repository", ErrNotFound))
	}
	ctx, stop, err := r.announce(ctx, pruningPrefix, runningPrefix)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	list, err := r.objects(ctx, manifestPrefix)
	if err != nil {
		return result, err
	}
	times := make([]time.Time, len(list))
	for i, o := range list {
		if times[i], err = snapshotTime(o.Name); err != nil {
			return result, err
		}
	}
	needed := needs{names: map[bytestore.Name]bool{}}
	var dropped []bytestore.Object
	for i, keep := range keep.keeps(times) {
		if !keep {
			dropped = append(dropped, list[i])
			result.Removed = append(result.Removed, idOf(list[i].Name))
			continue
		}
		result.Kept = append(result.Kept, idOf(list[i].Name))
		if err := needed.add(ctx, r, list[i]); err != nil {
			return result, fmt.Errorf("the backup %s: %w", idOf(list[i].Name), err)
		}
	}
	needed.sort()
	// The manifests come first: a backup that lacks objects must not exist.
	if err := r.remove(ctx, dropped, &result); err != nil {
		return result, err
	}
	return result, r.removeUnneeded(ctx, &needed, &result)
}

// snapshotTime returns the time in a manifest's name.
func snapshotTime(name bytestore.Name) (time.Time, error) {
	stamp, _, _ := strings.Cut(idOf(name), "-")
	const seconds = len("20060102t150405")
	if len(stamp) > seconds {
		if at, err := time.Parse(timeLayout, stamp[:seconds]+"."+stamp[seconds:]); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: a manifest has the name %s", ErrDamaged, name)
}

// needs are the names that backups need. Two objects that have the same hash are both needed if one
// is, which is rare and harmless.
type needs struct {
	names   map[bytestore.Name]bool // manifests, chunks and packs
	objects []uint64                // hashes of their names
}

func (n *needs) add(ctx context.Context, r *Repository, o bytestore.Object) error {
	m, err := r.manifest(ctx, o)
	if err != nil {
		return err
	}
	n.names[o.Name] = true
	for _, p := range m.Packs {
		n.names[p.Object()] = true
	}
	for i := range m.Tables {
		for _, c := range m.Tables[i].Chunks {
			if n.names[c.Object()] {
				continue // its objects are known
			}
			n.names[c.Object()] = true
			if m.Tables[i].Name != ObjectsTable {
				continue
			}
			part := m.Tables[i]
			part.Chunks = []Chunk{c}
			if err := r.Rows(ctx, &part, n.addObjects); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *needs) addObjects(rows [][]any) error {
	for _, row := range rows {
		name, ok := row[0].([]byte)
		if !ok {
			return fmt.Errorf("%w: a row of the table %s", ErrDamaged, ObjectsTable)
		}
		n.objects = append(n.objects, hashOf(bytestore.Name(name)))
	}
	return nil
}

func (n *needs) sort() {
	slices.Sort(n.objects)
	n.objects = slices.Compact(n.objects)
}

func hashOf(name bytestore.Name) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it returns no error
	return h.Sum64()
}

// unneeded reports whether an object can be removed. An object that is neither an instance's nor a
// backup's was put there by another program.
func (n *needs) unneeded(name bytestore.Name) bool {
	if _, ok := name.Created(); ok {
		_, needed := slices.BinarySearch(n.objects, hashOf(name))
		return !needed
	}
	for _, prefix := range []string{chunkPrefix, packPrefix} {
		if strings.HasPrefix(string(name), prefix) {
			return !n.names[name]
		}
	}
	return false
}

// removeUnneeded removes objects that no backup needs.
func (r *Repository) removeUnneeded(ctx context.Context, needed *needs, result *Pruned) error {
	const batch = 1000
	var list []bytestore.Object
	err := r.Bytes.List(ctx, "", func(o bytestore.Object) error {
		if !needed.unneeded(o.Name) {
			return nil
		}
		if list = append(list, o); len(list) < batch {
			return nil
		}
		err := r.remove(ctx, list, result)
		list = list[:0]
		return err
	})
	if err != nil {
		return err
	}
	return r.remove(ctx, list, result)
}

func (r *Repository) remove(ctx context.Context, list []bytestore.Object, result *Pruned) error {
	if len(list) == 0 {
		return ctx.Err()
	}
	names := make([]bytestore.Name, len(list))
	for i, o := range list {
		names[i] = o.Name
	}
	if err := r.Bytes.Delete(ctx, names...); err != nil {
		return err
	}
	for _, o := range list {
		result.Objects++
		result.Bytes += o.Size
	}
	return nil
}
