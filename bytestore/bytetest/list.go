package bytetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bytestore"
)

var listChecks = []Check{
	onStore("list an empty store", listEmpty),
	onStore("list in order", listOrder),
	onStore("list resumes at every position", listResume),
	onStore("list returns the callback's error", listError),
	onStore("list ends with its context", listCancelled),
	onStore("list while the store changes", listWhileChanging),
}

func listEmpty(p *probe) {
	for _, after := range []bytestore.Name{"", "abc", newName()} {
		p.lists(after)
	}
}

func byName(a, b bytestore.Object) int { return strings.Compare(string(a.Name), string(b.Name)) }

// fill puts objects with names that sort before, between and after NewName's, and returns them in
// byte order.
func (p *probe) fill() []bytestore.Object {
	names := []bytestore.Name{
		"sluice-instance", "000", "00-", "---", "-00", "a--", "abc", "zzz", "ff-", "ff-zzz", "00-0", "80-", "7f-zzzzz",
		bytestore.Name(strings.Repeat("a", 64)), bytestore.Name(strings.Repeat("0", 64)), bytestore.Name(strings.Repeat("-", 64)),
	}
	for i := range 60 {
		names = append(names, bytestore.NewName(time.UnixMilli(int64(i%7)*1e11)))
	}
	var all []bytestore.Object
	for i, name := range names {
		p.put(name, content(uint64(i), i))
		all = append(all, bytestore.Object{Name: name, Size: int64(i)})
	}
	slices.SortFunc(all, byName)
	return all
}

func listOrder(p *probe) {
	all := p.fill()
	p.lists("", all...)
	p.reopen()
	p.lists("", all...)
}

// errStop stops a listing.
var errStop = errors.New("bytetest: stop")

func listResume(p *probe) {
	all := p.fill()
	for i := range all {
		// Stop the listing after i+1 objects and resume it there.
		var got []bytestore.Object
		p.is(p.s.List(p.ctx, "", func(o bytestore.Object) error {
			if got = append(got, o); len(got) == i+1 {
				return errStop
			}
			return nil
		}), errStop, "List")
		if !slices.Equal(got, all[:i+1]) {
			p.fail("the first %d objects: got %v, want %v", i+1, got, all[:i+1])
		}
		p.lists(all[i].Name, all[i+1:]...)
		p.lists(all[i].Name+"0", greater(all, all[i].Name+"0")...)
	}
	for _, after := range []bytestore.Name{"-", "0", "00", "7f", "7f-", "80", "8", "a", "b", "f", "ff", "fg", "g", "z", "zzzz", "~"} {
		p.lists(after, greater(all, after)...)
	}
}

func greater(all []bytestore.Object, after bytestore.Name) []bytestore.Object {
	i := slices.IndexFunc(all, func(o bytestore.Object) bool { return o.Name > after })
	if i < 0 {
		return nil
	}
	return all[i:]
}

func listError(p *probe) {
	for i := range 5 {
		p.put(newName(), content(1, i))
	}
	calls := 0
	err := p.s.List(p.ctx, "", func(bytestore.Object) error {
		calls++
		return errStop
	})
	// Unwrapped: callers may distinguish their own error by identity.
	if any(err) != any(errStop) {
		p.fail("not the error of the callback itself: %w", err)
	}
	if calls != 1 {
		p.fail("the listing continued after the error of the callback: %d calls", calls)
	}
}

func listCancelled(p *probe) {
	p.fill()
	over, cancel := context.WithCancel(p.ctx)
	defer cancel()
	err := p.s.List(over, "", func(bytestore.Object) error { cancel(); return nil })
	p.is(err, context.Canceled, "List whose context ends after the first object")
	err = p.s.List(over, "", func(bytestore.Object) error { return nil })
	p.is(err, context.Canceled, "List whose context has ended")
}

// listWhileChanging lists during concurrent puts and deletes: every unchanged object must be listed
// exactly once, in order.
func listWhileChanging(p *probe) {
	stable := p.fill()
	var wg sync.WaitGroup
	var errs [3]error
	var done atomic.Bool
	for w := range 2 {
		wg.Go(func() {
			for errs[w] == nil && !done.Load() {
				name := newName()
				errs[w] = errors.Join(p.tryPut(name, content(1, 100)), p.s.Delete(p.ctx, name))
			}
		})
	}
	errs[2] = caught(func() {
		for range 10 {
			p.listsAtLeast(stable)
		}
	})
	done.Store(true)
	wg.Wait()
	p.ok(errors.Join(errs[:]...), "listing while the store changes")
}

func (p *probe) listsAtLeast(stable []bytestore.Object) {
	got := p.list("")
	if !slices.IsSortedFunc(got, byName) {
		p.fail("not in order: %v", got)
	}
	got = slices.DeleteFunc(got, func(o bytestore.Object) bool { return !slices.Contains(stable, o) })
	if !slices.Equal(got, stable) {
		p.fail("of the unchanged objects:\n  got  %v\n  want %v", got, stable)
	}
}
