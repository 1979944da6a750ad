package dbtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"time"

	"sluice/database/whole"
	"sluice/test/testclock"
)

// Probe is a running check. Its methods end the check at the first violation, and must be called
// only on the check's goroutine.
type Probe struct {
	Ctx     context.Context
	Harness *Harness
	Clock   *testclock.Clock
	Store   whole.Database // the first handle
	made    int64          // how many numbers next returned
}

// wrong is the value with which a probe panics to end its check.
type wrong struct{ err error }

// NewCheck returns the Check that calls fn with a probe.
func NewCheck(name string, fn func(p *Probe)) Check {
	return Check{Name: name, Run: func(ctx context.Context, h *Harness) error {
		err := caught(func() {
			p := &Probe{Ctx: ctx, Harness: h, Clock: h.Clock}
			p.Store = p.Open()
			fn(p)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}}
}

// caught returns the violation at which fn ended.
func caught(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			w, ok := r.(wrong)
			if !ok {
				panic(r)
			}
			err = w.err
		}
	}()
	fn()
	return nil
}

// Fail ends the check.
func (p *Probe) Fail(format string, a ...any) { panic(wrong{fmt.Errorf(format, a...)}) }

// Must ends the check unless the condition holds.
func (p *Probe) Must(ok bool, format string, a ...any) {
	if !ok {
		p.Fail(format, a...)
	}
}

// OK ends the check if err is not nil.
func (p *Probe) OK(err error, format string, a ...any) {
	if err != nil {
		p.Fail("%s: %w", fmt.Sprintf(format, a...), err)
	}
}

// Is ends the check unless err wraps target.
func (p *Probe) Is(err, target error, format string, a ...any) {
	if !errors.Is(err, target) {
		p.Fail("%s: got error %v, want %v", fmt.Sprintf(format, a...), err, target)
	}
}

// Value returns a call's value. It ends the check if the call returned an error, which it reports
// with the line of its caller.
func Value[T any](v T, err error) T {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		panic(wrong{fmt.Errorf("%s:%d: %w", filepath.Base(file), line, err)})
	}
	return v
}

// Error returns a call's error.
func Error[T any](_ T, err error) error { return err }

// ErrAny stands for any error, where the contract does not name one.
var ErrAny = errors.New("any error")

// Matches reports whether err is equivalent to want. If want is of a type of its own, such as an
// error with amounts, err must wrap an equal one, and the errors that want wraps.
func Matches(err, want error) bool {
	switch {
	case want == nil || errors.Is(want, ErrAny):
		return (err == nil) == (want == nil)
	case errors.Unwrap(want) == nil:
		return errors.Is(err, want)
	}
	typed := reflect.New(reflect.TypeOf(want))
	return errors.As(err, typed.Interface()) && reflect.DeepEqual(typed.Elem().Interface(), want) &&
		errors.Is(err, errors.Unwrap(want))
}

// Won ends the check unless n of the errors are nil and the rest match want.
func (p *Probe) Won(errs []error, n int, want error) {
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		p.Must(Matches(err, want), "got error %v, want %v", err, want)
	}
	p.Must(won == n, "%d of %d racing calls succeeded, want %d", won, len(errs), n)
}

// Same reports whether two results are equal. An empty slice equals nil.
func Same(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Slice && y.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
		return x.Type() == y.Type()
	}
	return reflect.DeepEqual(a, b)
}

// Agree ends the check unless a call's result is the model's.
func (p *Probe) Agree(call string, got, want any, err, wantErr error) {
	p.Must(Matches(err, wantErr), "%s: got error %v, want %v", call, err, wantErr)
	if wantErr == nil {
		p.Equal(got, want, "%s", call)
	}
}

// Next returns a number that no other call returned: for a channel, an object, or a proof.
func (p *Probe) Next() int64 {
	p.made++
	return p.made
}

// Equal ends the check unless got and want are equal.
func (p *Probe) Equal(got, want any, format string, a ...any) {
	if !Same(got, want) {
		p.Fail("%s:\n got %+v\nwant %+v", fmt.Sprintf(format, a...), got, want)
	}
}

// Open returns another handle.
func (p *Probe) Open() whole.Database {
	s := Value(p.Harness.Open())
	return s
}

// Reopen closes all handles and opens a new one.
func (p *Probe) Reopen() {
	p.OK(p.Harness.Close(), "close")
	p.Store = p.Open()
}

// Race calls fn n times concurrently and returns the errors.
func Race(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// Purge calls Purge and PurgeVersions until nothing is left to do, and returns the number of rows
// handled. It ends the check if something is left after a thousand calls.
func (p *Probe) Purge() int {
	total := 0
	for calls := 1; ; calls++ {
		n := Value(p.Store.Purge(p.Ctx, 100)) + Value(p.Store.PurgeVersions(p.Ctx, 100))
		if n == 0 {
			return total
		}
		total += n
		p.Must(calls < 1000, "no purge is the last one: %d rows", total)
	}
}

// Audited ends the check if Audit reports an inconsistency.
func (p *Probe) Audited() {
	found := Value(p.Store.Audit(p.Ctx))
	p.Must(len(found) == 0, "the audit found: %q", found)
}

// advanceEngine advances the clock by which leases are judged.
func (p *Probe) advanceEngine(d time.Duration) {
	if p.Harness.AdvanceEngine == nil {
		p.Clock.Advance(d)
		return
	}
	p.OK(p.Harness.AdvanceEngine(d), "advancing the engine's clock")
}
