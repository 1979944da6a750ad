package bytetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing/iotest"

	"sluice/bytestore"
)

// sizes are the sizes around which buffers and blocks end.
var sizes = []int{
	0, 1, 2, 4095, 4096, 4097, 64<<10 - 1, 64 << 10, 64<<10 + 1,
	256<<10 - 1, 256 << 10, 256<<10 + 1, 512<<10 - 1, 512 << 10, 512<<10 + 1,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 2 << 20, 3<<20 + 7,
}

// hostileKeys are not valid names. Some of them would escape from a store's folder.
var hostileKeys = []bytestore.Name{
	"", "a", "ab", ".", "..", "...", "../evil", "a/../../evil", "/evil", "a/b", `a\b`, "a//b", "aa/",
	".put-abc", "abc.tmp", "a_b", "ABC", "Abc", "a b", "abc\n", "abc\x00", "a\x00b", "%2e%2e", "äöü", "a\xffb",
	"ab-000000000000-0123456789abcdef0123456789abcdef/../x",
	bytestore.Name(bytes.Repeat([]byte("a"), 65)), bytestore.Name(bytes.Repeat([]byte("a"), 5000)),
}

var putChecks = []Check{
	onStore("put every size", func(ctx context.Context, h Harness, s bytestore.Store) error {
		return putSizes(ctx, h, s, exact)
	}),
	onStore("put every size, unknown", func(ctx context.Context, h Harness, s bytestore.Store) error {
		return putSizes(ctx, h, s, unknown)
	}),
	onStore("put from sources of every manner", putManners),
	onStore("put many names concurrently", putConcurrent),
	onStore("hostile names", hostile),
	onStore("a put is invisible until it is whole", invisible),
}

// raceChecks returns the checks of several Puts of one name.
var raceChecks = []Check{
	onStore("second put of a name", putTwice),
	onStore("put overtaken by another of its name", putOvertaken),
	onStore("racing puts of one name", putRacing),
}

func putSizes(ctx context.Context, h Harness, s bytestore.Store, declare func([]byte) int64) error {
	names := map[int]bytestore.Name{}
	for _, size := range sizes {
		names[size] = newName()
		data := content(uint64(size), size)
		if err := s.Put(ctx, names[size], bytes.NewReader(data), declare(data)); err != nil {
			return fmt.Errorf("put of %d bytes: %w", size, err)
		}
		if err := holds(ctx, s, names[size], data); err != nil {
			return err
		}
	}
	return reopened(h, func(s bytestore.Store) error {
		for _, size := range sizes {
			if err := holds(ctx, s, names[size], content(uint64(size), size)); err != nil {
				return err
			}
		}
		return nil
	})
}

