package access_test

import (
	"context"
	"errors"
	"slices"
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

// newKeys returns an Authenticator over a store's handle, the line to that handle, and another
// handle, which stands for a key command.
func newKeys(t *testing.T) (*access.Authenticator, *line, *line) {
	stores := openStores(t, 2)
	served, command := &line{Database: stores[0]}, &line{Database: stores[1]}
	return access.NewAuthenticator(served, access.AuthenticatorOptions{}), served, command
}

// run polls in the background until the test ends.
func run(t *testing.T, k *access.Authenticator, report func(error)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx, report) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// noReport fails the test if a poll fails.
func noReport(t *testing.T) func(error) { return func(err error) { t.Error(err) } }

// authenticate fails the test unless the credential is accepted or rejected as wanted.
func authenticate(t *testing.T, when string, k *access.Authenticator, credential string, want error) {
	t.Helper()
	caller, err := k.Authenticate(t.Context(), credential)
	if !errors.Is(err, want) || (caller == nil) != (want != nil) {
		t.Errorf("%s: %v, want %v", when, err, want)
	}
}

func TestAuthenticate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, _, command := newKeys(t)
		key, good := makeKey(t, command, access.NewKey{Accounts: []string{"a"}, Group: "g"})
		other, otherGood := makeKey(t, command, access.NewKey{})
		_, expired := makeKey(t, command, access.NewKey{Expires: time.Now()})
		revokedKey, revoked := makeKey(t, command, access.NewKey{})
		testenv.Must(command.RevokeKey(t.Context(), revokedKey.ID, nil))(t)
		secret := good[len(good)-56:]
		for range 2 { // from the store, and then from the cache
			for name, bad := range map[string]string{
				"empty":                   "",
				"malformed":               "sluice_x",
				"the id alone":            key.ID,
				"an unknown id":           "sluice_" + strings.Repeat("a", 16) + "_" + secret,
				"the secret of another":   "sluice_" + other.ID + "_" + secret,
				"a character of the id":   "sluice_" + flip(key.ID) + "_" + secret,
				"a character of secret":   "sluice_" + key.ID + "_" + flip(secret),
				"the hash in place of it": "sluice_" + key.ID + "_" + strings.Repeat("a", 56),
				"in capitals":             strings.ToUpper(good),
				"expired":                 expired,
				"revoked":                 revoked,
			} {
				caller, err := keys.Authenticate(t.Context(), bad)
				// The errors must not differ.
				if caller != nil || !errors.Is(err, access.ErrUnknownKey) || err.Error() != access.ErrUnknownKey.Error() {
					t.Errorf("%s: %v, %v", name, caller, err)
				}
			}
			caller, err := keys.Authenticate(t.Context(), good)
			if err != nil || caller.ID() != key.ID || caller.Group() != "g" || !slices.Equal(caller.Accounts(access.ScopeRead), []string{"a"}) {
				t.Errorf("%+v, %v", caller, err)
			}
			authenticate(t, "another", keys, otherGood, nil)
			run(t, keys, noReport(t))
		}
	})
}

// flip changes the last character.
func flip(s string) string {
	last := "b"
	if strings.HasSuffix(s, "b") {
		last = "c"
	}
	return s[:len(s)-1] + last
}

