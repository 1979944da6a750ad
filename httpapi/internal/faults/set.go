package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// MaxRules is the maximum number of rules in a Set.
const MaxRules = 100

// Set decides which requests have a fault. With the same seed and rules, the same ones among the
// requests that match a rule have it, counted in the order in which they arrive. It is safe for
// concurrent use.
type Set struct {
	active atomic.Bool // there are rules

	mu      sync.Mutex
	seed    uint32
	rules   []counted
	headers counter // for requests that state a share themselves
}

type counted struct {
	rule Rule
	counter

	injected int64
}

// counter counts requests, and draws some of them.
type counter struct {
	random   *rand.Rand
	requests int64
}

// Counts counts a rule's uses.
type Counts struct {
	Rule     Rule
	Requests int64 // that match
	Injected int64 // of them, that had the fault
}

// NewSet returns a Set of rules.
func NewSet(seed uint32, rules []Rule) *Set {
	s := &Set{}
	s.Replace(seed, rules)
	return s
}

// Replace replaces all rules, and begins to count again. There must be at most MaxRules.
func (s *Set) Replace(seed uint32, rules []Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seed, s.rules, s.headers = seed, nil, newCounter(seed, "")
	for i, r := range rules {
		s.rules = append(s.rules, counted{rule: r, counter: newCounter(seed, fmt.Sprint(i, " ", r))})
	}
	s.active.Store(len(rules) > 0)
}

func newCounter(seed uint32, name string) counter {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return counter{random: rand.New(rand.NewPCG(uint64(seed), h.Sum64()))}
}

// List returns the seed and the rules, in their order.
func (s *Set) List() (seed uint32, list []Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.rules {
		list = append(list, Counts{Rule: c.rule, Requests: c.requests, Injected: c.injected})
	}
	return s.seed, list
}

// Active reports whether there are rules.
func (s *Set) Active() bool { return s.active.Load() }

// Pick returns a request's fault: the first rule that matches and applies. Its Kind is "" if there
// is none. The request's own rules come first; an error is one in them.
func (s *Set) Pick(q Request, own []string) (Fault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range own {
		r, err := Parse(text)
		if err != nil {
			return Fault{}, err
		}
		if r.matches(q) && s.headers.draw(r) {
			return r.Fault, nil
		}
	}
	for i := range s.rules {
		if c := &s.rules[i]; c.rule.matches(q) && c.draw(c.rule) {
			c.injected++
			return c.rule.Fault, nil
		}
	}
	return Fault{}, nil
}

// draw reports whether a rule applies to the next request that matches it.
func (c *counter) draw(r Rule) bool {
	c.requests++
	if r.First > 0 {
		return c.requests <= r.First
	}
	return r.Share == Whole || c.random.Int64N(Whole) < r.Share
}
