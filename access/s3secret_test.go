package access_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/test/testenv"
)

// boxOf returns a box with master keys, each with one byte 32 times.
func boxOf(t testing.TB, masters ...string) *sealed.Box {
	t.Helper()
	var text strings.Builder
	for _, m := range masters {
		text.WriteString(strings.Repeat(m, 32) + "\n")
	}
	return testenv.Must(sealed.Parse([]byte(text.String())))(t)
}

// wantSecret fails the test unless S3Secret and, if it is current, RememberedS3Secret return this.
func wantSecret(t *testing.T, when string, k *access.Authenticator, id, want string) {
	t.Helper()
	caller, secret, err := k.S3Secret(t.Context(), id)
	if want == "" && (!errors.Is(err, access.ErrUnknownKey) || caller != nil || secret != "") {
		t.Errorf("%s: %v, %q, %v, want nothing", when, caller, secret, err)
	}
	if want != "" && (err != nil || secret != want || caller.ID() != id) {
		t.Errorf("%s: %v, %q, %v, want %q", when, caller, secret, err, want)
	}
	if remembered, again, current := k.RememberedS3Secret(id); current && (again != want || (remembered == nil) != (want == "")) {
		t.Errorf("%s: remembered are %v and %q", when, remembered, again)
	}
}

// TestRecheckOfASigner: who has signed with a key's S3 secret is refused when it is replaced or
// removed, and who has sent the key is not.
// Invariant 34.
func TestRecheckOfASigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := boxOf(t, "01")
		stores := openStores(t, 1)
		k := access.NewAuthenticator(stores[0], access.AuthenticatorOptions{S3: box})
		issued := testenv.Must(access.Create(t.Context(), stores[0], access.NewKey{Scopes: []access.Scope{access.ScopeRead}, S3: box}))(t)
		holder := testenv.Must(k.Authenticate(t.Context(), issued.Credential))(t)
		for _, change := range []access.KeyChange{{S3: box}, {NoS3: true}} {
			signer, _, err := k.S3Secret(t.Context(), issued.Key.ID)
			testenv.OK(t, err)
			again := testenv.Must(k.Recheck(t.Context(), signer))(t)
			testenv.Equal(t, testenv.Must(k.Recheck(t.Context(), again))(t).ID(), issued.Key.ID, "who was checked twice")
			testenv.OK(t, testenv.Error(access.Update(t.Context(), stores[0], issued.Key.ID, change)))
			testenv.Is(t, testenv.Error(k.Recheck(t.Context(), signer)), access.ErrUnknownKey, "the signer")
			testenv.OK(t, testenv.Error(k.Recheck(t.Context(), holder)))
		}
	})
}

