package access

import (
	"net/netip"
	"runtime"
	"testing"
)

// TestForgottenAllowancesTakeNoMemory: their places in the table go too.
func TestForgottenAllowancesTakeNoMemory(t *testing.T) {
	const recent = 100
	l := NewLimiter(LimiterOptions{Recent: recent})
	for i := range 50 * recent {
		l.OfAddress(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	remembered := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.allowances)
	}
	for remembered() > recent { // the runtime cleans up behind a collection, in its own time
		runtime.GC()
	}
	if n := remembered(); n != recent {
		t.Errorf("%d are remembered, want %d", n, recent)
	}
}

// TestForgetSparesASuccessor: the runtime may clean up behind an Allowance when
// there is another in its place already.
func TestForgetSparesASuccessor(t *testing.T) {
	l := NewLimiter(LimiterOptions{})
	address := netip.IPv6Loopback()
	a := l.OfAddress(address)
	for h := range l.mu.allowances {
		l.forget(h)
	}
	if l.OfAddress(address) != a {
		t.Error("an Allowance that is in use was forgotten")
	}
}