func TestCallerAllows(t *testing.T) {
	store := openStores(t, 1)[0]
	for name, c := range map[string]struct {
		key     access.NewKey
		scope   access.Scope
		account string
		want    error
	}{
		"its scope and account":           {access.NewKey{Accounts: []string{"b", "a"}}, access.ScopeRead, "a", nil},
		"its other account":               {access.NewKey{Accounts: []string{"b", "a"}}, access.ScopeWrite, "b", nil},
		"another account":                 {access.NewKey{Accounts: []string{"b", "a"}}, access.ScopeRead, "c", access.ErrAccount},
		"an account that begins the same": {access.NewKey{Accounts: []string{"ab"}}, access.ScopeRead, "a", access.ErrAccount},
		"an account not known yet":        {access.NewKey{Accounts: []string{"a"}}, access.ScopeRead, "", access.ErrAccount},
		"all accounts":                    {access.NewKey{}, access.ScopeRead, "c", nil},
		"all, not known yet":              {access.NewKey{}, access.ScopeRead, "", nil},
		"another scope":                   {access.NewKey{}, access.ScopeChannels, "a", access.ErrScope},
		"scope before account":            {access.NewKey{Accounts: []string{"a"}}, access.ScopeChannels, "b", access.ErrScope},
		"admin reads":                     {admin("a"), access.ScopeRead, "a", nil},
		"admin writes":                    {admin("a"), access.ScopeWrite, "a", nil},
		"admin has channels":              {admin("a"), access.ScopeChannels, "a", nil},
		"admin creates":                   {admin("a"), access.ScopeCreate, "a", nil},
		"write creates":                   {access.NewKey{Scopes: []access.Scope{access.ScopeWrite}}, access.ScopeCreate, "a", nil},
		"create does not write":           {access.NewKey{Scopes: []access.Scope{access.ScopeCreate}}, access.ScopeWrite, "a", access.ErrScope},
		"create does not read":            {access.NewKey{Scopes: []access.Scope{access.ScopeCreate}}, access.ScopeRead, "a", access.ErrScope},
		"admin elsewhere":                 {admin("a"), access.ScopeRead, "b", access.ErrAccount},
		"read is not admin":               {access.NewKey{}, access.ScopeAdmin, "a", access.ErrScope},
	} {
		caller := callerOf(t, store, c.key)
		testenv.Is(t, caller.Allows(c.scope, c.account, "name"), c.want, "%s", name)
		testenv.Equal(t, caller.Can(c.scope, c.account, "name"), c.want == nil, "%s: whether it can", name)
		testenv.Equal(t, caller.Has(c.scope), !errors.Is(c.want, access.ErrScope), "%s: whether it has the scope", name)
	}
}

// TestGrantsAllow checks a key with several grants: a backup's, which creates everywhere and
// deletes locks only, and further ones.
// Invariant 193.
func TestGrantsAllow(t *testing.T) {
	caller := callerOf(t, openStores(t, 1)[0], access.NewKey{Grants: []keys.Grant{
		{Scopes: []string{"create", "read"}, Accounts: []string{"b", "a"}},
		{Scopes: []string{"write"}, Accounts: []string{"a"}, Prefix: "locks/"},
		{Scopes: []string{"admin"}, Prefix: "all/"},
		{Scopes: []string{"channels"}, Accounts: []string{"d"}},
	}})
	for _, c := range []struct {
		scope         access.Scope
		account, name string
		want          error
		some          bool // for some names
	}{
		{access.ScopeCreate, "a", "data/1", nil, true},
		{access.ScopeRead, "b", "", nil, true},
		{access.ScopeWrite, "a", "locks/1", nil, true},
		{access.ScopeWrite, "a", "locks/", nil, true},
		{access.ScopeWrite, "a", "locks", access.ErrName, true},
		{access.ScopeWrite, "a", "lock", access.ErrName, true},
		{access.ScopeWrite, "a", "Locks/1", access.ErrName, true},
		{access.ScopeWrite, "a", "x/locks/1", access.ErrName, true},
		{access.ScopeWrite, "a", "", access.ErrName, true},
		{access.ScopeWrite, "b", "locks/1", access.ErrName, true},
		{access.ScopeWrite, "b", "all/1", nil, true},
		{access.ScopeWrite, "", "all/1", nil, true},
		{access.ScopeWrite, "", "", access.ErrName, true},
		{access.ScopeRead, "c", "all/1", nil, true},
		{access.ScopeRead, "c", "data/1", access.ErrName, true},
		{access.ScopeAdmin, "c", "all/", nil, true},
		{access.ScopeAdmin, "", "", access.ErrName, true},
		{access.ScopeChannels, "d", "", nil, true},
		{access.ScopeChannels, "a", "", access.ErrName, true},
		{"unknown", "a", "all/1", access.ErrScope, false},
	} {
		err := caller.Allows(c.scope, c.account, c.name)
		testenv.Is(t, err, c.want, "%s on %q %q", c.scope, c.account, c.name)
		if err != nil && !strings.Contains(err.Error(), `"`+string(c.scope)+`"`) {
			t.Errorf("%s on %q %q: the error does not name the scope: %v", c.scope, c.account, c.name, err)
		}
		testenv.Equal(t, caller.Can(c.scope, c.account, c.name), c.want == nil, "whether it can %s %q %q", c.scope, c.account, c.name)
		testenv.Equal(t, caller.Reaches(c.scope, c.account), c.some, "whether it has %s on some names of %q", c.scope, c.account)
	}
	testenv.Equal(t, caller.Accounts(access.ScopeChannels) == nil, true, "all accounts by the scope admin")
	few := callerOf(t, openStores(t, 1)[0], access.NewKey{Grants: []keys.Grant{
		{Scopes: []string{"create", "read"}, Accounts: []string{"b", "a"}}, {Scopes: []string{"write"}, Accounts: []string{"b", "c"}, Prefix: "x"}, {Scopes: []string{"channels"}},
	}})
	testenv.Equal(t, strings.Join(few.Accounts(access.ScopeRead, access.ScopeCreate), " "), "a b c", "its accounts")
	none := few.Accounts(access.ScopeAdmin)
	testenv.Equal(t, none != nil && len(none) == 0, true, "no accounts of a scope that it lacks")
	testenv.Equal(t, testing.AllocsPerRun(100, func() {
		if few.Allows(access.ScopeRead, "a", "data/1") != nil || few.Can(access.ScopeWrite, "a", "data/1") {
			t.Error("the grants have changed")
		}
	}), 0, "allocations")
}