// TestS3Secrets: a key's S3 secret is found by the key's id while the key is valid, and a new one,
// or none, takes effect like a key's revocation.
func TestS3Secrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := boxOf(t, "01")
		stores := openStores(t, 2)
		served, command := &line{Database: stores[0]}, &line{Database: stores[1]}
		k := access.NewAuthenticator(served, access.AuthenticatorOptions{S3: box})
		read := []access.Scope{access.ScopeRead}
		issued := testenv.Must(access.Create(t.Context(), command, access.NewKey{Scopes: read, S3: box, Expires: time.Now().Add(time.Hour)}))(t)
		id := issued.Key.ID
		if len(issued.S3Secret) != 40 || bytes.Contains(issued.Key.S3Secret, []byte(issued.S3Secret)) {
			t.Errorf("issued is %+v", issued)
		}
		plain, _ := makeKey(t, command, access.NewKey{})
		run(t, k, noReport(t))
		for range 2 { // from the store, and then from the cache
			wantSecret(t, "a key with a secret", k, id, issued.S3Secret)
			wantSecret(t, "a key without", k, plain.ID, "")
			for _, unknown := range []string{"", strings.Repeat("a", 16), strings.ToUpper(id), id + "a", "AKIAIOSFODNN7EXAMPLE"} {
				wantSecret(t, "an unknown key", k, unknown, "")
			}
		}
		before := served.lookups.Load()
		for _, malformed := range []string{"", "x", "AKIAIOSFODNN7EXAMPLE", strings.Repeat("A", 16)} {
			wantSecret(t, "a malformed id", k, malformed, "")
		}
		testenv.Equal(t, served.lookups.Load(), before, "queries for malformed ids")
		change := func(c access.KeyChange) string {
			t.Helper()
			secret := testenv.Must(access.Update(t.Context(), command, id, c))(t).S3Secret
			time.Sleep(2 * time.Second) // in which the change is polled
			return secret
		}
		renewed := change(access.KeyChange{S3: box})
		if renewed == issued.S3Secret || len(renewed) != 40 {
			t.Errorf("the new secret is %q", renewed)
		}
		wantSecret(t, "a new secret", k, id, renewed)
		label := "x"
		change(access.KeyChange{Label: &label})
		wantSecret(t, "another change", k, id, renewed)
		change(access.KeyChange{NoS3: true})
		wantSecret(t, "a secret that was removed", k, id, "")
		renewed = change(access.KeyChange{S3: box})
		wantSecret(t, "a renewed secret", k, id, renewed)
		caller, _, err := k.S3Secret(t.Context(), id)
		testenv.OK(t, err)
		testenv.Is(t, testenv.Error(k.Recheck(t.Context(), caller)), nil, "a caller who is checked again")
		time.Sleep(time.Hour)
		wantSecret(t, "an expired key", k, id, "")
		never := time.Time{}
		change(access.KeyChange{Expires: &never})
		wantSecret(t, "a key that does not expire any more", k, id, renewed)
		testenv.Must(command.RevokeKey(t.Context(), id, nil))(t)
		time.Sleep(2 * time.Second)
		wantSecret(t, "a revoked key", k, id, "")
		testenv.Is(t, testenv.Error(k.Recheck(t.Context(), caller)), access.ErrUnknownKey, "a revoked key's caller")
	})
}

// TestS3SecretsWithoutTheirMasterKey: without the file, or with another, a database yields no
// secret, and the operator is told which key is concerned.
// Invariant 36.
func TestS3SecretsWithoutTheirMasterKey(t *testing.T) {
	store := openStores(t, 1)[0]
	box := boxOf(t, "01")
	issued := testenv.Must(access.Create(t.Context(), store, access.NewKey{Scopes: []access.Scope{access.ScopeRead}, S3: box}))(t)
	wantSecret(t, "without the file", access.NewAuthenticator(store, access.AuthenticatorOptions{}), issued.Key.ID, "")
	var unopened []string
	other := access.NewAuthenticator(store, access.AuthenticatorOptions{S3: boxOf(t, "ab"), Unopened: func(id string, err error) {
		testenv.Is(t, err, sealed.ErrUnknownMaster, "a secret of another master key")
		unopened = append(unopened, id)
	}})
	wantSecret(t, "with another file", other, issued.Key.ID, "")
	if len(unopened) == 0 || unopened[0] != issued.Key.ID {
		t.Errorf("unopened are %q", unopened)
	}

	stranger := testenv.Must(access.Create(t.Context(), store, access.NewKey{Scopes: []access.Scope{access.ScopeRead}, S3: boxOf(t, "ee")}))(t)
	rotated := boxOf(t, "02", "01")
	plainly := func(_ *keys.Key, reseal func(*actions.Act) error) error { return reseal(nil) }
	n, err := access.ResealS3Secrets(t.Context(), store, rotated, plainly)
	testenv.Equal(t, n, 1, "secrets that were sealed again")
	if !errors.Is(err, sealed.ErrUnknownMaster) || !strings.Contains(err.Error(), stranger.Key.ID) || strings.Contains(err.Error(), issued.Key.ID) {
		t.Errorf("sealed again: %v, want an error about %s", err, stranger.Key.ID)
	}
	n, err = access.ResealS3Secrets(t.Context(), store, rotated, plainly)
	if n != 0 || !errors.Is(err, sealed.ErrUnknownMaster) {
		t.Errorf("sealed again twice: %d, %v", n, err)
	}
	wantSecret(t, "after the rotation", access.NewAuthenticator(store, access.AuthenticatorOptions{S3: boxOf(t, "02")}), issued.Key.ID, issued.S3Secret)
}
