package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// dialFrom opens a connection from a local address, or from any if it is empty, and closes it when
// the test ends.
func (s *server) dialFrom(address string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{}
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	connection, err := dialer.DialContext(s.t.Context(), "tcp", s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.t.Error(err)
		}
	})
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return connection
}

// ask sends a request without a body from a local address, on a new connection. The lines are
// additional headers, each with its CRLF.
func (s *server) ask(address, method, target, lines string) response {
	s.t.Helper()
	connection := s.dialFrom(address)
	s.write(connection, method+" "+s.base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\nConnection: close\r\n"+lines+"\r\n")
	return s.answer(connection, method)
}

// hold begins a download and does not read it, so the request stays in progress until the test
// closes the connection. The blob must be much larger than all buffers on the way.
func (s *server) hold(address, target, lines string) net.Conn {
	s.t.Helper()
	connection := s.dialFrom(address)
	s.write(connection, "GET "+s.base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\n"+lines+"\r\n")
	if _, err := io.ReadFull(connection, make([]byte, len("HTTP/1.1 200"))); err != nil {
		s.t.Fatal(err)
	}
	return connection
}

// heldSize is larger than all buffers on the way.
const heldSize = 48 << 20

// TestRequestRate checks that requests beyond the rate wait at most two seconds, and that the
// service then refuses them with a Retry-After. A group's keys share the rate; other callers are
// not affected.
func TestRequestRate(t *testing.T) {
	t.Parallel()
	const perSecond, count = 5, 100
	s := startHosted(t, "public", "--address-requests-per-second", strconv.Itoa(perSecond))
	group := []*server{
		s.as(s.newKey("--scopes", "read", "--all-accounts", "--group", "team", "--requests-per-second", strconv.Itoa(perSecond))),
		s.as(s.newKey("--scopes", "write", "--all-accounts", "--group", "team")),
	}
	for name, ask := range map[string]func(i int) (response, error){
		"address": func(int) (response, error) { return s.try("GET", "/v1/info", nil) },
		"group":   func(i int) (response, error) { return group[i%2].try("GET", "/v1/info", nil) },
	} {
		began := time.Now()
		answers := s.atOnce(count, ask)
		elapsed := time.Since(began)
		served := 0
		for _, r := range answers {
			checkRateLimit(t, r, perSecond)
			if r.status == 200 {
				served++
				continue
			}
			checkProblem(t, r, 429, "rate_limited")
			if after := number(t, r.header.Get("Retry-After")); after < 1 || after > count {
				t.Errorf("%s: Retry-After is %d", name, after)
			}
		}
		// A full bucket, and the refill of two seconds; more only if the requests took long.
		least, most := 2*perSecond, perSecond*int(elapsed/time.Second+4)
		if served < least || served > most {
			t.Errorf("%s: %d of %d requests were served within %v, want %d to %d", name, served, count, elapsed, least, most)
		}
		// Other callers and health checks are not affected.
		other := s.as(s.newKey("--scopes", "read", "--all-accounts"))
		if r := other.must(200, "GET", "/v1/info", nil); !strings.HasPrefix(r.header.Get("RateLimit"), `"requests";r=`) {
			t.Errorf("RateLimit of another caller: %q", r.header.Get("RateLimit"))
		}
		for _, probe := range []string{"/livez", "/readyz"} {
			if r := s.must(200, "GET", probe, nil); r.header.Get("RateLimit") != "" {
				t.Errorf("%s has RateLimit %q", probe, r.header.Get("RateLimit"))
			}
		}
		s.must(204, "OPTIONS", "/v1/info", nil)
	}
}

var rateLimit = regexp.MustCompile(`^"requests";r=(\d+);t=(\d+)$`)

// checkRateLimit fails the test unless the headers announce this rate of requests.
func checkRateLimit(t *testing.T, r response, perSecond int64) {
	t.Helper()
	if policy := r.header.Get("RateLimit-Policy"); !strings.HasPrefix(policy, fmt.Sprintf(`"requests";q=%d;w=1`, perSecond)) {
		t.Errorf("%d: RateLimit-Policy is %q", r.status, policy)
	}
	found := rateLimit.FindStringSubmatch(r.header.Get("RateLimit"))
	if found == nil {
		t.Errorf("%d: RateLimit is %q", r.status, r.header.Get("RateLimit"))
	} else if left := number(t, found[1]); left > perSecond || r.status == 429 && left != 0 {
		t.Errorf("%d: RateLimit is %q", r.status, found[0])
	}
}

// TestConcurrentRequests checks that with the maximum of requests in progress the service refuses
// the next one immediately, and accepts it after one has ended.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "public")
	s.asAdmin().must(204, "PUT", blobTarget("bob", "name"), content(1, heldSize))
	one := s.as(s.newKey("--scopes", "read", "--all-accounts", "--group", "team", "--concurrent-requests", "2"))
	two := s.as(s.newKey("--scopes", "read", "--all-accounts", "--group", "team"))
	held := s.hold("", blobTarget("bob", "name"), "X-Api-Key: "+one.key+"\r\n")
	two.must(200, "GET", "/v1/info", nil)
	s.hold("", blobTarget("bob", "name"), "X-Api-Key: "+two.key+"\r\n")
	for _, at := range []*server{one, two} {
		r := at.do("GET", "/v1/info", nil)
		checkProblem(t, r, 429, "too_many_at_once")
		if r.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
		}
		at.must(200, "GET", "/livez", nil)
	}
	s.must(200, "GET", "/v1/info", nil)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	s.await("a request that has ended still counts", func() bool { return two.do("GET", "/v1/info", nil).status == 200 })
}

