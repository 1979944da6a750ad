package webhook

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/access"
	"sluice/feed"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestAddresses: deliveries go to public unicast addresses, and the operator's networks, only.
// Invariant 238.
func TestAddresses(t *testing.T) {
	none, some := Options{}, Options{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("10.1.0.0/16")}}
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.32.0.1": true, "100.128.0.1": true, "2606:4700::1111": true, "2a00:1450::1": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.255.255.255": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.0.1": false, "fc00::1": false, "fd00::1": false,
		"169.254.169.254": false, "fd00:ec2::254": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"100.64.0.1": false, "100.127.255.255": false, "192.0.0.1": false, "192.0.2.1": false, "198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "192.88.99.1": false,
		"224.0.0.1": false, "239.1.2.3": false, "ff02::1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:10.0.0.1": false, "::127.0.0.1": false, "::ffff:0:127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::a00:1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false, "100::1": false, "3fff::1": false,
	} {
		testenv.Equal(t, none.permits(netip.MustParseAddr(text)), want, "deliveries to %s", text)
	}
	for text, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "::1": false, "10.1.2.3": true, "10.2.0.1": false, "fd00:1::9": true, "fd00:2::9": false, "9.9.9.9": true} {
		testenv.Equal(t, some.permits(netip.MustParseAddr(text)), want, "deliveries to %s with the operator's networks", text)
	}
}

// TestURLs: a hosted instance accepts URLs with https only, and none has a refused address.
// Invariant 238.
func TestURLs(t *testing.T) {
	hosted, local := Options{HTTPS: true}, Options{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for text, want := range map[string][2]bool{
		"https://example.org/x?y=z": {true, true}, "https://example.org:8443": {true, true}, "https://8.8.8.8/": {true, true}, "https://[2606:4700::1111]/": {true, true},
		"http://example.org/": {false, true}, "http://127.0.0.1:80/": {false, true}, "https://127.0.0.1/": {false, true}, "https://localhost/": {true, true},
		"https://169.254.169.254/": {false, false}, "https://[::ffff:10.0.0.1]/": {false, false}, "https://[fe80::1%25eth0]/": {false, false}, "https://10.0.0.1/": {false, false},
		"": {false, false}, "example.org": {false, false}, "ftp://example.org": {false, false}, "file:///etc/passwd": {false, false}, "https://": {false, false}, "https:///x": {false, false},
		"https://user:pass@example.org/": {false, false}, "https://example.org/#x": {false, false}, "https://example.org/\n": {false, false}, "https://exa mple/": {false, false},
		"https://example.org/" + strings.Repeat("x", maxURL): {false, false},
	} {
		for i, o := range []Options{hosted, local} {
			err := o.CheckURL(text)
			if (err == nil) != want[i] || err != nil && !errors.Is(err, ErrURL) {
				t.Errorf("%.50q, hosted %t: %v", text, i == 0, err)
			}
		}
	}
}

// dns serves names: a query's answer is the next address, so the same name changes.
type dns struct {
	conn    net.PacketConn
	queries atomic.Int64
	answers []string
}

// newDNS returns a resolver that is asked by nobody else.
func newDNS(t *testing.T, answers ...string) (*dns, *net.Resolver) {
	d := &dns{conn: testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t), answers: answers}
	t.Cleanup(func() { testenv.Check(t, d.conn.Close()) })
	go d.serve()
	return d, &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", d.conn.LocalAddr().String())
	}}
}

func (d *dns) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		end := 12
		for packet[end] != 0 {
			end += int(packet[end]) + 1
		}
		end += 5
		out := append([]byte{}, packet[:end]...)
		binary.BigEndian.PutUint16(out[2:], 0x8180)
		copy(out[6:12], make([]byte, 6))
		if n > 12 && binary.BigEndian.Uint16(out[end-4:]) == 1 { // A
			answer := netip.MustParseAddr(d.answers[min(int(d.queries.Add(1))-1, len(d.answers)-1)]).As4()
			out[7] = 1
			out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			out = append(out, answer[:]...)
		}
		_, _ = d.conn.WriteTo(out, from)
	}
}

