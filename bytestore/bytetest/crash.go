package bytetest

import (
	"context"
	"errors"
	"fmt"

	"sluice/bytestore"
)

func crashChecks() []Check {
	checks := []Check{
		onStore("crash after put", crashAfterPut),
		onStore("crash during put", crashDuringPut),
		onStore("crash after a failed put", crashAfterFailedPut),
		onStore("crash after delete", crashAfterDelete),
		onStore("crash during the first put", crashDuringFirstPut),
	}
	for i := range checks {
		checks[i].NeedsCrash = true
	}
	return checks
}

// crash simulates a power failure and reopens the store.
func crash(h Harness) (bytestore.Store, error) {
	if err := h.Crash(); err != nil {
		return nil, fmt.Errorf("crash: %w", err)
	}
	s, err := h.Open()
	if err != nil {
		return nil, fmt.Errorf("open after a crash: %w", err)
	}
	return s, nil
}

func crashAfterPut(ctx context.Context, h Harness, s bytestore.Store) error {
	all, err := fill(ctx, s)
	if err != nil {
		return err
	}
	bodies := map[bytestore.Name][]byte{}
	for _, size := range []int{0, 1, 256<<10 + 1, 1<<20 + 1} {
		name := bytestore.Name(fmt.Sprintf("zzzz-%08d", size)) // greater than fill's
		bodies[name] = content(uint64(size), size)
		all = append(all, bytestore.Object{Name: name, Size: int64(size)})
		if err := put(ctx, s, name, bodies[name]); err != nil {
			return err
		}
	}
	// Twice, because what survived the first crash must be durable, too.
	for range 2 {
		if s, err = crash(h); err != nil {
			return err
		}
		if err := lists(ctx, s, "", all); err != nil {
			return fmt.Errorf("after a crash: %w", err)
		}
		for name, data := range bodies {
			if err := holds(ctx, s, name, data); err != nil {
				return fmt.Errorf("after a crash: %w", err)
			}
		}
	}
	return nil
}

// crashDuringPut crashes at several points while a source is read.
func crashDuringPut(ctx context.Context, h Harness, s bytestore.Store) error {
	durable, before := newName(), content(1, 1000)
	if err := put(ctx, s, durable, before); err != nil {
		return err
	}
	for _, size := range []int{0, 1, 1000, 1<<20 + 1} {
		for _, at := range []int{0, size / 2, size} {
			name, data := newName(), content(uint64(size), size)
			err := s.Put(ctx, name, during(data, at, h.Crash), int64(size))
			if err == nil {
				return fmt.Errorf("a Put of %d bytes succeeded despite a power failure after %d bytes", size, at)
			}
			if s, err = h.Open(); err != nil {
				return fmt.Errorf("open after a crash: %w", err)
			}
			if err := errors.Join(holds(ctx, s, durable, before), absentOrWhole(ctx, s, name, data)); err != nil {
				return err
			}
			if err := s.Delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// absentOrWhole returns an error unless the object is absent or complete, which is what a Put that
// was not acknowledged may leave.
func absentOrWhole(ctx context.Context, s bytestore.Store, name bytestore.Name, data []byte) error {
	r, err := s.Open(ctx, name, 0, 0)
	if errors.Is(err, bytestore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(r.Close(), holds(ctx, s, name, data))
}

func crashAfterFailedPut(ctx context.Context, h Harness, s bytestore.Store) error {
	for _, src := range badSources() {
		name, data := newName(), content(1, 5000)
		putCtx, cancel := context.WithCancel(ctx)
		err := s.Put(putCtx, name, src.open(data, cancel), src.size(data))
		cancel()
		if err := isError("Put", err, src.want); err != nil {
			return err
		}
		if s, err = crash(h); err != nil {
			return err
		}
		if err := absent(ctx, s, name); err != nil {
			return fmt.Errorf("source %s: after a crash: %w", src.name, err)
		}
	}
	return nil
}

// crashAfterDelete checks that a crash after a Delete leaves the object absent or complete.
func crashAfterDelete(ctx context.Context, h Harness, s bytestore.Store) error {
	kept, gone, data := newName(), newName(), content(1, 5000)
	if err := errors.Join(put(ctx, s, kept, data), put(ctx, s, gone, data), s.Delete(ctx, gone)); err != nil {
		return err
	}
	s, err := crash(h)
	if err != nil {
		return err
	}
	return errors.Join(absentOrWhole(ctx, s, gone, data), holds(ctx, s, kept, data))
}

// crashDuringFirstPut crashes before any Put was acknowledged. The store must remain usable.
func crashDuringFirstPut(ctx context.Context, h Harness, s bytestore.Store) error {
	name, data := bytestore.Name("sluice-instance"), content(1, 16)
	if err := s.Put(ctx, name, during(data, 8, h.Crash), 16); err == nil {
		return errors.New("a Put succeeded despite a power failure")
	}
	s, err := h.Open()
	if err != nil {
		return fmt.Errorf("open after a crash: %w", err)
	}
	if err := absent(ctx, s, name); err != nil {
		return err
	}
	if err := put(ctx, s, name, data); err != nil {
		return err
	}
	if s, err = crash(h); err != nil {
		return err
	}
	return holds(ctx, s, name, data)
}
