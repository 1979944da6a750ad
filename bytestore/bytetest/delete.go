package bytetest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/bytestore"
)

func deleteChecks() []Check {
	return []Check{
		onStore("delete", deleteOnce),
		onStore("delete a missing object", deleteMissing),
		onStore("delete many", deleteMany),
		onStore("delete some", deleteSome),
		onStore("put after delete", putAfterDelete),
		onStore("delete while reading", deleteWhileReading),
	}
}

func deleteOnce(ctx context.Context, h Harness, s bytestore.Store) error {
	kept := bytestore.Object{Key: newKey(), Size: 5}
	gone := newKey()
	if err := errors.Join(put(ctx, s, kept.Key, content(1, 5)), put(ctx, s, gone, content(2, 1000))); err != nil {
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
		return errors.Join(absent(ctx, s, gone, kept), holds(ctx, s, kept.Key, content(1, 5)))
	})
}

func deleteMissing(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, key := range []bytestore.Key{newKey(), "sluice-instance", "abc"} {
		if err := s.Delete(ctx, key); err != nil {
			return fmt.Errorf("Delete(%s): %w", key, err)
		}
	}
	return lists(ctx, s, "", nil)
}

// deleteMany deletes no object, one object, and more objects than one request can name,
// most of which do not exist and some of which are named twice.
func deleteMany(ctx context.Context, h Harness, s bytestore.Store) error {
	if err := s.Delete(ctx); err != nil {
		return fmt.Errorf("delete of nothing: %w", err)
	}
	kept := bytestore.Object{Key: newKey(), Size: 5}
	if err := put(ctx, s, kept.Key, content(1, 5)); err != nil {
		return err
	}
	for _, n := range []int{2, 2100} {
		keys := make([]bytestore.Key, n)
		for i := range keys {
			keys[i] = newKey()
			if i%150 == 0 || i == n-1 {
				if err := put(ctx, s, keys[i], content(2, 10)); err != nil {
					return err
				}
			}
		}
		if err := s.Delete(ctx, append(keys, keys[0], keys[n-1])...); err != nil {
			return fmt.Errorf("delete of %d: %w", n, err)
		}
		if err := absent(ctx, s, keys[n-1], kept); err != nil {
			return fmt.Errorf("after a delete of %d: %w", n, err)
		}
	}
	return reopened(h, func(s bytestore.Store) error { return lists(ctx, s, "", []bytestore.Object{kept}) })
}

// deleteSome deletes objects together with some that cannot be deleted.
func deleteSome(ctx context.Context, _ Harness, s bytestore.Store) error {
	keys := []bytestore.Key{newKey(), "", newKey(), "../x", newKey()}
	for _, key := range keys {
		if !key.Valid() {
			continue
		}
		if err := put(ctx, s, key, content(1, 5)); err != nil {
			return err
		}
	}
	err := s.Delete(ctx, keys...)
	var left bytestore.Undeleted
	if !errors.As(err, &left) || len(left) != 2 {
		return fmt.Errorf("Delete(%q) = %w, want an Undeleted of the two invalid keys", keys, err)
	}
	for _, key := range []bytestore.Key{keys[1], keys[3]} {
		if err := isError(fmt.Sprintf("Delete(%q)", key), left[key], bytestore.ErrInvalidKey); err != nil {
			return err
		}
	}
	if err := lists(ctx, s, "", nil); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := put(ctx, s, keys[0], content(1, 5)); err != nil {
		return err
	}
	err = s.Delete(ended, keys[0], keys[2])
	if err := isError("Delete with a context that has ended", err, context.Canceled); err != nil {
		return err
	}
	if !errors.As(err, &left) || len(left) != 2 {
		return fmt.Errorf("deleting with a context that has ended = %w, want an Undeleted of both", err)
	}
	return holds(ctx, s, keys[0], content(1, 5))
}

func putAfterDelete(ctx context.Context, h Harness, s bytestore.Store) error {
	for _, key := range []bytestore.Key{newKey(), "sluice-instance"} {
		second := content(2, 700)
		if err := errors.Join(
			put(ctx, s, key, content(1, 1000)), s.Delete(ctx, key), put(ctx, s, key, second), holds(ctx, s, key, second),
		); err != nil {
			return err
		}
		if err := reopened(h, func(r bytestore.Store) error { s = r; return holds(ctx, s, key, second) }); err != nil {
			return err
		}
	}
	return nil
}

// deleteWhileReading continues to read after a Delete: the bytes must be correct, or the
// reader must fail.
func deleteWhileReading(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, size := range []int{2, 5000, 4 << 20} {
		key, data := newKey(), content(uint64(size), size)
		if err := put(ctx, s, key, data); err != nil {
			return err
		}
		r, err := s.Open(ctx, key, 0, int64(size))
		if err != nil {
			return err
		}
		got := make([]byte, size)
		if _, err := io.ReadFull(r, got[:size/2]); err != nil {
			return errors.Join(err, r.Close())
		}
		// Another object reuses the space if it was freed too early.
		if err := errors.Join(s.Delete(ctx, key), put(ctx, s, newKey(), content(9, size))); err != nil {
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
		if err := opens(ctx, s, key, 0, 0, bytestore.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}