func putManners(ctx context.Context, _ Harness, s bytestore.Store) error {
	manners := map[string]func(io.Reader) io.Reader{
		"one byte a read":        iotest.OneByteReader,
		"half of each buffer":    iotest.HalfReader,
		"the end with the data":  iotest.DataErrReader,
		"empty reads in between": func(r io.Reader) io.Reader { return &hesitant{src: r} },
		"one byte, end with it":  func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
		"only a reader":          func(r io.Reader) io.Reader { return struct{ io.Reader }{r} },
	}
	for name, manner := range manners {
		for _, size := range []int{0, 1, 1000, 5000} {
			for _, declare := range []func([]byte) int64{exact, unknown} {
				object, data := newName(), content(uint64(size), size)
				if err := s.Put(ctx, object, manner(bytes.NewReader(data)), declare(data)); err != nil {
					return fmt.Errorf("%s, %d bytes: %w", name, size, err)
				}
				if err := holds(ctx, s, object, data); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// hesitant returns no bytes at every second read, which io.Reader permits.
type hesitant struct {
	src  io.Reader
	wait bool
}

func (r *hesitant) Read(p []byte) (int, error) {
	if r.wait = !r.wait; r.wait {
		return 0, nil
	}
	return r.src.Read(p)
}

func putConcurrent(ctx context.Context, h Harness, s bytestore.Store) error {
	const workers, each = 16, 4
	var names [workers][each]bytestore.Name
	var errs [workers]error
	body := func(w, i int) []byte { return content(uint64(w*each+i), 1+w*5000+i) }
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				names[w][i] = newName()
				errs[w] = errors.Join(errs[w], put(ctx, s, names[w][i], body(w, i)))
				if errs[w] == nil {
					errs[w] = holds(ctx, s, names[w][i], body(w, i))
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return reopened(h, func(s bytestore.Store) error {
		if all, err := list(ctx, s, ""); err != nil {
			return err
		} else if len(all) != workers*each {
			return fmt.Errorf("%d objects listed, want %d", len(all), workers*each)
		}
		for w := range workers {
			for i := range each {
				if err := holds(ctx, s, names[w][i], body(w, i)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func hostile(ctx context.Context, h Harness, s bytestore.Store) error {
	name, data := newName(), content(1, 10)
	if err := put(ctx, s, name, data); err != nil {
		return err
	}
	for _, bad := range hostileKeys {
		if err := isError(fmt.Sprintf("Put(%q)", bad), put(ctx, s, bad, data), bytestore.ErrInvalidName); err != nil {
			return err
		}
		if err := opens(ctx, s, bad, 0, 0, bytestore.ErrInvalidName); err != nil {
			return err
		}
		if err := isError(fmt.Sprintf("Delete(%q)", bad), s.Delete(ctx, bad), bytestore.ErrInvalidName); err != nil {
			return err
		}
	}
	return reopened(h, func(s bytestore.Store) error {
		return lists(ctx, s, "", []bytestore.Object{{Name: name, Size: 10}})
	})
}

// invisible checks from within a source's reads that the object is not visible yet.
func invisible(ctx context.Context, _ Harness, s bytestore.Store) error {
	existing := bytestore.Object{Name: newName(), Size: 3}
	if err := put(ctx, s, existing.Name, content(1, 3)); err != nil {
		return err
	}
	for _, size := range []int{0, 1, 1000, 1<<20 + 1} {
		for _, at := range []int{0, size / 2, size} {
			name, data := newName(), content(uint64(size), size)
			src := during(data, at, func() error { return absent(ctx, s, name, existing) })
			if err := s.Put(ctx, name, src, int64(size)); err != nil {
				return fmt.Errorf("%d bytes into a put of %d: %w", at, size, err)
			}
			if err := errors.Join(holds(ctx, s, name, data), s.Delete(ctx, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func putTwice(ctx context.Context, h Harness, s bytestore.Store) error {
	name, data := newName(), content(1, 1000)
	if err := put(ctx, s, name, data); err != nil {
		return err
	}
	for _, size := range []int{0, 1, 1000, 5000} {
		if err := isError("second Put", put(ctx, s, name, content(2, size)), bytestore.ErrExists); err != nil {
			return err
		}
		if err := holds(ctx, s, name, data); err != nil {
			return err
		}
	}
	return reopened(h, func(s bytestore.Store) error {
		if err := isError("second Put", put(ctx, s, name, content(2, 10)), bytestore.ErrExists); err != nil {
			return err
		}
		return errors.Join(holds(ctx, s, name, data), lists(ctx, s, "", []bytestore.Object{{Name: name, Size: 1000}}))
	})
}

// putOvertaken runs a complete Put within another one's reads, under the same name: a race with a
// known winner. It hangs if a Put waits for the source of another Put of its name.
func putOvertaken(ctx context.Context, _ Harness, s bytestore.Store) error {
	for _, at := range []int{0, 500, 1000} {
		name, slow, quick := newName(), content(1, 1000), content(2, 700)
		src := during(slow, at, func() error { return put(ctx, s, name, quick) })
		err := s.Put(ctx, name, src, int64(len(slow)))
		if err := isError("the overtaken Put", err, bytestore.ErrExists); err != nil {
			return err
		}
		if err := holds(ctx, s, name, quick); err != nil {
			return err
		}
	}
	return nil
}

func putRacing(ctx context.Context, _ Harness, s bytestore.Store) error {
	for round := range 20 {
		const racers = 8
		name := newName()
		var errs [racers]error
		start := make(chan struct{})
		var wg sync.WaitGroup
		body := func(i int) []byte { return content(uint64(round*racers+i), 1000+i) }
		for i := range racers {
			data := body(i)
			wg.Go(func() {
				<-start
				errs[i] = put(ctx, s, name, data)
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				return fmt.Errorf("puts %d and %d of %s both succeeded", winner, i, name)
			case err == nil:
				winner = i
			case !errors.Is(err, bytestore.ErrExists):
				return fmt.Errorf("the error of a losing put: %w", err)
			}
		}
		if winner < 0 {
			return fmt.Errorf("no put succeeded: %w", errors.Join(errs[:]...))
		}
		if err := holds(ctx, s, name, body(winner)); err != nil {
			return fmt.Errorf("the bytes of the winner: %w", err)
		}
	}
	all, err := list(ctx, s, "")
	if err == nil && len(all) != 20 {
		err = fmt.Errorf("%d objects listed after 20 races", len(all))
	}
	return err
}