// TestQuota checks that stored blobs and open uploads' parts count together, for all of a group's
// keys. The service refuses a body that does not fit before the client sends it, and keeps nothing;
// a delete frees quota immediately.
func TestQuota(t *testing.T) {
	t.Parallel()
	const quota = 1 << 20
	s := startHosted(t, "public")
	one := s.as(s.newKey("--scopes", "write,read", "--all-accounts", "--group", "team", "--stored-bytes", "1MiB", "--open-uploads", "2"))
	two := s.as(s.newKey("--scopes", "write", "--all-accounts", "--group", "team"))
	refused := func(at *server, target string, size int) {
		t.Helper()
		checkProblem(t, at.do("PUT", target, content(9, size)), 403, "quota_exceeded")
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			// The response must not wait for the body. The client sends nothing of it.
			r := s.raw("PUT", fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n%s\r\n", s.base+target, at.key, size, expect))
			checkProblem(t, r, 403, "quota_exceeded")
		}
	}
	refused(one, blobTarget("bob", "large"), quota+1)
	one.must(204, "PUT", blobTarget("bob", "a"), content(1, 600_000))
	for _, at := range []*server{one, two} {
		refused(at, blobTarget("bob", "b"), 500_000)
		refused(at, blobTarget("alice", "b"), 500_000)
	}
	// Without a length, the service refuses the body when it exceeds the quota.
	s.chunkedOverQuota(two, 500_000)

	upload := two.begin("bob", "u", 300_000)
	two.must(200, "PUT", partTarget(upload, 0), content(2, 300_000))
	refused(one, partTarget(upload, 1), 300_000)
	refused(one, blobTarget("bob", "b"), 300_000)
	one.begin("bob", "v", 1000)
	body := `{"rawAccount":"bob","rawBlobName":"w"}`
	checkProblem(t, two.do("POST", "/v1/multipart-uploads", []byte(body)), 403, "quota_exceeded")

	one.must(204, "DELETE", "/v1/multipart-uploads/"+upload, nil)
	two.must(204, "PUT", blobTarget("bob", "b"), content(3, 300_000))
	one.must(204, "DELETE", blobTarget("bob", "a"), nil)
	two.must(204, "PUT", blobTarget("bob", "a"), content(4, 600_000))
	upload = two.begin("bob", "u", 100_000)
	two.must(200, "PUT", partTarget(upload, 0), content(5, 100_000))
	two.must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
	refused(two, blobTarget("bob", "c"), 300_000)

	// Other groups are not affected, and the service has not stored refused writes.
	s.asAdmin().must(204, "PUT", blobTarget("carol", "large"), content(6, 2*quota))
	if got := fmt.Sprint(one.names("bob"), one.names("alice")); got != "[a b u] []" {
		t.Errorf("the listing is %s", got)
	}
}