func admin(accounts ...string) access.NewKey {
	return access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: accounts}
}

func TestKeysAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		_, good := makeKey(t, command, access.NewKey{})
		for range 3 {
			authenticate(t, "before the first poll", keys, good, nil)
		}
		testenv.Equal(t, served.lookups.Load(), 3, "lookups before the first poll")
		run(t, keys, noReport(t))
		for range 100 {
			authenticate(t, "polled", keys, good, nil)
			authenticate(t, "wrong secret", keys, flip(good), access.ErrUnknownKey)
			time.Sleep(time.Second)
		}
		testenv.Equal(t, served.lookups.Load(), 4, "lookups")
	})
}

// TestCachedKeysAreBounded checks that no more keys are cached than the options allow.
// Invariant 55.
func TestCachedKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4
		store := openStores(t, 1)[0]
		keys := access.NewAuthenticator(store, access.AuthenticatorOptions{Size: size})
		run(t, keys, noReport(t))
		var all []string
		for range 5 * size {
			_, good := makeKey(t, store, access.NewKey{})
			all = append(all, good)
		}
		time.Sleep(time.Second) // a poll sees the new keys
		synctest.Wait()
		for _, good := range all {
			authenticate(t, "one of many", keys, good, nil)
		}
		synctest.Wait()
		remembered := 0
		for _, good := range all {
			if _, current := keys.Remembered(good); current {
				remembered++
			}
		}
		if remembered == 0 || remembered > size {
			t.Errorf("%d keys of %d are cached, want 1 to %d", remembered, len(all), size)
		}
	})
}

// TestRemembered: current is true exactly if Authenticate does not query the store, and a key's
// holder is remembered, with its secret alone, until the key is found to be invalid.
// Invariant 55.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		key, good := makeKey(t, command, access.NewKey{})
		check := func(when, credential string, wantKnown, want bool) {
			t.Helper()
			before := served.lookups.Load()
			caller, current := keys.Remembered(credential)
			_, _ = keys.Authenticate(t.Context(), credential)
			if asked := served.lookups.Load() > before; current != want || asked == want || (caller != nil) != wantKnown {
				t.Errorf("%s: known %t, current %t, queries %t", when, caller != nil, current, asked)
			}
		}
		check("malformed", "sluice_x", false, true)
		check("before the first poll", good, false, false)
		check("before the first poll, again", good, true, false)
		check("before the first poll, with another secret", flip(good), false, false)
		run(t, keys, noReport(t))
		check("polled for the first time", good, true, false)
		check("seen before", good, true, true)
		check("its id with another secret", flip(good), false, true)
		check("an unknown id", "sluice_"+strings.Repeat("a", 16)+"_"+good[len(good)-56:], false, false)
		makeKey(t, command, access.NewKey{})
		poll()
		check("after a change of another, with another secret", flip(good), false, false)
		makeKey(t, command, access.NewKey{})
		poll()
		check("after a change of another", good, true, false)
		check("after that", good, true, true)
		testenv.Must(command.RevokeKey(t.Context(), key.ID, nil))(t)
		poll()
		check("revoked, and not looked up yet", good, true, false)
		check("found to be revoked", good, false, true)
		makeKey(t, command, access.NewKey{})
		poll()
		check("revoked, after a further change", good, false, false)
	})
}

func TestExpiryIsJudgedByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		_, good := makeKey(t, command, access.NewKey{Expires: time.Now().Add(time.Minute)})
		run(t, keys, noReport(t))
		authenticate(t, "fresh", keys, good, nil)
		time.Sleep(time.Minute - time.Microsecond)
		authenticate(t, "just before", keys, good, nil)
		time.Sleep(time.Microsecond)
		authenticate(t, "at its expiry", keys, good, access.ErrUnknownKey)
		testenv.Equal(t, served.lookups.Load(), 1, "lookups")
	})
}

// TestKeyReadBeforeItWasRevoked checks that a key that was read before a change is not used after
// the change was seen.
// Invariant 34.
func TestKeyReadBeforeItWasRevoked(t *testing.T) {
	for name, polling := range map[string]bool{"while polled": true, "before the first poll": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, served, command := newKeys(t)
				key, good := makeKey(t, command, access.NewKey{})
				if polling {
					run(t, keys, noReport(t))
				}
				read, goOn := make(chan struct{}), make(chan struct{})
				hold := func() { close(read); <-goOn }
				served.answer.Store(&hold)
				done := make(chan error)
				go func() {
					_, err := keys.Authenticate(t.Context(), good)
					done <- err
				}()
				<-read
				served.answer.Store(nil)
				testenv.Must(command.RevokeKey(t.Context(), key.ID, nil))(t)
				if polling {
					time.Sleep(time.Second)
				} else {
					version := testenv.Must(served.KeysVersion(t.Context()))(t)
					served.origin.Store(version) // so the first is 0, as a counter's may be
					run(t, keys, noReport(t))
				}
				synctest.Wait()
				close(goOn)
				testenv.Is(t, <-done, nil, "a key that was valid when it was read")
				authenticate(t, "after that", keys, good, access.ErrUnknownKey)
			})
		})
	}
}

// TestStoreIsDown checks that cached keys are valid for 10 s without the store, and that other keys
// are rejected.
func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		_, good := makeKey(t, command, access.NewKey{})
		_, unseen := makeKey(t, command, access.NewKey{})
		reports := 0
		run(t, keys, func(err error) {
			reports++
			testenv.Is(t, err, errDown, "a poll")
		})
		authenticate(t, "up", keys, good, nil)
		served.down(errDown)
		authenticate(t, "not cached", keys, unseen, errDown)
		authenticate(t, "malformed", keys, "sluice_", access.ErrUnknownKey)
		time.Sleep(10 * time.Second)
		authenticate(t, "down for 10 s", keys, good, nil)
		time.Sleep(time.Nanosecond)
		authenticate(t, "longer", keys, good, errDown)
		served.up()
		authenticate(t, "up again", keys, good, nil)
		poll()
		testenv.Equal(t, reports, 10, "reports of 10 failures")
		lookups := served.lookups.Load()
		authenticate(t, "polled again", keys, good, nil)
		testenv.Equal(t, served.lookups.Load(), lookups, "lookups after the poll")
	})
}

var errDown = errors.New("the store is down")

// TestPollWithoutAnAnswer checks that a poll that hangs is abandoned, and that cached keys are used
// for at most 10 s in the meantime.
func TestPollWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		key, good := makeKey(t, command, access.NewKey{})
		reports := 0
		run(t, keys, func(error) { reports++ })
		authenticate(t, "fresh", keys, good, nil)
		served.hangs.Store(true)
		testenv.Must(command.RevokeKey(t.Context(), key.ID, nil))(t)
		time.Sleep(10*time.Second + time.Nanosecond)
		authenticate(t, "after 10 s", keys, good, access.ErrUnknownKey)
		poll()
		testenv.Equal(t, reports, 1, "reports")
	})
}