// attempted returns an attempt's result.
func attempted(t *testing.T, url string, set func(*Options)) metastore.WebhookResult {
	t.Helper()
	s := newStore()
	s.add("1", url, nil)
	opt := Options{Secrets: box, timeout: 10 * time.Second, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	if set != nil {
		set(&opt)
	}
	result, ok := New(s, opt).Test(t.Context(), s.hook("1"))
	testenv.Equal(t, ok, true, "whether there was a test")
	return result
}

// TestRebinding: a name is resolved once for a connection, and the address is checked that is
// dialled, even if the name had a permitted one before.
// Invariant 238.
func TestRebinding(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	address := "http://rebinding.example:" + testenv.Must(url.Parse(server.URL))(t).Port()
	inner, resolver := newDNS(t, "127.0.0.1", "8.8.8.8")
	result := attempted(t, address, func(o *Options) { o.Resolver, o.Networks = resolver, nil })
	testenv.Equal(t, result.Error, failedAddress, "a name with an inner address")
	testenv.Equal(t, served.Load(), 0, "requests at the inner address")
	testenv.Equal(t, inner.queries.Load(), 1, "queries")

	rebinding, resolver := newDNS(t, "127.0.0.1", "127.0.0.2")
	permit := func(o *Options) { o.Resolver = resolver }
	testenv.Equal(t, attempted(t, address, permit).Error, "", "a name with a permitted address")
	testenv.Equal(t, rebinding.queries.Load(), 1, "queries for a connection to the same address")
	testenv.Equal(t, attempted(t, address, permit).Error, failedAddress, "the name with another address")
	testenv.Equal(t, served.Load(), 1, "requests")
}

// hostile serves connections by a function, which must not read more than it wants, after the first
// byte of a request: a response before it would not belong to the request.
func hostile(t *testing.T, serve func(net.Conn)) string {
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan struct{})
	t.Cleanup(func() {
		testenv.Check(t, l.Close())
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				serve(conn)
			}
			_ = conn.Close() // the sender may have closed it
		}
	}()
	return "http://" + l.Addr().String()
}

// TestHostileReceivers: an attempt ends in time, follows nothing, keeps
// nothing and needs little memory.
// Invariant 236.
func TestHostileReceivers(t *testing.T) {
	var followed atomic.Int64
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer inner.Close()
	endless := func(head string, piece []byte) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := io.WriteString(conn, head); err != nil {
				return
			}
			for err := error(nil); err == nil; {
				_, err = conn.Write(piece)
			}
		}
	}
	waits := func(head string) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := io.WriteString(conn, head); err == nil {
				_, _ = io.Copy(io.Discard, conn) // until the sender leaves
			}
		}
	}
	bomb := &strings.Builder{}
	zip := gzip.NewWriter(bomb)
	_, err := zip.Write(make([]byte, 64<<20))
	testenv.OK(t, errors.Join(err, zip.Close()))
	kilobyte := []byte(strings.Repeat("x", 1000) + "\r\n")
	short := func(o *Options) { o.timeout = 200 * time.Millisecond }
	for name, test := range map[string]struct {
		serve  func(net.Conn)
		set    func(*Options)
		status int
		class  string
	}{
		"a redirect":         {waits("HTTP/1.1 307 Away\r\nLocation: " + inner.URL + "\r\nContent-Length: 0\r\n\r\n"), nil, 307, failedStatus},
		"a moved receiver":   {waits("HTTP/1.1 301 Away\r\nLocation: " + inner.URL + "\r\nContent-Length: 0\r\n\r\n"), nil, 301, failedStatus},
		"endless headers":    {endless("HTTP/1.1 200 OK\r\n", append([]byte("X: "), kilobyte...)), nil, 0, failedResponse},
		"a huge header":      {endless("HTTP/1.1 200 OK\r\nX: ", kilobyte[:1000]), nil, 0, failedResponse},
		"endless interims":   {endless("", []byte("HTTP/1.1 103 Early Hints\r\nX: 1\r\n\r\n")), nil, 0, failedResponse},
		"an endless body":    {endless("HTTP/1.1 200 OK\r\n\r\n", kilobyte), nil, 200, ""},
		"an endless failure": {endless("HTTP/1.1 500 No\r\n\r\n", kilobyte), nil, 500, failedStatus},
		"a bomb":             {endless("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: "+fmt.Sprint(bomb.Len())+"\r\n\r\n"+bomb.String(), kilobyte), nil, 200, ""},
		"a slow body":        {waits("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx"), short, 200, ""},
		"a slow header":      {waits("HTTP/1.1 200 OK\r\nX:"), short, 0, failedTimeout},
		"no answer":          {waits(""), short, 0, failedTimeout},
		"nonsense":           {waits("secret of the receiver\r\n\r\n"), nil, 0, failedResponse},
		"another protocol":   {waits("\x00\x00\x12\x04\x00\x00\x00\x00\x00"), short, 0, failedTimeout},
		"an upgrade":         {waits("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), short, 101, failedStatus},
		"nobody":             {nil, nil, 0, failedConnection},
	} {
		t.Run(name, func(t *testing.T) {
			address := "http://" + testenv.ReserveAddress(t)
			if test.serve != nil {
				address = hostile(t, test.serve)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			result := attempted(t, address, test.set)
			runtime.ReadMemStats(&after)
			if result.Status != test.status || result.Error != test.class {
				t.Errorf("the result is %+v, want %d %q", result, test.status, test.class)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
				t.Errorf("the attempt has allocated %d bytes", used)
			}
		})
	}
	testenv.Equal(t, followed.Load(), 0, "requests at the redirects' target")
}

// TestReceiverThatNeverReads: a body that is larger than all buffers holds up the sender for a
// while only.
// Invariant 236.
func TestReceiverThatNeverReads(t *testing.T) {
	done := make(chan struct{})
	url := hostile(t, func(net.Conn) { <-done })
	s := newStore()
	s.add("1", url, nil)
	c := courier{store: s, opt: Options{Secrets: box, timeout: 300 * time.Millisecond, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}
	client, w := c.opt.client(), s.hook("1")
	result := c.attempt(t.Context(), client, &w, &message{id: "msg_1", body: make([]byte, 64<<20)})
	close(done)
	testenv.Equal(t, result.Error, failedTimeout, "why the attempt failed")
}

// TestCertificates: a receiver's certificate must be for its name, and by a known authority.
// Invariant 238.
func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	authority := x509.NewCertPool()
	authority.AddCert(server.Certificate())
	known := func(o *Options) { o.TLS = &tls.Config{RootCAs: authority} }
	testenv.Equal(t, attempted(t, server.URL, known).Error, "", "a valid certificate")
	testenv.Equal(t, attempted(t, server.URL, nil).Error, failedTLS, "an unknown authority")
	_, resolver := newDNS(t, "127.0.0.1")
	wrong := "https://wrong.example:" + testenv.Must(url.Parse(server.URL))(t).Port()
	testenv.Equal(t, attempted(t, wrong, func(o *Options) { known(o); o.Resolver = resolver }).Error, failedTLS, "a certificate for another name")
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	testenv.Equal(t, attempted(t, strings.Replace(plain.URL, "http", "https", 1), known).Error, failedTLS, "no TLS")
}

// TestNoProxy: a proxy in the environment sees no delivery.
// Invariant 238.
func TestNoProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	var hosts []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts = append(hosts, r.Host) }))
	defer server.Close()
	_, resolver := newDNS(t, "127.0.0.1")
	port := testenv.Must(url.Parse(server.URL))(t).Port()
	result := attempted(t, "http://receiver.example:"+port, func(o *Options) { o.Resolver = resolver })
	testenv.Equal(t, result.Error, "", "the result")
	testenv.Equal(t, strings.Join(hosts, " "), "receiver.example:"+port, "the hosts of requests")
}

