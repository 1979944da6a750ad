package bytetest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/bytestore"
)

var deleteChecks = []Check{
	onStore("delete", deleteOnce),
	onStore("delete a missing object", deleteMissing),
	onStore("delete many", deleteMany),
	onStore("delete some", deleteSome),
	onStore("put after delete", putAfterDelete),
	onStore("delete while reading", deleteWhileReading),
}

func deleteOnce(ctx context.Context, h Harness, s bytestore.Store) error {
	kept := bytestore.Object{Name: newName(), Size: 5}
	gone := newName()
	if err := errors.Join(put(ctx, s, kept.Name, content(1, 5)), put(ctx, s, gone, content(2, 1000))); err != nil {
		return err
	}
	for range 2 {
		if err := s.Delete(ctx, gone); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		if err := absent(ctx, s, gone, kept); err != nil {
			return err
		}
	}
	return reopened(h, func(s bytestore.Store) error {
		return errors.Join(absent(ctx, s, gone, kept), holds(ctx, s, kept.Name, content(1, 5)))
	})
}

func deleteMissing(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, name := range []bytestore.Name{newName(), "sluice-instance", "abc"} {
		if err := s.Delete(ctx, name); err != nil {
			return fmt.Errorf("Delete(%s): %w", name, err)
		}
	}
	return lists(ctx, s, "", nil)
}

// deleteMany deletes no object, one object, and more objects than one request can name, and most do
// not exist, and some are named twice.
func deleteMany(ctx context.Context, h Harness, s bytestore.Store) error {
	if err := s.Delete(ctx); err != nil {
		return fmt.Errorf("delete of nothing: %w", err)
	}
	kept := bytestore.Object{Name: newName(), Size: 5}
	if err := put(ctx, s, kept.Name, content(1, 5)); err != nil {
		return err
	}
	for _, n := range []int{2, 2100} {
		names := make([]bytestore.Name, n)
		for i := range names {
			names[i] = newName()
			if i%150 == 0 || i == n-1 {
				if err := put(ctx, s, names[i], content(2, 10)); err != nil {
					return err
				}
			}
		}
		if err := s.Delete(ctx, append(names, names[0], names[n-1])...); err != nil {
			return fmt.Errorf("delete of %d: %w", n, err)
		}
		if err := absent(ctx, s, names[n-1], kept); err != nil {
			return fmt.Errorf("after a delete of %d: %w", n, err)
		}
	}
	return reopened(h, func(s bytestore.Store) error { return lists(ctx, s, "", []bytestore.Object{kept}) })
}

// deleteSome deletes objects together with some that cannot be deleted.
func deleteSome(ctx context.Context, _ Harness, s bytestore.Store) error {
	names := []bytestore.Name{newName(), "", newName(), "../x", newName()}
	for _, name := range names {
		if !name.Valid() {
			continue
		}
		if err := put(ctx, s, name, content(1, 5)); err != nil {
			return err
		}
	}
	err := s.Delete(ctx, names...)
	var left bytestore.Undeleted
	if !errors.As(err, &left) || len(left) != 2 {
		return fmt.Errorf("Delete(%q) = %w, want an Undeleted of the two invalid names", names, err)
	}
	for _, name := range []bytestore.Name{names[1], names[3]} {
		if err := isError(fmt.Sprintf("Delete(%q)", name), left[name], bytestore.ErrInvalidName); err != nil {
			return err
		}
	}
	if err := lists(ctx, s, "", nil); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := put(ctx, s, names[0], content(1, 5)); err != nil {
		return err
	}
	err = s.Delete(ended, names[0], names[2])
	if err := isError("Delete with a context that has ended", err, context.Canceled); err != nil {
		return err
	}
	if !errors.As(err, &left) || len(left) != 2 {
		return fmt.Errorf("deleting with a context that has ended = %w, want an Undeleted of both", err)
	}
	return holds(ctx, s, names[0], content(1, 5))
}

func putAfterDelete(ctx context.Context, h Harness, s bytestore.Store) error {
	for _, name := range []bytestore.Name{newName(), "sluice-instance"} {
		second := content(2, 700)
		if err := errors.Join(
			put(ctx, s, name, content(1, 1000)), s.Delete(ctx, name), put(ctx, s, name, second), holds(ctx, s, name, second),
		); err != nil {
			return err
		}
		if err := reopened(h, func(r bytestore.Store) error { s = r; return holds(ctx, s, name, second) }); err != nil {
			return err
		}
	}
	return nil
}

// deleteWhileReading continues to read after a Delete: the bytes must be correct, or the reader
// must fail.
func deleteWhileReading(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, size := range []int{2, 5000, 4 << 20} {
		name, data := newName(), content(uint64(size), size)
		if err := put(ctx, s, name, data); err != nil {
			return err
		}
		r, err := s.Open(ctx, name, 0, int64(size))
		if err != nil {
			return err
		}
		got := make([]byte, size)
		if _, err := io.ReadFull(r, got[:size/2]); err != nil {
			return errors.Join(err, r.Close())
		}
		// Another object reuses the space if it was freed too early.
		if err := errors.Join(s.Delete(ctx, name), put(ctx, s, newName(), content(9, size))); err != nil {
			return errors.Join(err, r.Close())
		}
		n, readErr := io.ReadFull(r, got[size/2:])
		n += size / 2
		if err := same("read while deleting", got[:n], data[:n]); err != nil {
			return errors.Join(err, r.Close())
		}
		if err := r.Close(); err != nil && readErr == nil {
			return err
		}
		if err := opens(ctx, s, name, 0, 0, bytestore.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}
