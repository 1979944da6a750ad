package bytetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/bytestore"
)

// content returns size pseudorandom bytes that depend on the seed.
func content(seed uint64, size int) []byte {
	data := make([]byte, size)
	name := [32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), 's'}
	_, _ = rand.NewChaCha8(name).Read(data) // never fails
	return data
}

// newName returns a new name with a fixed time, so that the order of names is random.
func newName() bytestore.Name { return bytestore.NewName(time.UnixMilli(1_700_000_000_000)) }

// put stores data under name, with its size declared.
func put(ctx context.Context, s bytestore.Store, name bytestore.Name, data []byte) error {
	if err := s.Put(ctx, name, bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("Put(%s) of %d bytes: %w", name, len(data), err)
	}
	return nil
}

// read reads n bytes of name from offset off.
func read(ctx context.Context, s bytestore.Store, name bytestore.Name, off, n int64) ([]byte, error) {
	r, err := s.Open(ctx, name, off, n)
	if err != nil {
		return nil, fmt.Errorf("Open(%s, %d, %d): %w", name, off, n, err)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, errors.Join(fmt.Errorf("read %d bytes at %d of %s: %w", n, off, name, err), r.Close())
	}
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("close %s: %w", name, err)
	}
	return data, nil
}

// same returns an error if got differs from want.
func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%s: wrong byte at %d (%d bytes, want %d)", what, i, len(got), len(want))
		}
	}
	return fmt.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
}

// holds returns an error unless the store has exactly data under name.
func holds(ctx context.Context, s bytestore.Store, name bytestore.Name, data []byte) error {
	size := int64(len(data))
	got, err := read(ctx, s, name, 0, size)
	if err != nil {
		return err
	}
	if err := same(string(name), got, data); err != nil {
		return err
	}
	return opens(ctx, s, name, 0, size+1, bytestore.ErrTruncated)
}

// opens returns an error unless Open fails for the range with want.
func opens(ctx context.Context, s bytestore.Store, name bytestore.Name, off, n int64, want error) error {
	r, err := s.Open(ctx, name, off, n)
	if err == nil {
		err = r.Close()
		return errors.Join(fmt.Errorf("Open(%q, %d, %d) succeeded, want %w", name, off, n, want), err)
	}
	return isError(fmt.Sprintf("Open(%q, %d, %d)", name, off, n), err, want)
}

// isError returns an error unless err matches want.
func isError(what string, err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("%s succeeded, want %w", what, want)
	}
	return fmt.Errorf("%s failed with %w, want %w", what, err, want)
}

// list returns all objects after a name.
func list(ctx context.Context, s bytestore.Store, after bytestore.Name) ([]bytestore.Object, error) {
	var all []bytestore.Object
	err := s.List(ctx, after, func(o bytestore.Object) error {
		all = append(all, o)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("List(%q): %w", after, err)
	}
	return all, nil
}

// lists returns an error unless the store lists exactly the objects want, in this order, after the
// name.
func lists(ctx context.Context, s bytestore.Store, after bytestore.Name, want []bytestore.Object) error {
	got, err := list(ctx, s, after)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("List(%q):\n  got  %v\n  want %v", after, got, want)
	}
	return nil
}

// absent returns an error unless name is absent and the store lists only want.
func absent(ctx context.Context, s bytestore.Store, name bytestore.Name, want ...bytestore.Object) error {
	return errors.Join(opens(ctx, s, name, 0, 0, bytestore.ErrNotFound), lists(ctx, s, "", want))
}

// reopened opens another handle and runs check with it.
func reopened(h Harness, check func(bytestore.Store) error) error {
	s, err := h.Open()
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	if err := check(s); err != nil {
		return fmt.Errorf("reopened: %w", err)
	}
	return nil
}

// onStore returns a check that begins with one handle.
func onStore(name string, check func(ctx context.Context, h Harness, s bytestore.Store) error) Check {
	return Check{Name: name, Run: func(ctx context.Context, h Harness) error {
		s, err := h.Open()
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		return check(ctx, h, s)
	}}
}
