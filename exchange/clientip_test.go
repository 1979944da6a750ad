package exchange

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"192.0.2.1:5", nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"198.51.100.1"}, "192.0.2.1"}, // the peer is not trusted
		{"10.0.0.1:5", nil, "10.0.0.1"},
		{"10.0.0.1:5", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:5", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"}, // the first one may be forged
		{"10.0.0.1:5", []string{"203.0.113.9", "198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"10.0.0.1:5", []string{"10.1.1.1"}, "10.1.1.1"},
		{"10.0.0.1:5", []string{"198.51.100.1, nonsense"}, "10.0.0.1"},
		{"10.0.0.1:5", []string{"nonsense, 198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:5", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"[fd00::1]:5", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"[::ffff:10.0.0.1]:5", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:5", []string{""}, "10.0.0.1"},
		{"@", []string{"198.51.100.1"}, "invalid IP"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.forwarded
		got, forwarded := clientAddress(r, trusted)
		if got.String() != c.want {
			t.Errorf("from %s, forwarded %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
		if forwarded != (got != peerAddress(c.peer)) {
			t.Errorf("from %s, forwarded %q: %s is reported as forwarded: %t", c.peer, c.forwarded, got, forwarded)
		}
	}
}

func TestSecure(t *testing.T) {
	s := &Service{trustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	for _, test := range []struct {
		target, from, scheme string
		want                 bool
	}{
		{"http://h/", "127.0.0.1:1", "", true},
		{"http://h/", "[::1]:1", "", true},
		{"http://h/", "198.51.100.1:1", "", false},
		{"http://h/", "198.51.100.1:1", "https", false},
		{"https://h/", "198.51.100.1:1", "", true},
		{"http://h/", "192.0.2.1:1", "https", true},
		{"http://h/", "192.0.2.1:1", "http", false},
		{"http://h/", "192.0.2.1:1", "", false},
	} {
		x := Exchange{service: s, Request: httptest.NewRequest("GET", test.target, nil)}
		x.Request.RemoteAddr = test.from
		if test.scheme != "" {
			x.Request.Header.Set("X-Forwarded-Proto", test.scheme)
		}
		if got := x.Secure(); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