// chunkedOverQuota sends a body without a length that exceeds the quota.
func (s *server) chunkedOverQuota(at *server, size int) {
	s.t.Helper()
	request, err := at.request("PUT", blobTarget("bob", "chunked"), io.LimitReader(stream(7), int64(size)), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := at.send(request)
	if err != nil {
		s.t.Fatal(err)
	}
	checkProblem(s.t, r, 403, "quota_exceeded")
}

// TestRatesAreReported checks that /v1/info and the response headers announce the limits in force.
func TestRatesAreReported(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "public", "--key-requests-per-second", "unlimited", "--key-bytes-in-per-second", "3MiB", "--key-bytes-out-per-second", "4MB",
		"--key-concurrent-requests", "7", "--key-stored-bytes", "1GiB", "--key-open-uploads", "9", "--key-stored-objects", "1000", "--key-channels", "5",
		"--address-requests-per-second", "11", "--address-bytes-in-per-second", "unlimited", "--address-concurrent-requests", "13")
	var facts struct {
		Rates struct{ Key, Address map[string]int64 }
	}
	r := s.must(200, "GET", "/v1/info", nil)
	r.decode(t, &facts)
	want := "map[bytesInPerSecond:3145728 bytesOutPerSecond:4000000 channels:5 concurrentRequests:7 occupiedBytes:4294967296 openUploads:9 storedBytes:1073741824 storedObjects:1000] " +
		"map[bytesOutPerSecond:33554432 concurrentRequests:13 requestsPerSecond:11]"
	if got := fmt.Sprint(facts.Rates.Key, facts.Rates.Address); got != want {
		t.Errorf("the limits in /v1/info are %s, want %s", got, want)
	}
	for _, test := range []struct {
		at     *server
		policy string
		limit  bool
	}{
		{s, `"requests";q=11;w=1, "bytes-out";q=33554432;w=1;qu="content-bytes"`, true},
		{s.asAdmin(), `"bytes-in";q=3145728;w=1;qu="content-bytes", "bytes-out";q=4000000;w=1;qu="content-bytes"`, false},
		{s.as(s.newKey("--scopes", "read", "--accounts", "bob", "--bytes-in-per-second", "1KiB", "--bytes-out-per-second", "unlimited")),
			`"bytes-in";q=1024;w=1;qu="content-bytes"`, false},
	} {
		for _, target := range []string{"/v1/info", blobTarget("bob", "absent"), "/v1/nothing"} {
			r := test.at.do("GET", target, nil)
			if got := r.header.Get("RateLimit-Policy"); got != test.policy {
				t.Errorf("%s: RateLimit-Policy is %q, want %q", target, got, test.policy)
			}
			if got := r.header.Get("RateLimit"); (got != "") != test.limit {
				t.Errorf("%s: RateLimit is %q", target, got)
			}
		}
	}
}

// TestBytesArePaced checks that a group's streams together do not exceed its rate: the bytes for
// one and a half seconds take at least one second.
func TestBytesArePaced(t *testing.T) {
	t.Parallel()
	const perSecond, streams, each = 4 << 20, 4, 3 << 19
	s := startHosted(t, "public")
	paced := s.as(s.newKey("--scopes", "read,write", "--all-accounts", "--bytes-in-per-second", "4MiB", "--bytes-out-per-second", "4MiB"))
	data := content(1, each)
	for _, method := range []string{"PUT", "GET"} {
		began := time.Now()
		for _, r := range s.atOnce(streams, func(i int) (response, error) {
			if method == "PUT" {
				return paced.try("PUT", blobTarget("bob", strconv.Itoa(i)), data)
			}
			return paced.try("GET", blobTarget("bob", strconv.Itoa(i)), nil)
		}) {
			if r.status != 204 && (r.status != 200 || digest(r.body) != digest(data)) {
				t.Errorf("%s: %d with %d bytes", method, r.status, len(r.body))
			}
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("%s: %d bytes took %v at %d per second", method, streams*each, took, perSecond)
		}
	}
}

// BenchmarkPacing measures how much of their rate limit real connections achieve.
func BenchmarkPacing(b *testing.B) {
	const perSecond, total = 32 << 20, 64 << 20
	for _, method := range []string{"GET", "PUT"} {
		for _, streams := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/streams=%d", method, streams), func(b *testing.B) {
				s := startHosted(b, "public")
				s = s.as(s.newKey("--scopes", "read,write", "--all-accounts", "--bytes-in-per-second", "32MiB", "--bytes-out-per-second", "32MiB"))
				data := content(1, total/streams)
				// Another key writes the blob, so the rate is unused.
				s.as(s.newKey("--scopes", "write", "--all-accounts")).must(204, "PUT", blobTarget("bob", "name"), data)
				b.SetBytes(total)
				for b.Loop() {
					var workers sync.WaitGroup
					for i := range streams {
						workers.Go(func() {
							target, body := blobTarget("bob", "name"), []byte(nil)
							if method == "PUT" {
								target, body = blobTarget("bob", strconv.Itoa(i)), data
							}
							if r, err := s.try(method, target, body); err != nil || r.status != 200 && r.status != 204 {
								b.Errorf("%s: %d, %v", method, r.status, err)
							}
						})
					}
					workers.Wait()
				}
				b.ReportMetric(float64(total)*float64(b.N)/b.Elapsed().Seconds()/perSecond, "of-limit")
			})
		}
	}
}
