package blob

import (
	"sync"
	"time"

	"sluice/metastore"
)

const (
	rulesTTL    = 10 * time.Second
	mostRuled   = 10_000 // accounts in a rulesCache
	mostRulesIn = 20_000 // rules in a rulesCache, and an account's more
)

// rulesCache has accounts' rules for rulesTTL.
type rulesCache struct {
	mu    sync.Mutex
	of    map[string]cachedRules
	rules int   // the sum
	reset int64 // how often it was emptied
}

type cachedRules struct {
	rules []metastore.Rule
	until time.Time
}

// get returns a key's rules, which load reads if need be.
func (c *rulesCache) get(key string, load func() ([]metastore.Rule, error)) ([]metastore.Rule, error) {
	c.mu.Lock()
	cached, found := c.of[key]
	reset := c.reset
	c.mu.Unlock()
	if found && time.Now().Before(cached.until) {
		return cached.rules, nil
	}
	rules, err := load()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if reset != c.reset {
		return rules, nil // they may be older than a change
	}
	if len(c.of) >= mostRuled || c.rules >= mostRulesIn {
		c.of, c.rules = nil, 0
	}
	if c.of == nil {
		c.of = map[string]cachedRules{}
	}
	c.rules += len(rules) - len(c.of[key].rules)
	c.of[key] = cachedRules{rules, time.Now().Add(rulesTTL)}
	return rules, nil
}

// forget empties the cache.
func (c *rulesCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.rules, c.reset = nil, 0, c.reset+1
}
