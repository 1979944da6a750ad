// Package loopback recognizes host names that denote this machine.
package loopback

import "net/netip"

// IsHost reports whether host, without port and brackets, is "localhost" or a
// loopback address.
func IsHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
