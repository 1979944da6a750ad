package link_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
	"sluice/wire/link"
)

const (
	keyID  = "abcdefghijklmnop"
	secret = "the secret of the key, which both sides have"
)

var now = time.Unix(1_790_000_000, 0)

// sign returns a link's token, which is valid for an hour.
func sign(t testing.TB, verb link.Verb, account, name string) *link.Token {
	t.Helper()
	return testenv.Must(link.Sign(link.Link{Verb: verb, KeyID: keyID, Account: account, Name: name, Expires: now.Add(time.Hour)}, secret))(t)
}

// TestVector fixes the format, which clients in other languages implement.
func TestVector(t *testing.T) {
	testenv.Equal(t, sign(t, link.Read, "team", "photos/ä b.jpg").String(),
		"1.read.0.abcdefghijklmnop.1790003600.pVv0zpjJRoyF7JRMmY8BmqcLHdCNYd8mDNC08f7nY90", "a blob's link")
	testenv.Equal(t, sign(t, link.Read, "team", "photos/").String(),
		"1.read.7.abcdefghijklmnop.1790003600.zQhTARJk9ArKTkD7DnOFk5-c-j98FP4GJhiyxiQ2Pxk", "a prefix's link")
}

// TestExample checks the example in docs/protocol.md.
func TestExample(t *testing.T) {
	example := link.Link{Verb: link.Read, KeyID: keyID, Account: "team", Name: "a b", Expires: now.Add(time.Hour)}
	token := testenv.Must(link.Sign(example, "secret"))(t)
	root := testenv.Must(testenv.Root())(t)
	text := string(testenv.Must(os.ReadFile(filepath.Join(root, "docs", "protocol.md")))(t))
	if want := "\n" + link.Parameter + "=" + token.String() + "\n"; !strings.Contains(text, want) {
		t.Errorf("docs/protocol.md does not have the example's query:%s", want)
	}
}

// TestVerify: a link is for the signed name and verb, and nothing else.
func TestVerify(t *testing.T) {
	blob, below, create := sign(t, link.Read, "team", "a/b"), sign(t, link.Read, "team", "a/"), sign(t, link.Create, "team", "a/b")
	for _, test := range []struct {
		label                 string
		token                 *link.Token
		secret, account, name string
		at                    time.Duration
		want                  error
	}{
		{"its blob", blob, secret, "team", "a/b", 0, nil},
		{"another name", blob, secret, "team", "a/c", 0, link.ErrSignature},
		{"a longer name", blob, secret, "team", "a/bb", 0, link.ErrSignature},
		{"a name below", blob, secret, "team", "a/b/c", 0, link.ErrSignature},
		{"its folder", blob, secret, "team", "a/", 0, link.ErrSignature},
		{"no name", blob, secret, "team", "", 0, link.ErrSignature},
		{"another account", blob, secret, "tea", "a/b", 0, link.ErrSignature},
		{"an account with a line feed", blob, secret, "team\na/b", "", 0, link.ErrSignature},
		{"another secret", blob, secret + "x", "team", "a/b", 0, link.ErrSignature},
		{"the last second", blob, secret, "team", "a/b", time.Hour - 1, nil},
		{"the end", blob, secret, "team", "a/b", time.Hour, link.ErrExpired},
		{"after the end, with another secret", blob, "other", "team", "a/b", time.Hour, link.ErrSignature},
		{"a signer's clock that is fast", blob, secret, "team", "a/b", time.Hour - link.MaxLife - link.MaxSkew, nil},
		{"more than seven days", blob, secret, "team", "a/b", time.Hour - link.MaxLife - link.MaxSkew - 1, link.ErrMalformed},

		{"a blob below", below, secret, "team", "a/b", 0, nil},
		{"a blob far below", below, secret, "team", "a/b/c", 0, nil},
		{"the prefix", below, secret, "team", "a/", 0, nil},
		{"an empty segment below", below, secret, "team", "a//", 0, nil},
		{"a blob beside", below, secret, "team", "ab/c", 0, link.ErrSignature},
		{"another folder", below, secret, "team", "b/c", 0, link.ErrSignature},
		{"the folder's name", below, secret, "team", "a", 0, link.ErrSignature},
		{"another account's prefix", below, secret, "teams", "a/b", 0, link.ErrSignature},
		{"nothing", below, secret, "team", "", 0, link.ErrSignature},

		{"the blob is created", create, secret, "team", "a/b", 0, nil},
		{"a blob is created elsewhere", create, secret, "team", "a/c", 0, link.ErrSignature},
	} {
		testenv.Is(t, test.token.Verify(test.secret, test.account, test.name, now.Add(test.at)), test.want, "%s", test.label)
	}
}

// TestFieldsAreSigned: who changes a link's field has a link that is not valid.
func TestFieldsAreSigned(t *testing.T) {
	text := sign(t, link.Read, "team", "a/b").String()
	for _, change := range [][2]string{
		{".read.", ".create."}, {".0.", ".2."}, {keyID, "b" + keyID[1:]}, {"1790003600", "1790003601"},
	} {
		token := testenv.Must(link.Parse(strings.Replace(text, change[0], change[1], 1)))(t)
		testenv.Is(t, token.Verify(secret, "team", "a/b", now), link.ErrSignature, "%s instead of %s", change[1], change[0])
	}
}

