package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// crowd is a hosted service in a bubble, behind a trusted proxy, with the limits of addresses that
// are a hosted service's defaults.
type crowd struct {
	*service
	keys *slowKeys
	run  *access.Authenticator
}

const crowdProxy = "192.0.2.1"

func newCrowd(t *testing.T, slots int64) *crowd {
	c := &crowd{keys: &slowKeys{}}
	c.service = build(t, setup{now: time.Now, keys: c.keys.of, config: func(config *Config) {
		c.run, config.MaxRequests = config.Keys, slots
		config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(crowdProxy + "/32")}
		config.Limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 20, ConcurrentRequests: 32}})
	}})
	ctx, stop := context.WithCancel(t.Context())
	polled := make(chan struct{})
	go func() { defer close(polled); c.run.Run(ctx, func(err error) { t.Error(err) }) }()
	t.Cleanup(func() { stop(); <-polled })
	synctest.Wait()
	return c
}

// ask sends a client's request and returns the status.
func (c *crowd) ask(ctx context.Context, client, credential string) int {
	headers := append(keyHeader(credential), "X-Forwarded-For", client)
	return c.direct(ctx, crowdProxy+":1", "GET", "/v1/info", "", headers...).StatusCode
}

// served checks that a client with a credential is served.
func (c *crowd) served(t *testing.T, credential string) {
	t.Helper()
	testenv.Equal(t, c.ask(t.Context(), "198.51.100.1", credential), http.StatusOK, "the response to a known key")
}

// key creates a key and makes the service know it.
func (c *crowd) key(t *testing.T) (keys.Key, string) {
	issued := testenv.Must(access.Create(t.Context(), c.meta, access.NewKey{Scopes: []access.Scope{access.ScopeRead}}))(t)
	c.poll()
	c.served(t, issued.Credential)
	return issued.Key, issued.Credential
}

// poll waits until the service has seen a change of keys.
func (c *crowd) poll() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// attack makes every address send requests with the credential, as many at once as an address may
// have, until the returned function is called.
func (c *crowd) attack(addresses int, credential func(n int64) string) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var requests sync.WaitGroup
	var sent atomic.Int64
	for a := range addresses {
		for range 32 {
			requests.Go(func() {
				for ctx.Err() == nil {
					c.ask(ctx, fmt.Sprintf("203.0.113.%d", a+1), credential(sent.Add(1)))
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
	}
	return func() { stop(); requests.Wait() }
}

// unknownKey returns a well-formed credential of no key.
func unknownKey(n int64) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	var id [16]byte
	for i := range id {
		id[i] = alphabet[n>>(5*i%60)&31]
	}
	return "sluice_" + string(id[:]) + "_" + strings.Repeat("a", 56)
}

// TestUnknownKeysTakeNoSlotsOfKnownOnes checks that keys which a node knows are served while many
// addresses send unknown keys to a store that is slow.
// Invariant 55.
func TestUnknownKeysTakeNoSlotsOfKnownOnes(t *testing.T) {
	t.Parallel()
	for _, addresses := range []int{4, 16} {
		t.Run(fmt.Sprint(addresses), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const slots = 64
				c := newCrowd(t, slots)
				_, known := c.key(t)
				c.keys.takes.Store(int64(50 * time.Millisecond))
				end := c.attack(addresses, unknownKey)
				defer end()
				time.Sleep(time.Second)
				most := int64(0)
				for range 20 {
					var asked sync.WaitGroup
					for range slots / 8 { // its share
						asked.Go(func() { c.served(t, known) })
					}
					asked.Wait()
					most = max(most, c.Counts().Active)
					time.Sleep(100 * time.Millisecond)
				}
				if most < slots*3/4 || most > slots*7/8 {
					t.Errorf("the attack held %d slots of %d; the test wants it to have its share, and no more", most, slots)
				}
			})
		})
	}
}

// TestChangeOfKeysRefusesNoKnownKey checks that callers with keys that a node knew keep their share
// of slots while the keys are looked up again, which a revocation makes necessary, and that the
// revoked key does not.
// Invariant 55.
func TestChangeOfKeysRefusesNoKnownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 64
		c := newCrowd(t, slots)
		var known []string
		for range 20 { // more than lookups of unknown keys may run
			_, credential := c.key(t)
			known = append(known, credential)
		}
		for _, credential := range known { // each was created after the earlier ones were looked up
			c.served(t, credential)
		}
		revoked, gone := c.key(t)
		end := c.attack(16, func(n int64) string {
			if n%2 == 0 {
				return ""
			}
			return unknownKey(n)
		})
		defer end()
		time.Sleep(time.Second)
		for _, credential := range known { // known again, after the last key was created
			c.served(t, credential)
		}
		c.keys.takes.Store(int64(100 * time.Millisecond)) // so that unknown keys take all lookups
		testenv.OK(t, testenv.Error(c.meta.RevokeKey(t.Context(), revoked.ID, nil)))
		c.poll()
		before := c.keys.lookups.Load()
		began := time.Now()
		var asked sync.WaitGroup
		for i := range slots / 8 {
			asked.Go(func() { c.served(t, known[i]) })
		}
		asked.Wait()
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("the keys waited %v for lookups that take 100 ms", took)
		}
		if c.keys.lookups.Load()-before < slots/8 {
			t.Error("the keys were not looked up again")
		}
		for range 3 {
			if status := c.ask(t.Context(), "198.51.100.1", gone); status == http.StatusOK {
				t.Error("a revoked key was let in")
			}
		}
		if caller, _ := c.run.Remembered(gone); caller != nil {
			t.Error("a key that was found revoked keeps its share")
		}
	})
}
