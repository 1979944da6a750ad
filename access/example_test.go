package access_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"

	"sluice/access"
	"sluice/access/keys"
	"sluice/database/sqlstore"
)

// A key is created, a request with its credential is authenticated and authorized, and the
// request's blob is reserved in its group's quota.
func Example() {
	dir, err := os.MkdirTemp("", "access")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()

	issued, err := access.Create(ctx, store, access.NewKey{
		Scopes:   []access.Scope{access.ScopeRead, access.ScopeWrite},
		Accounts: []string{"alice"},
		Group:    "team",
		Limits:   keys.Limits{ConcurrentRequests: 1, StoredObjects: 1},
	})
	if err != nil {
		log.Fatal(err)
	}

	caller, err := access.NewAuthenticator(store, access.AuthenticatorOptions{}).Authenticate(ctx, issued.Credential)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("write alice:", caller.Allows(access.ScopeWrite, "alice"))
	fmt.Println("write bob:", caller.Allows(access.ScopeWrite, "bob"))

	limiter := access.NewLimiter(access.LimiterOptions{Usage: store})
	allowance := limiter.OfKey(caller)
	defer allowance.Release()
	leave, err := allowance.Enter(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = allowance.Enter(ctx)
	fmt.Println("second request:", err)
	leave()

	reservation, err := allowance.Reserve(ctx, "photo.jpg", "", 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	_, err = allowance.Reserve(ctx, "other.jpg", "", 1<<20)
	fmt.Println("second blob:", err)
	reservation.Release() // the first was not stored after all

	// Output:
	// write alice: <nil>
	// write bob: the key is not for this account
	// second request: too many concurrent requests
	// second blob: the quota is exceeded: of 1 stored objects 1 are in use, 1 more are wanted
}

// Without a key, the requests of one client address share an Allowance.
func ExampleLimiter_OfAddress() {
	limiter := access.NewLimiter(access.LimiterOptions{
		Address: keys.Limits{RequestsPerSecond: 100},
	})
	for _, address := range []string{"192.0.2.1", "2001:db8::1", "2001:db8::2"} {
		allowance := limiter.OfAddress(netip.MustParseAddr(address))
		fmt.Println(allowance.Holder(), allowance.Limits().RequestsPerSecond)
		allowance.Release()
	}
	// Output:
	// network 192.0.2.1/32 100
	// network 2001:db8::/64 100
	// network 2001:db8::/64 100
}
