package bytetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/bytestore"
)

var listChecks = []Check{
	onStore("list an empty store", func(ctx context.Context, _ Harness, s bytestore.Store) error {
		return errors.Join(lists(ctx, s, "", nil), lists(ctx, s, "abc", nil), lists(ctx, s, newName(), nil))
	}),
	onStore("list in order", listOrder),
	onStore("list resumes at every position", listResume),
	onStore("list returns the callback's error", listError),
	onStore("list ends with its context", listCancelled),
	onStore("list while the store changes", listWhileChanging),
}

// fill puts objects with names that sort before, between and after NewName's, and returns them in
// byte order.
func fill(ctx context.Context, s bytestore.Store) ([]bytestore.Object, error) {
	names := []bytestore.Name{
		"sluice-instance", "000", "00-", "---", "-00", "a--", "abc", "zzz", "ff-", "ff-zzz", "00-0", "80-", "7f-zzzzz",
		bytestore.Name(strings.Repeat("a", 64)), bytestore.Name(strings.Repeat("0", 64)), bytestore.Name(strings.Repeat("-", 64)),
	}
	for i := range 60 {
		names = append(names, bytestore.NewName(time.UnixMilli(int64(i%7)*1e11)))
	}
	var all []bytestore.Object
	for i, name := range names {
		if err := put(ctx, s, name, content(uint64(i), i)); err != nil {
			return nil, err
		}
		all = append(all, bytestore.Object{Name: name, Size: int64(i)})
	}
	slices.SortFunc(all, func(a, b bytestore.Object) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all, nil
}

func listOrder(ctx context.Context, h Harness, s bytestore.Store) error {
	all, err := fill(ctx, s)
	if err != nil {
		return err
	}
	if err := lists(ctx, s, "", all); err != nil {
		return err
	}
	return reopened(h, func(s bytestore.Store) error { return lists(ctx, s, "", all) })
}

// errStop stops a listing.
var errStop = errors.New("bytetest: stop")

func listResume(ctx context.Context, _ Harness, s bytestore.Store) error {
	all, err := fill(ctx, s)
	if err != nil {
		return err
	}
	for i := range all {
		// Stop the listing after i+1 objects and resume it there.
		var got []bytestore.Object
		err := s.List(ctx, "", func(o bytestore.Object) error {
			if got = append(got, o); len(got) == i+1 {
				return errStop
			}
			return nil
		})
		if err := isError("List", err, errStop); err != nil {
			return err
		}
		if !slices.Equal(got, all[:i+1]) {
			return fmt.Errorf("the first %d objects: got %v, want %v", i+1, got, all[:i+1])
		}
		if err := lists(ctx, s, all[i].Name, all[i+1:]); err != nil {
			return err
		}
		if err := lists(ctx, s, all[i].Name+"0", greater(all, all[i].Name+"0")); err != nil {
			return err
		}
	}
	for _, after := range []bytestore.Name{"-", "0", "00", "7f", "7f-", "80", "8", "a", "b", "f", "ff", "fg", "g", "z", "zzzz", "~"} {
		if err := lists(ctx, s, after, greater(all, after)); err != nil {
			return err
		}
	}
	return nil
}

// greater returns the objects with a name greater than after.
func greater(all []bytestore.Object, after bytestore.Name) []bytestore.Object {
	i := slices.IndexFunc(all, func(o bytestore.Object) bool { return o.Name > after })
	if i < 0 {
		return nil
	}
	return all[i:]
}

func listError(ctx context.Context, _ Harness, s bytestore.Store) error {
	for i := range 5 {
		if err := put(ctx, s, newName(), content(1, i)); err != nil {
			return err
		}
	}
	calls := 0
	err := s.List(ctx, "", func(bytestore.Object) error {
		calls++
		return errStop
	})
	// Unwrapped: callers may distinguish their own error by identity.
	if any(err) != any(errStop) {
		return fmt.Errorf("not the error of the callback itself: %w", err)
	}
	if calls != 1 {
		return fmt.Errorf("the listing continued after the error of the callback: %d calls", calls)
	}
	return nil
}

func listCancelled(ctx context.Context, _ Harness, s bytestore.Store) error {
	if _, err := fill(ctx, s); err != nil {
		return err
	}
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	err := s.List(over, "", func(bytestore.Object) error { cancel(); return nil })
	if err := isError("List whose context ends after the first object", err, context.Canceled); err != nil {
		return err
	}
	return isError("List", s.List(over, "", func(bytestore.Object) error { return nil }), context.Canceled)
}

// listWhileChanging lists during concurrent puts and deletes: every unchanged object must be listed
// exactly once, in order.
func listWhileChanging(ctx context.Context, _ Harness, s bytestore.Store) error {
	stable, err := fill(ctx, s)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var changeErrs [2]error
	stop := make(chan struct{})
	for w := range changeErrs {
		wg.Go(func() {
			for changeErrs[w] == nil {
				select {
				case <-stop:
					return
				default:
				}
				name := newName()
				changeErrs[w] = errors.Join(put(ctx, s, name, content(1, 100)), s.Delete(ctx, name))
			}
		})
	}
	var listErr error
	for range 10 {
		if listErr = listsAtLeast(ctx, s, stable); listErr != nil {
			break
		}
	}
	close(stop)
	wg.Wait()
	return errors.Join(listErr, errors.Join(changeErrs[:]...))
}

func listsAtLeast(ctx context.Context, s bytestore.Store, stable []bytestore.Object) error {
	got, err := list(ctx, s, "")
	if err != nil {
		return err
	}
	if !slices.IsSortedFunc(got, func(a, b bytestore.Object) int { return strings.Compare(string(a.Name), string(b.Name)) }) {
		return fmt.Errorf("not in order: %v", got)
	}
	got = slices.DeleteFunc(got, func(o bytestore.Object) bool { return !slices.Contains(stable, o) })
	if !slices.Equal(got, stable) {
		return fmt.Errorf("of the unchanged objects:\n  got  %v\n  want %v", got, stable)
	}
	return nil
}
