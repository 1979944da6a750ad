package dbtest

import (
	"fmt"
	"runtime"
	"strings"

	"pgregory.net/rapid"
)

// Play plays random histories until one ends the check.
func (p *Probe) Play(one func(t *rapid.T, round int)) {
	round := 0
	rec := &recorder{name: "model"}
	done := make(chan struct{})
	go func() { // rapid calls Goexit when a history fails
		defer close(done)
		rapid.Check(rec, func(t *rapid.T) {
			round++
			if err := caught(func() { one(t, round) }); err != nil {
				t.Fatalf("%v", err)
			}
		})
	}()
	<-done
	if rec.failed {
		p.Fail("%s", strings.Join(rec.log, "\n"))
	}
}

// recorder is a rapid.TB that records the failure.
type recorder struct {
	name   string
	failed bool
	log    []string
}

func (r *recorder) Helper() {}

func (r *recorder) Name() string { return r.name }

func (r *recorder) Logf(format string, a ...any) { r.log = append(r.log, fmt.Sprintf(format, a...)) }

func (r *recorder) Log(a ...any) { r.log = append(r.log, fmt.Sprint(a...)) }

func (r *recorder) Skipf(f string, a ...any) { r.Logf(f, a...); r.SkipNow() }

func (r *recorder) Skip(a ...any) { r.Log(a...); r.SkipNow() }

func (r *recorder) SkipNow() { r.FailNow() } // a history that was not played must not pass

func (r *recorder) Errorf(f string, a ...any) { r.Logf(f, a...); r.Fail() }

func (r *recorder) Error(a ...any) { r.Log(a...); r.Fail() }

func (r *recorder) Fatalf(f string, a ...any) { r.Logf(f, a...); r.FailNow() }

func (r *recorder) Fatal(a ...any) { r.Log(a...); r.FailNow() }

func (r *recorder) Fail() { r.failed = true }

func (r *recorder) Failed() bool { return r.failed }

func (r *recorder) FailNow() { r.failed = true; runtime.Goexit() }
