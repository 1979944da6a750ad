package blob

import (
	"strings"
	"sync"
	"time"
)

// How long, and of how many accounts, it is remembered that they keep no versions.
const (
	unkeptFor  = 10 * time.Second
	mostUnkept = 10_000
)

// unkept has accounts that keep no versions. Its methods may be called concurrently.
type unkept struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (u *unkept) remembered(account string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return now.Before(u.until[account])
}

// remember remembers an account until a time.
func (u *unkept) remember(account string, until time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil || len(u.until) >= mostUnkept {
		u.until = map[string]time.Time{}
	}
	u.until[strings.Clone(account)] = until
}

func (u *unkept) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = nil
}