// TestRecheck checks that a caller is checked again from the cache, without a query, until the poll
// after a change, and that one query then serves all calls for a key.
// Invariants 34, 35.
func TestRecheck(t *testing.T) {
	readOnly := access.KeyChange{Grants: []keys.Grant{{Scopes: []string{"read"}}}}
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		key, good := makeKey(t, command, access.NewKey{Expires: time.Now().Add(time.Hour)})
		run(t, keys, noReport(t))
		caller := testenv.Must(keys.Authenticate(t.Context(), good))(t)
		const calls = 100
		// recheck calls Recheck concurrently while a query takes half a second, and compares the
		// number of queries and how many calls may write.
		recheck := func(when string, want error, queries, writing int64) {
			t.Helper()
			before := served.lookups.Load()
			slow := func() { time.Sleep(500 * time.Millisecond) }
			served.answer.Store(&slow)
			defer served.answer.Store(nil)
			var all sync.WaitGroup
			var writers atomic.Int64
			for range calls {
				all.Go(func() {
					now, err := keys.Recheck(t.Context(), caller)
					if !errors.Is(err, want) || (now == nil) != (want != nil) {
						t.Errorf("%v, %v, want %v", now, err, want)
					}
					if now != nil && now.Has(access.ScopeWrite) {
						writers.Add(1)
					}
				})
			}
			all.Wait()
			testenv.Equal(t, served.lookups.Load()-before, queries, "%s: queries", when)
			testenv.Equal(t, writers.Load(), writing, "%s: calls that may write", when)
		}
		recheck("unchanged", nil, 0, calls)
		testenv.Must(access.Update(t.Context(), command, key.ID, readOnly))(t)
		poll()
		recheck("changed", nil, 1, 0)
		recheck("after that", nil, 0, 0)
		gone, leave := context.WithCancel(t.Context())
		leave()
		testenv.Is(t, testenv.Error(keys.Recheck(gone, caller)), nil, "a cached key, for a client that has gone")
		time.Sleep(time.Hour)
		recheck("expired", access.ErrUnknownKey, 0, 0)
		testenv.Must(command.RevokeKey(t.Context(), key.ID, nil))(t)
		poll()
		recheck("revoked", access.ErrUnknownKey, 1, 0)
		command.down(errDown) // served is polled, and must not fail
		fresh := access.NewAuthenticator(command, access.AuthenticatorOptions{})
		testenv.Is(t, testenv.Error(fresh.Recheck(t.Context(), caller)), errDown, "the store is down")
	})
}

// TestRecheckOutlivesItsFirstCaller checks that a call that waits for another call's query gets its
// result, although the other call's client has gone.
// Invariant 35.
func TestRecheckOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		_, good := makeKey(t, command, access.NewKey{})
		run(t, keys, noReport(t))
		caller := testenv.Must(keys.Authenticate(t.Context(), good))(t)
		makeKey(t, command, access.NewKey{}) // a change
		poll()
		read, goOn := make(chan struct{}), make(chan struct{})
		hold := func() { close(read); <-goOn }
		served.answer.Store(&hold)
		var both sync.WaitGroup
		first, leave := context.WithCancel(t.Context())
		both.Go(func() {
			if _, err := keys.Recheck(first, caller); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the first: %v", err)
			}
		})
		<-read
		both.Go(func() {
			testenv.Is(t, testenv.Error(keys.Recheck(t.Context(), caller)), nil, "the second")
		})
		synctest.Wait()
		leave()
		third, leaveToo := context.WithCancel(t.Context())
		leaveToo()
		testenv.Is(t, testenv.Error(keys.Recheck(third, caller)), context.Canceled, "a call that cannot wait")
		close(goOn)
		both.Wait()
	})
}

// TestSharedLookupKnowsOfEveryChange checks that requests which share a key's lookup after a change
// do not share one that began before a later change.
func TestSharedLookupKnowsOfEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, served, command := newKeys(t)
		key, good := makeKey(t, command, access.NewKey{})
		run(t, keys, noReport(t))
		authenticate(t, "fresh", keys, good, nil)
		change := func() { makeKey(t, command, access.NewKey{}); time.Sleep(time.Second); synctest.Wait() }
		change()
		read, goOn := make(chan struct{}), make(chan struct{})
		hold := func() { close(read); <-goOn }
		served.answer.Store(&hold)
		done := make(chan error)
		go func() {
			_, err := keys.Authenticate(t.Context(), good)
			done <- err
		}()
		<-read // it was valid
		served.answer.Store(nil)
		testenv.Must(command.RevokeKey(t.Context(), key.ID, nil))(t)
		poll()
		go func() {
			_, err := keys.Authenticate(t.Context(), good)
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			testenv.Is(t, err, access.ErrUnknownKey, "after the revocation was seen")
		default:
			t.Error("a request waits for a lookup that began before the revocation")
			close(goOn)
			t.Error(<-done, <-done)
			return
		}
		close(goOn)
		testenv.Is(t, <-done, nil, "a key that was valid when it was read")
		authenticate(t, "after both", keys, good, access.ErrUnknownKey)
	})
}
