package client_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire/link"
)

const (
	sharingKey    = "abcdefghijklmnop"
	sharingSecret = "abcdefghijklmnopabcdefghijklmnopabcdefgh"
)

// TestShare: a link's URL is the blob's, with a token for the blob or prefix.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testenv.Must(client.New("https://h.example/sluice/", client.Options{Key: "not sent"}))(t)
		for _, test := range []struct {
			account, name, path string
			life                time.Duration
			create              bool
		}{
			{"team", "a/b", "/sluice/v1/blobs/team/a/b", time.Hour, false},
			{"team", "a b/ä?#%/../c", "/sluice/v1/blobs/team/a%20b/%C3%A4%3F%23%25/../c", 0, false},
			{"0x1", "new", "/sluice/v1/blobs/0x1/new", time.Second, true},
			{"team", "a b/", "/sluice/v1/blobs/team/a%20b/", time.Minute, false},
		} {
			shared := testenv.Must(c.Share(test.account, test.name, client.ShareOptions{KeyID: sharingKey, Secret: sharingSecret, For: test.life, Create: test.create}))(t)
			life := test.life
			if life == 0 {
				life = client.MaxShare
			}
			testenv.Equal(t, shared.Expires, time.Now().Add(life), "the expiry")
			u := testenv.Must(url.Parse(shared.URL))(t)
			testenv.Equal(t, u.Scheme+"://"+u.Host+u.EscapedPath(), "https://h.example"+test.path, "the URL")
			check := func(query url.Values) {
				t.Helper()
				token := testenv.Must(link.Parse(query.Get(link.Parameter)))(t)
				testenv.OK(t, token.Verify(sharingSecret, test.account, test.name, shared.Expires.Add(-1)))
				testenv.Is(t, token.Verify(sharingSecret, test.account, test.name, shared.Expires), link.ErrExpired, "at the end")
				testenv.Equal(t, token.KeyID(), sharingKey, "the key")
				testenv.Equal(t, token.Verb() == link.Create, test.create, "whether it creates")
			}
			check(u.Query())
			if below := strings.HasSuffix(test.name, "/"); (shared.List != "") != below {
				t.Errorf("%s has the list %q", test.name, shared.List)
			} else if below {
				u := testenv.Must(url.Parse(shared.List))(t)
				testenv.Equal(t, u.EscapedPath(), "/sluice/v1/blobs/team", "the list's path")
				testenv.Equal(t, u.Query().Get("prefix"), test.name, "the prefix")
				check(u.Query())
			}
		}
	})
}

func TestShareRefuses(t *testing.T) {
	c := testenv.Must(client.New("https://h.example", client.Options{}))(t)
	for label, test := range map[string]struct {
		account, name string
		o             client.ShareOptions
	}{
		"no key":            {"team", "a", client.ShareOptions{Secret: sharingSecret}},
		"no secret":         {"team", "a", client.ShareOptions{KeyID: sharingKey}},
		"a long time":       {"team", "a", client.ShareOptions{KeyID: sharingKey, Secret: sharingSecret, For: client.MaxShare + 1}},
		"no time":           {"team", "a", client.ShareOptions{KeyID: sharingKey, Secret: sharingSecret, For: time.Second - 1}},
		"a whole account":   {"team", "", client.ShareOptions{KeyID: sharingKey, Secret: sharingSecret}},
		"no account":        {"", "a", client.ShareOptions{KeyID: sharingKey, Secret: sharingSecret}},
		"a prefix to write": {"team", "a/", client.ShareOptions{KeyID: sharingKey, Secret: sharingSecret, Create: true}},
	} {
		shared, err := c.Share(test.account, test.name, test.o)
		if !errors.Is(err, client.ErrInvalid) || shared != (client.Link{}) {
			t.Errorf("%s: %v, %v, want ErrInvalid", label, shared, err)
		}
	}
}
