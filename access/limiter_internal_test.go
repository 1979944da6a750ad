package access

import (
	"net/netip"
	"testing"
)

// TestEvictedAllowancesUseNoMemory checks that all Allowances with users are kept, and only the
// recent ones without.
func TestEvictedAllowancesUseNoMemory(t *testing.T) {
	const recent = 100
	l := NewLimiter(LimiterOptions{Recent: recent})
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	var used []*Allowance
	for i := range 50 * recent {
		a := l.OfAddress(address(i))
		if i%10 == 0 {
			used = append(used, a)
			continue
		}
		a.Release()
	}
	if n := len(l.mu.allowances); n != recent+len(used) || l.mu.idle.Len() != recent {
		t.Errorf("%d Allowances are kept, %d of them idle, want %d and %d", n, l.mu.idle.Len(), recent+len(used), recent)
	}
	for _, a := range used {
		a.Release()
	}
	if n := len(l.mu.allowances); n != recent || l.mu.idle.Len() != recent {
		t.Errorf("without users %d Allowances are kept, %d of them idle, want %d", n, l.mu.idle.Len(), recent)
	}
}

// TestAllowanceWithTwoUsers checks that an Allowance is kept until both users have released it.
func TestAllowanceWithTwoUsers(t *testing.T) {
	l := NewLimiter(LimiterOptions{Recent: 1})
	other := func() { l.OfAddress(netip.IPv4Unspecified()).Release() }
	a := l.OfAddress(netip.IPv6Loopback())
	if l.OfAddress(netip.IPv6Loopback()) != a {
		t.Fatal("two users have two Allowances")
	}
	a.Release()
	other()
	if l.OfAddress(netip.IPv6Loopback()) != a {
		t.Error("an Allowance with a user was evicted")
	}
	a.Release()
	a.Release()
	if l.mu.idle.Len() != 1 {
		t.Errorf("%d are idle, want 1", l.mu.idle.Len())
	}
	other()
	if l.OfAddress(netip.IPv6Loopback()) == a {
		t.Error("the least recently used Allowance without users was not evicted")
	}
}