func TestParse(t *testing.T) {
	for _, token := range []*link.Token{sign(t, link.Read, "team", "a"), sign(t, link.Read, "team", "a/"), sign(t, link.Create, "team", "a")} {
		parsed := testenv.Must(link.Parse(token.String()))(t)
		testenv.Equal(t, *parsed, *token, "the parsed token")
	}
	good := sign(t, link.Read, "team", "a").String()
	last := strings.LastIndexByte(good, '.') + 1
	for _, text := range []string{
		"", ".....", "2" + good[1:], "1.write" + good[6:], strings.Replace(good, ".0.", ".00.", 1), strings.Replace(good, ".0.", ".-1.", 1), strings.Replace(good, ".0.", ".+1.", 1),
		strings.Replace(good, ".0.", ".2147483648.", 1), strings.Replace(good, ".0.", "..", 1), strings.Replace(good, keyID, "", 1), strings.Replace(good, keyID, "a b", 1),
		strings.Replace(good, keyID, strings.Repeat("a", 65), 1), strings.Replace(good, "1790003600", "0", 1), strings.Replace(good, "1790003600", "", 1),
		strings.Replace(good, "1790003600", "9223372036854775808", 1), strings.Replace(good, "1790003600", "01790003600", 1), good + ".", good + "A", good + "=", good[:len(good)-1],
		good[:last], good[:last] + "\n" + good[last:], good[:last] + "+" + good[last+1:], good[:len(good)-1] + "l", " " + good, strings.Replace(strings.Replace(good, "read", "create", 1), ".0.", ".2.", 1),
	} {
		token, err := link.Parse(text)
		if token != nil || !errors.Is(err, link.ErrMalformed) {
			t.Errorf("%q: %v, %v, want ErrMalformed", text, token, err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	for label, l := range map[string]link.Link{
		"no key":              {Verb: link.Read, Account: "a", Name: "b", Expires: now},
		"a key with a dot":    {Verb: link.Read, KeyID: "a.b", Account: "a", Name: "b", Expires: now},
		"no verb":             {KeyID: keyID, Account: "a", Name: "b", Expires: now},
		"a prefix to create":  {Verb: link.Create, KeyID: keyID, Account: "a", Name: "b/", Expires: now},
		"no account":          {Verb: link.Read, KeyID: keyID, Name: "b", Expires: now},
		"no name":             {Verb: link.Read, KeyID: keyID, Account: "a", Expires: now},
		"a line feed":         {Verb: link.Read, KeyID: keyID, Account: "a\nb", Name: "b", Expires: now},
		"a control character": {Verb: link.Read, KeyID: keyID, Account: "a", Name: "b\x7f", Expires: now},
		"no expiry":           {Verb: link.Read, KeyID: keyID, Account: "a", Name: "b"},
	} {
		testenv.Is(t, testenv.Error(link.Sign(l, secret)), link.ErrInvalid, "%s", label)
	}
	testenv.Is(t, testenv.Error(link.Sign(link.Link{Verb: link.Read, KeyID: keyID, Account: "a", Name: "b", Expires: now}, "")), link.ErrInvalid, "no secret")
}

// FuzzParse: a token that is accepted has one spelling, and no token is valid that was not signed.
func FuzzParse(f *testing.F) {
	f.Add(sign(f, link.Read, "team", "a").String(), "team", "a")
	f.Add(sign(f, link.Read, "team", "a/").String(), "team", "a/b")
	f.Add("1.read.9.k.1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "", "")
	f.Fuzz(func(t *testing.T, text, account, name string) {
		token, err := link.Parse(text)
		if err != nil {
			testenv.Is(t, err, link.ErrMalformed, "the error")
			return
		}
		testenv.Equal(t, token.String(), text, "the token")
		if err := token.Verify("a secret that no seed has", account, name, now); !errors.Is(err, link.ErrSignature) {
			t.Errorf("%q is valid for %q and %q: %v", text, account, name, err)
		}
	})
}

// FuzzSign: whatever was signed is valid for itself, and for no other name.
func FuzzSign(f *testing.F) {
	f.Add("team", "a/b", "a/c", false)
	f.Add("team", "a/", "a/c", false)
	f.Fuzz(func(t *testing.T, account, name, other string, create bool) {
		verb := link.Read
		if create {
			verb = link.Create
		}
		token, err := link.Sign(link.Link{Verb: verb, KeyID: keyID, Account: account, Name: name, Expires: now.Add(time.Hour)}, secret)
		if err != nil {
			testenv.Is(t, err, link.ErrInvalid, "the error")
			return
		}
		parsed := testenv.Must(link.Parse(token.String()))(t)
		testenv.OK(t, parsed.Verify(secret, account, name, now))
		covered := other == name || strings.HasSuffix(name, "/") && strings.HasPrefix(other, name)
		if err := parsed.Verify(secret, account, other, now); (err == nil) != covered {
			t.Errorf("the link for %q is %v for %q", name, err, other)
		}
	})
}
