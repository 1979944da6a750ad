package access

import (
	"slices"
	"sync/atomic"

	"sluice/access/keys"
)

// hits counts how often each limit has refused or delayed a request, indexed like
// keys.LimitKinds.
type hits [len(keys.LimitKinds)]atomic.Int64

// The indexes of limits that are no quotas.
var (
	kindRequests   = kindNamed("requests per second")
	kindBytesIn    = kindNamed("bytes in per second")
	kindBytesOut   = kindNamed("bytes out per second")
	kindConcurrent = kindNamed("concurrent requests")
)

// kindNamed returns the index of the limit with that name in keys.LimitKinds.
func kindNamed(name string) int {
	return slices.IndexFunc(keys.LimitKinds[:], func(k keys.LimitKind) bool { return k.Name == name })
}