// TestSignatures: the public library verifies a delivery by the secret, during a rotation by both
// secrets, and afterwards by the new one only. It refuses changed bodies. The specification's
// example has the same signature.
// Invariant 239.
func TestSignatures(t *testing.T) {
	m := message{id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: []byte(`{"test": 2432232314}`)}
	signature := testenv.Must(m.sign(time.Unix(1614265330, 0), []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}))(t)
	testenv.Equal(t, signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "the example's signature")

	s := newStore()
	var last *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		last, body = r, testenv.Must(io.ReadAll(r.Body))(t)
	}))
	defer server.Close()
	s.add("1", server.URL, func(w *metastore.Webhook) {
		w.Old, w.OldUntil = box.Seal(access.WebhookOwner("1"), secretOf("o")), time.Now().Add(time.Hour)
	})
	sender := New(s, Options{Secrets: box, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Source: "https://sluice.example/v1/changes"})
	verify := func(secret string) error {
		return testenv.Must(standardwebhooks.NewWebhook(secret))(t).Verify(body, last.Header)
	}
	test := func() {
		if result, _ := sender.Test(t.Context(), s.hook("1")); result.Error != "" {
			t.Fatalf("the result is %+v", result)
		}
	}
	test()
	testenv.OK(t, verify(secretOf("s")))
	testenv.OK(t, verify(secretOf("o")))
	testenv.Is(t, verify(secretOf("x")), standardwebhooks.ErrNoMatchingSignature, "another secret")
	testenv.Equal(t, last.Header.Get("Content-Type"), contentType, "the content type")
	if list := string(body); !strings.HasPrefix(list, `[{"specversion":"1.0","id":"test_`) || !strings.Contains(list, `"type":"sluice.webhook.test"`) || !strings.Contains(list, `"source":"https://sluice.example/v1/changes"`) {
		t.Errorf("the body is %s", list)
	}
	body = append(body, ' ')
	testenv.Is(t, verify(secretOf("s")), standardwebhooks.ErrNoMatchingSignature, "a changed body")
	s.change("1", func(w *metastore.Webhook) { w.OldUntil = time.Now() })
	test()
	testenv.OK(t, verify(secretOf("s")))
	testenv.Is(t, verify(secretOf("o")), standardwebhooks.ErrNoMatchingSignature, "the old secret after the rotation")

	s.change("1", func(w *metastore.Webhook) { w.Secret = box.Seal(access.WebhookOwner("2"), secretOf("s")) })
	result, _ := sender.Test(t.Context(), s.hook("1"))
	testenv.Equal(t, result.Error, failedSecret, "a secret of another webhook")
}

// TestOneTestAtATime: a webhook has one test in progress.
func TestOneTestAtATime(t *testing.T) {
	s := newStore()
	entered, done := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-done
	}))
	defer server.Close()
	s.add("1", server.URL, nil)
	sender := New(s, Options{Secrets: box, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Feed: feed.New(s, feed.Options{})})
	ended := make(chan metastore.WebhookResult)
	go func() {
		result, _ := sender.Test(t.Context(), s.hook("1"))
		ended <- result
	}()
	<-entered
	_, ok := sender.Test(t.Context(), s.hook("1"))
	testenv.Equal(t, ok, false, "whether a second test began")
	close(done)
	testenv.Equal(t, (<-ended).Error, "", "the first test's result")
}
