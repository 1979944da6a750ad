package access

import (
	"slices"
	"sync/atomic"

	"sluice/metastore"
)

// hits counts how often each limit has refused or delayed a request, indexed like
// metastore.LimitKinds.
type hits [len(metastore.LimitKinds)]atomic.Int64

// Where the limits stand that are no quotas.
var (
	kindRequests   = kindNamed("requests per second")
	kindBytesIn    = kindNamed("bytes in per second")
	kindBytesOut   = kindNamed("bytes out per second")
	kindConcurrent = kindNamed("concurrent requests")
)

// kindNamed returns where the limit with that name stands in metastore.LimitKinds.
func kindNamed(name string) int {
	return slices.IndexFunc(metastore.LimitKinds[:], func(k metastore.LimitKind) bool { return k.Name == name })
}
