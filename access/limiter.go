package access

import (
	"container/list"
	"net/netip"
	"sync"

	"sluice/access/keys"
	"sluice/metastore"
)

// LimiterOptions are a Limiter's settings. The zero value limits nothing.
type LimiterOptions struct {
	// Key are the default limits for a group of keys, and Address the limits for a client address
	// without a key, to which no quota applies. 0 means unlimited.
	Key, Address keys.Limits
	// Usage reports the groups' use of their quotas. It may be nil if no group has a quota.
	Usage metastore.Usage
	// Recent is the number of groups and addresses without a request that are cached,
	// most recently used first. Default 16,384.
	Recent int
}

// Limiter holds the Allowances of all groups of keys and of all client addresses on this
// node. Its methods may be called concurrently.
//
// An Allowance is kept while it is in use, that is, until each of its users has called
// Release, and afterwards in an LRU list of LimiterOptions.Recent entries. Evicting it loses
// nothing if its buckets are full again; a client with so many addresses that they are
// evicted earlier has as many limits anyway.
type Limiter struct {
	opt  LimiterOptions
	hits hits
	mu   struct {
		sync.Mutex
		allowances map[holder]*Allowance
		idle       list.List // the *Allowance without users, most recently used first
	}
}

// NewLimiter returns a Limiter.
func NewLimiter(opt LimiterOptions) *Limiter {
	opt.Key = opt.Key.Resolve(keys.NoLimits())
	for _, k := range keys.LimitKinds {
		if k.Quota() {
			*k.Of(&opt.Address) = keys.Unlimited
		}
	}
	opt.Address = opt.Address.Or(keys.NoLimits())
	if opt.Recent == 0 {
		opt.Recent = 16 << 10
	}
	l := &Limiter{opt: opt}
	l.mu.allowances = map[holder]*Allowance{}
	return l
}

// KeyLimits returns the default limits for a group of keys. Each is above 0 or keys.Unlimited.
func (l *Limiter) KeyLimits() keys.Limits { return l.opt.Key }

// AddressLimits returns the limits for a client address, in the same form.
func (l *Limiter) AddressLimits() keys.Limits { return l.opt.Address }

// Hits returns how often a limit was hit since the Limiter was created, by any holder: how often a
// request or a write was refused, or, for the rates of bytes, how often one was delayed. kind is an
// index of keys.LimitKinds.
func (l *Limiter) Hits(kind int) int64 { return l.hits[kind].Load() }

// OfKey returns the Allowance for the caller's group of keys. If the group's limits have changed,
// the new ones apply from now on. The caller must Release it.
func (l *Limiter) OfKey(c *Caller) *Allowance {
	return l.acquire(holder{group: c.Group()}, c.Limits(), l.opt.Key)
}

// OfAddress returns the Allowance for a client address. All addresses in an IPv6 /64 share one,
// since one client has all of them. An IPv4-mapped IPv6 address counts as the IPv4 address, zones
// are ignored, and all invalid addresses share one. The caller must Release it.
func (l *Limiter) OfAddress(a netip.Addr) *Allowance {
	return l.acquire(holder{network: Network(a)}, l.opt.Address, l.opt.Address)
}

// Network returns a client's network: OfAddress considers its addresses as one.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// acquire returns a holder's Allowance with one more user, and sets its limits.
func (l *Limiter) acquire(h holder, limits, defaults keys.Limits) *Allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.mu.allowances[h]
	if a == nil {
		a = newAllowance(h, l.opt.Usage, &l.hits, l.release)
		l.mu.allowances[h] = a
	}
	if a.idle != nil {
		l.mu.idle.Remove(a.idle)
		a.idle = nil
	}
	a.users++
	a.setLimits(limits, defaults)
	return a
}

// release removes a user from an Allowance. Without users it becomes the most recent idle one. If
// there are too many, the oldest idle one is evicted.
func (l *Limiter) release(a *Allowance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.users--; a.users > 0 {
		return
	}
	a.idle = l.mu.idle.PushFront(a)
	if l.mu.idle.Len() > l.opt.Recent {
		oldest := l.mu.idle.Remove(l.mu.idle.Back()).(*Allowance)
		delete(l.mu.allowances, oldest.holder)
	}
}
