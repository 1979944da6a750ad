package bytetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"sluice/bytestore"
)

var openChecks = []Check{
	onStore("open every range", openRanges),
	onStore("open beyond the end", openBeyond),
	onStore("open a missing object", openMissing),
	onStore("several readers of one object", openSeveral),
}

func openRanges(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, size := range []int64{0, 1, 2, 1000, 1 << 20, 2<<20 + 3} {
		name, data := newName(), content(uint64(size), int(size))
		if err := put(ctx, s, name, data); err != nil {
			return err
		}
		edges := edgesOf(size)
		for _, from := range edges {
			for _, to := range edges {
				if to < from {
					continue
				}
				got, err := read(ctx, s, name, from, to-from)
				if err != nil {
					return err
				}
				if err := same(fmt.Sprintf("%d bytes at %d of %d", to-from, from, size), got, data[from:to]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// edgesOf returns the offsets at which reading a range is most likely to be wrong.
func edgesOf(size int64) []int64 {
	var edges []int64
	for _, e := range []int64{0, 1, 2, size / 2, 1<<20 - 1, 1 << 20, 1<<20 + 1, size - 1, size} {
		if e >= 0 && e <= size {
			edges = append(edges, e)
		}
	}
	return edges
}

func openBeyond(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, size := range []int64{0, 1, 1000} {
		name := newName()
		if err := put(ctx, s, name, content(1, int(size))); err != nil {
			return err
		}
		for _, r := range [][2]int64{
			{0, size + 1}, {size, 1}, {size + 1, 0}, {size + 1, 1}, {size / 2, size - size/2 + 1},
			{0, math.MaxInt64}, {1, math.MaxInt64}, {math.MaxInt64, 0}, {math.MaxInt64, math.MaxInt64},
		} {
			if err := opens(ctx, s, name, r[0], r[1], bytestore.ErrTruncated); err != nil {
				return fmt.Errorf("object of %d bytes: %w", size, err)
			}
		}
	}
	return nil
}

func openMissing(ctx context.Context, _ Harness, s bytestore.Store) error {
	existing := newName()
	if err := put(ctx, s, existing, content(1, 10)); err != nil {
		return err
	}
	for _, name := range []bytestore.Name{newName(), "sluice-instance", "abc", existing[:len(existing)-1], existing + "0", existing[:3]} {
		for _, n := range []int64{0, 1} {
			if err := opens(ctx, s, name, 0, n, bytestore.ErrNotFound); err != nil {
				return err
			}
		}
	}
	return nil
}

// openSeveral reads one object alternately through two readers.
func openSeveral(ctx context.Context, _ Harness, s bytestore.Store) error {
	name, data := newName(), content(1, 3000)
	if err := put(ctx, s, name, data); err != nil {
		return err
	}
	a, err := s.Open(ctx, name, 0, 3000)
	if err != nil {
		return err
	}
	b, err := s.Open(ctx, name, 1000, 2000)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	var got [2][1000]byte
	for i := range 2 {
		for j, r := range []io.Reader{a, b} {
			if _, err := io.ReadFull(r, got[j][:]); err != nil {
				return errors.Join(err, a.Close(), b.Close())
			}
		}
		err = errors.Join(err,
			same("first reader", got[0][:], data[i*1000:][:1000]),
			same("second reader", got[1][:], data[1000+i*1000:][:1000]))
	}
	return errors.Join(err, a.Close(), b.Close())
}
