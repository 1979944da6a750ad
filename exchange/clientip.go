package exchange

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// clientAddress returns the client's address: the peer's or, if that is a trusted proxy, the last
// address in X-Forwarded-For that is not a trusted proxy. It reports whether that differs from the
// peer's.
func clientAddress(r *http.Request, trusted []netip.Prefix) (address netip.Addr, forwarded bool) {
	peer := peerAddress(r.RemoteAddr)
	address = peer
	if !contains(trusted, address) {
		return address, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && contains(trusted, address); i-- {
		hop := peerAddress(strings.TrimSpace(hops[i]))
		if !hop.IsValid() {
			break
		}
		address = hop
	}
	return address, address != peer
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(address) {
			return true
		}
	}
	return false
}

// peerAddress parses an address with or without a port. It returns the invalid address for other
// text.
func peerAddress(text string) netip.Addr {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}
