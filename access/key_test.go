package access_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/test/testenv"
)

func TestParseScopes(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  []access.Scope // nil if refused
	}{
		{[]string{"read"}, []access.Scope{"read"}},
		{[]string{"write", "read", "write"}, []access.Scope{"read", "write"}},
		{[]string{"admin", "channels"}, []access.Scope{"channels", "admin"}},
		{nil, nil},
		{[]string{""}, nil},
		{[]string{"read", "Write"}, nil},
		{[]string{"read "}, nil},
		{[]string{"read,write"}, nil},
	} {
		got, err := access.ParseScopes(c.names)
		if !slices.Equal(got, c.want) || errors.Is(err, access.ErrInvalidKey) != (c.want == nil) {
			t.Errorf("%q: %q, %v, want %q", c.names, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "the scopes are read, create, write, retain, bypass, channels, admin") {
			t.Errorf("%q: %v does not name the scopes", c.names, err)
		}
	}
}

func TestCreate(t *testing.T) {
	store := openStores(t, 1)[0]
	expires := time.Date(2040, 1, 2, 3, 4, 5, 6000, time.UTC)
	limits := keys.Limits{RequestsPerSecond: 5, StoredBytes: keys.Unlimited}
	key, credential := makeKey(t, store, access.NewKey{
		Label: "für Bücher", Scopes: []access.Scope{access.ScopeWrite, access.ScopeRead}, Accounts: []string{"b", "a", "b"}, Prefix: "é/",
		Group: "Books-1.x_y", Expires: expires, Limits: limits,
	})
	_, secret, _ := strings.Cut(strings.TrimPrefix(credential, "sluice_"), "_")
	if credential != "sluice_"+key.ID+"_"+secret || key.Hash != sha256.Sum256([]byte(secret)) {
		t.Errorf("credential %q of key %+v", credential, key)
	}
	if key.Label != "für Bücher" || !reflect.DeepEqual(key.Grants, []keys.Grant{{Scopes: []string{"read", "write"}, Accounts: []string{"a", "b"}, Prefix: "é/"}}) ||
		key.Group != "Books-1.x_y" || !key.Expires.Equal(expires) || key.Limits != limits || !key.Revoked.IsZero() {
		t.Errorf("%+v", key)
	}

	alone, other := makeKey(t, store, access.NewKey{})
	if alone.Group != alone.ID || alone.Grants[0].Accounts != nil || alone.Grants[0].Prefix != "" || !alone.Expires.IsZero() || other == credential {
		t.Errorf("by default: %+v", alone)
	}
	joined, _ := makeKey(t, store, access.NewKey{Group: "Books-1.x_y"})
	testenv.Equal(t, joined.Limits, limits, "the limits of the second key of a group")
	none, err := access.Create(t.Context(), store, access.NewKey{
		Scopes: []access.Scope{access.ScopeRead}, Group: "Books-1.x_y", Limits: keys.Limits{RequestsPerSecond: 6},
	})
	if !errors.Is(err, keys.ErrGroupLimits) || none.Credential != "" {
		t.Errorf("other limits for the group: %+v, %v", none, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	store := openStores(t, 1)[0]
	read := []access.Scope{access.ScopeRead}
	for name, n := range map[string]access.NewKey{
		"no scope":              {},
		"an unknown scope":      {Scopes: []access.Scope{"read", "root"}},
		"no account":            {Scopes: read, Accounts: []string{}},
		"an empty account":      {Scopes: read, Accounts: []string{"a", ""}},
		"a long prefix":         {Scopes: read, Prefix: strings.Repeat("x", 1025)},
		"a broken prefix":       {Scopes: read, Prefix: "a\xff"},
		"a prefix of controls":  {Scopes: read, Prefix: "a\x00"},
		"a prefix of channels":  {Scopes: []access.Scope{access.ScopeRead, access.ScopeChannels}, Prefix: "a"},
		"no grants":             {Grants: []keys.Grant{}},
		"17 grants":             {Grants: slices.Repeat([]keys.Grant{{Scopes: []string{"read"}}}, 17)},
		"a grant of no scope":   {Grants: []keys.Grant{{Scopes: []string{"read"}}, {}}},
		"a grant of no account": {Grants: []keys.Grant{{Scopes: []string{"read"}, Accounts: []string{}}}},
		"grants and scopes":     {Scopes: read, Grants: []keys.Grant{{Scopes: []string{"read"}}}},
		"grants and a prefix":   {Prefix: "a", Grants: []keys.Grant{{Scopes: []string{"read"}}}},
		"a long label":          {Scopes: read, Label: strings.Repeat("x", 129)},
		"a label of two lines":  {Scopes: read, Label: "a\nb"},
		"a terminal escape":     {Scopes: read, Label: "\x1b[2J"},
		"a C1 control":          {Scopes: read, Label: "\u009b2J"},
		"a bidi override":       {Scopes: read, Label: "a\u202eb"},
		"a broken label":        {Scopes: read, Label: "a\xff"},
		"a long group":          {Scopes: read, Group: strings.Repeat("x", 65)},
		"a space in the group":  {Scopes: read, Group: "a b"},
		"a slash in the group":  {Scopes: read, Group: "a/b"},
		"an umlaut":             {Scopes: read, Group: "ä"},
		"a negative rate":       {Scopes: read, Limits: keys.Limits{RequestsPerSecond: -2}},
		"a negative quota":      {Scopes: read, Limits: keys.Limits{OpenUploads: -7}},
	} {
		if issued, err := access.Create(t.Context(), store, n); !errors.Is(err, access.ErrInvalidKey) || issued.Credential != "" {
			t.Errorf("%s: %+v, %v", name, issued, err)
		}
	}
	if keys, err := store.ListKeys(t.Context(), "", 10); err != nil || len(keys) != 0 {
		t.Errorf("stored: %+v, %v", keys, err)
	}
	longest := access.NewKey{Scopes: read, Label: strings.Repeat("x", 128), Group: strings.Repeat("x", 64)}
	makeKey(t, store, longest)
	makeKey(t, store, access.NewKey{Scopes: read, Prefix: strings.Repeat("x", 1024)})
	testenv.Must(access.Create(t.Context(), store, access.NewKey{Grants: slices.Repeat([]keys.Grant{{Scopes: []string{"read"}}}, 16)}))(t)
	makeKey(t, store, access.NewKey{Scopes: read, Group: "azAZ09._-"})
}

func TestUpdate(t *testing.T) {
	store := openStores(t, 1)[0]
	want, _ := makeKey(t, store, access.NewKey{Label: "label", Accounts: []string{"a"}, Group: "group"})
	label, never := "für Bücher", time.Time{}
	expires := time.Date(2040, 1, 2, 3, 4, 5, 6000, time.UTC)
	for name, test := range map[string]struct {
		change access.KeyChange
		apply  func()
	}{
		"nothing":   {access.KeyChange{}, func() {}},
		"the label": {access.KeyChange{Label: &label}, func() { want.Label = label }},
		"the grants": {access.KeyChange{Grants: []keys.Grant{{Scopes: []string{"write", "read"}, Accounts: []string{"b", "a", "b"}, Prefix: "p/"}}}, func() {
			want.Grants = []keys.Grant{{Scopes: []string{"read", "write"}, Accounts: []string{"a", "b"}, Prefix: "p/"}}
		}},
		"the expiry": {access.KeyChange{Expires: &expires}, func() { want.Expires = expires }},
		"no expiry":  {access.KeyChange{Expires: &never}, func() { want.Expires = never }},
	} {
		test.apply()
		if got, err := access.Update(t.Context(), store, want.ID, test.change); err != nil || !reflect.DeepEqual(got.Key, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	several := []keys.Grant{{Scopes: []string{"create"}}, {Scopes: []string{"write"}, Accounts: []string{"a"}, Prefix: "locks/"}}
	want.Grants = several
	got := testenv.Must(access.Update(t.Context(), store, want.ID, access.KeyChange{Grants: several}))(t)
	if !reflect.DeepEqual(got.Key.Grants, several) {
		t.Errorf("several grants are %+v", got.Key.Grants)
	}
	long, odd := strings.Repeat("x", 129), "\x1b[2J"
	for name, change := range map[string]access.KeyChange{
		"no grant": {Grants: []keys.Grant{}}, "a grant of no scope": {Grants: []keys.Grant{{}}}, "an unknown scope": {Grants: []keys.Grant{{Scopes: []string{"root"}}}},
		"no account":   {Grants: []keys.Grant{{Scopes: []string{"read"}, Accounts: []string{}}}},
		"a long label": {Label: &long}, "a terminal escape": {Label: &odd},
	} {
		testenv.Is(t, testenv.Error(access.Update(t.Context(), store, want.ID, change)), access.ErrInvalidKey, "%s", name)
	}
	if got, err := store.Key(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after refusals: %+v, %v, want %+v", got, err, want)
	}
	testenv.Is(t, testenv.Error(access.Update(t.Context(), store, "none", access.KeyChange{Label: &label})), database.ErrNotFound, "an unknown key")
}

func TestSetLimits(t *testing.T) {
	store := openStores(t, 1)[0]
	makeKey(t, store, access.NewKey{Group: "group", Limits: keys.Limits{RequestsPerSecond: 5, StoredBytes: 6, Channels: 7}})
	want := keys.Limits{RequestsPerSecond: 5, StoredBytes: keys.Unlimited, OpenUploads: 9}
	change := keys.Limits{StoredBytes: keys.Unlimited, OpenUploads: 9}
	got := testenv.Must(access.SetLimits(t.Context(), store, "group", change, []keys.LimitKind{kindOf(t, "channels")}, nil))(t)
	testenv.Equal(t, got, want, "the limits")
	testenv.Is(t, testenv.Error(access.SetLimits(t.Context(), store, "group", keys.Limits{Channels: -2}, nil, nil)), access.ErrInvalidLimit, "a negative limit")
	testenv.Is(t, testenv.Error(access.SetLimits(t.Context(), store, "none", want, nil, nil)), database.ErrNotFound, "an unknown group")
	testenv.Equal(t, testenv.Must(store.GroupLimits(t.Context(), "group"))(t), want, "stored")
}

// kindOf returns the kind of limits with a name.
func kindOf(t *testing.T, name string) keys.LimitKind {
	t.Helper()
	i := slices.IndexFunc(keys.LimitKinds[:], func(k keys.LimitKind) bool { return k.Name == name })
	if i < 0 {
		t.Fatalf("there is no limit %q", name)
	}
	return keys.LimitKinds[i]
}

// TestSecretIsNotStored searches for the secret in everything that the store wrote.
// Invariant 36.
func TestSecretIsNotStored(t *testing.T) {
	dir := t.TempDir()
	store := testenv.Must(sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{}))(t)
	key, credential := makeKey(t, store, access.NewKey{})
	testenv.Check(t, testenv.Error(access.NewAuthenticator(store, access.AuthenticatorOptions{}).Authenticate(t.Context(), credential)))
	testenv.OK(t, store.Close())
	var written []byte
	files := testenv.Must(filepath.Glob(filepath.Join(dir, "*")))(t)
	for _, file := range files {
		content := testenv.Must(os.ReadFile(file))(t)
		written = append(written, content...)
	}
	secret := credential[len(credential)-56:]
	if !bytes.Contains(written, []byte(key.ID)) || bytes.Contains(written, []byte(secret)) || bytes.Contains(written, []byte(secret[:16])) {
		t.Error("the files lack the id or contain the secret")
	}
}

// TestReplacedSecret gives a key a new secret: the old one is refused, also for a request that has
// begun with it.
// Invariant 200.
func TestReplacedSecret(t *testing.T) {
	store := openStores(t, 1)[0]
	authenticator := access.NewAuthenticator(store, access.AuthenticatorOptions{})
	issued := testenv.Must(access.Create(t.Context(), store, access.NewKey{Scopes: []access.Scope{access.ScopeRead}}))(t)
	caller := testenv.Must(authenticator.Authenticate(t.Context(), issued.Credential))(t)
	testenv.Must(authenticator.Recheck(t.Context(), caller))(t)
	renewed := testenv.Must(access.Update(t.Context(), store, issued.Key.ID, access.KeyChange{Secret: true}))(t)
	if renewed.Credential == issued.Credential || !strings.HasPrefix(renewed.Credential, "sluice_"+issued.Key.ID+"_") {
		t.Errorf("the new credential of %q is %q", issued.Key.ID, renewed.Credential)
	}
	testenv.Is(t, testenv.Error(authenticator.Recheck(t.Context(), caller)), access.ErrUnknownKey, "a request that began with the old secret")
	testenv.Is(t, testenv.Error(authenticator.Authenticate(t.Context(), issued.Credential)), access.ErrUnknownKey, "the old secret")
	caller = testenv.Must(authenticator.Authenticate(t.Context(), renewed.Credential))(t)
	testenv.Must(authenticator.Recheck(t.Context(), caller))(t)
}
