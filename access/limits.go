package access

import (
	"container/list"
	"net/netip"
	"runtime"
	"sync"
	"weak"

	"sluice/metastore"
)

// LimiterOptions are the settings of a Limiter. The zero value limits nothing.
type LimiterOptions struct {
	// Key holds the default limits of a group of keys, Address those of an
	// anonymous address, for whom nothing that is stored is counted. 0: none.
	Key, Address metastore.Limits
	// Usage tells what the groups have stored. It may be nil when no group has a
	// limit for that.
	Usage metastore.Usage
	// Recent is the number of groups and addresses, the last that were asked
	// for, that are remembered when they have no request at work. Default 16,384.
	Recent int
}

// Limiter keeps everybody within his limits, on this node. Its methods may be
// called at once from many goroutines.
//
// An Allowance is remembered while somebody holds it, and as one of the recent
// ones. Nothing is lost with another whose buckets are full again, and whoever
// has so many addresses that his are forgotten before has as many limits anyway.
type Limiter struct {
	opt LimiterOptions
	mu  struct {
		sync.Mutex
		allowances map[holder]weak.Pointer[Allowance]
		recent     list.List // of *Allowance, the one asked for last at the front
	}
}

// holder is whose an Allowance is: a group, or a network.
type holder struct {
	group   string
	network netip.Prefix
}

// NewLimiter gives a Limiter that knows nobody yet.
func NewLimiter(opt LimiterOptions) *Limiter {
	opt.Key = opt.Key.Or(metastore.NoLimits())
	for _, k := range metastore.LimitKinds {
		if k.Quota() {
			*k.Of(&opt.Address) = metastore.Unlimited
		}
	}
	opt.Address = opt.Address.Or(metastore.NoLimits())
	if opt.Recent == 0 {
		opt.Recent = 16 << 10
	}
	l := &Limiter{opt: opt}
	l.mu.allowances = map[holder]weak.Pointer[Allowance]{}
	return l
}

// KeyLimits are the default limits of a group of keys: each is above 0 or
// metastore.Unlimited.
func (l *Limiter) KeyLimits() metastore.Limits { return l.opt.Key }

// AddressLimits are those of an anonymous address, in the same form.
func (l *Limiter) AddressLimits() metastore.Limits { return l.opt.Address }

// OfKey gives the Allowance that the caller shares with all keys of his group.
// Where the limits of the group are others than before, they hold from now on.
func (l *Limiter) OfKey(c *Caller) *Allowance {
	return l.of(holder{group: c.Group()}, c.Limits().Or(l.opt.Key))
}

// OfAddress gives the Allowance of a client's address. The addresses of a /64
// of IPv6 have one together, since one client has all of them. An IPv4 address
// that is written as one of IPv6 is the same, and zones make no difference. All
// invalid addresses are one.
func (l *Limiter) OfAddress(a netip.Addr) *Allowance {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	return l.of(holder{network: netip.PrefixFrom(a, bits).Masked()}, l.opt.Address)
}

// of gives the Allowance of a holder and has it keep these limits.
func (l *Limiter) of(h holder, limits metastore.Limits) *Allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.mu.allowances[h].Value()
	if a == nil {
		a = newAllowance(h, l.opt.Usage)
		l.mu.allowances[h] = weak.Make(a)
		runtime.AddCleanup(a, l.forget, h)
	}
	a.keep(limits)
	l.remember(a)
	return a
}

// remember makes an Allowance the most recent one.
func (l *Limiter) remember(a *Allowance) {
	if a.recent != nil {
		l.mu.recent.MoveToFront(a.recent)
		return
	}
	a.recent = l.mu.recent.PushFront(a)
	if l.mu.recent.Len() > l.opt.Recent {
		oldest := l.mu.recent.Remove(l.mu.recent.Back()).(*Allowance)
		oldest.recent = nil
	}
}

// forget removes the place of an Allowance that is gone, unless there is a new
// one in it.
func (l *Limiter) forget(h holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.allowances[h].Value() == nil {
		delete(l.mu.allowances, h)
	}
}
