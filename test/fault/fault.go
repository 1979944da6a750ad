// Package fault has the words of all tests for a step that goes wrong: which step of a file system,
// a database's connection, a store, a process or a network it is, and how it goes wrong. Other
// doubles, such as the ones of PostgreSQL's connections and of the chain's fullnode, use the same
// words.
package fault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
)

// Kind is the way in which a step goes wrong, or None.
type Kind string

// The kinds. The error of a step does not reveal its kind. Connections and networks have Delay;
// Do and Send do not.
const (
	None  Kind = ""
	Fail  Kind = "fails"           // it has no effect
	Lose  Kind = "loses its reply" // it has its effect
	Tear  Kind = "is torn"         // a part of it has its effect; a step without parts has none
	Delay Kind = "is late"         // it has its effect later, or its answer arrives later
)

// ErrFault is the error of a step, unless a test chooses another.
var ErrFault = errors.New("a fault of the test")

// Do performs a step that has no parts, and returns err if the kind is not None.
func (k Kind) Do(err error, step func() error) error {
	switch k {
	case None:
		return step()
	case Lose:
		_ = step() // lost
	}
	return err
}

// Send sends a request. A torn response lacks its body's last byte.
func (k Kind) Send(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if k == Fail {
		if r.Body != nil {
			_ = r.Body.Close() // it was not sent
		}
		return nil, ErrFault
	}
	response, err := next.RoundTrip(r)
	if err != nil || k == None {
		return response, err
	}
	if k == Tear && response.ContentLength > 0 {
		response.Body = Torn(response.Body, response.ContentLength-1)
		return response, nil
	}
	return nil, errors.Join(ErrFault, response.Body.Close())
}

// Torn returns a body that ends with io.ErrUnexpectedEOF after n bytes.
func Torn(body io.ReadCloser, n int64) io.ReadCloser { return &torn{body, n} }

type torn struct {
	io.ReadCloser
	left int64
}

func (t *torn) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := t.ReadCloser.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	return n, err
}

// Point is a fault of the step K, counted from 0, of those that Match accepts; a nil Match accepts
// all. Its methods may be called concurrently.
type Point[Step any] struct {
	K     int64
	Kind  Kind
	Err   error // ErrFault if nil
	Kills bool  // all later steps fail, because the process was killed at this one
	Match func(Step) bool

	seen   atomic.Int64
	struck atomic.Bool
}

// Struck reports whether the fault has happened. A sweep over K ends with the first run in which it
// has not.
func (p *Point[Step]) Struck() bool { return p.struck.Load() }

// Next returns the kind of the next step.
func (p *Point[Step]) Next(step Step) Kind {
	if p.Match != nil && !p.Match(step) {
		return None
	}
	switch n := p.seen.Add(1) - 1; {
	case n == p.K:
		p.struck.Store(true)
		return p.Kind
	case n > p.K && p.Kills:
		return Fail
	}
	return None
}

// Do performs the next step as Kind.Do does.
func (p *Point[Step]) Do(step Step, do func() error) error {
	kind := p.Next(step)
	return kind.Do(p.Error(kind, step), do)
}

// Error returns the error of a step.
func (p *Point[Step]) Error(kind Kind, step Step) error {
	if p.Err == nil {
		return fmt.Errorf("%v %s: %w", step, kind, ErrFault)
	}
	return fmt.Errorf("%v %s: %w", step, kind, p.Err)
}

// Only accepts steps with these names.
func Only(names ...string) func(string) bool {
	return func(step string) bool { return slices.Contains(names, step) }
}
