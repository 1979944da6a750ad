package nodes

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

	"sluice/e2e"
	"sluice/internal/testenv"
)

// dialFrom opens a connection from a local address, or from any if it is empty, and closes it when
// the test ends.
func dialFrom(s *e2e.Server, address string) net.Conn {
	s.T.Helper()
	dialer := net.Dialer{}
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	connection, err := dialer.DialContext(s.T.Context(), "tcp", s.Host)
	testenv.OK(s.T, err)
	s.T.Cleanup(func() {
		if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.T.Error(err)
		}
	})
	testenv.OK(s.T, connection.SetDeadline(time.Now().Add(e2e.Patience)))
	return connection
}

// ask sends a request without a body from a local address, on a new connection. The lines are
// additional headers, each with its CRLF.
func ask(s *e2e.Server, address, method, target, lines string) e2e.Response {
	s.T.Helper()
	connection := dialFrom(s, address)
	s.Write(connection, method+" "+s.Base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\nConnection: close\r\n"+lines+"\r\n")
	return s.Answer(connection, method)
}

// hold begins a download and does not read it, so the request stays in progress until the test
// closes the connection. The blob must be much larger than all buffers on the way.
func hold(s *e2e.Server, address, target, lines string) net.Conn {
	s.T.Helper()
	connection := dialFrom(s, address)
	s.Write(connection, "GET "+s.Base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\n"+lines+"\r\n")
	if _, err := io.ReadFull(connection, make([]byte, len("HTTP/1.1 200"))); err != nil {
		s.T.Fatal(err)
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
	s := e2e.StartHosted(t, "public", "--address-requests-per-second", strconv.Itoa(perSecond))
	group := []*e2e.Server{
		s.As(s.NewKey("--scopes", "read", "--all-accounts", "--group", "team", "--requests-per-second", strconv.Itoa(perSecond))),
		s.As(s.NewKey("--scopes", "write", "--all-accounts", "--group", "team")),
	}
	for name, ask := range map[string]func(i int) (e2e.Response, error){
		"address": func(int) (e2e.Response, error) { return s.Try("GET", "/v1/info", nil) },
		"group":   func(i int) (e2e.Response, error) { return group[i%2].Try("GET", "/v1/info", nil) },
	} {
		began := time.Now()
		answers := s.AtOnce(count, ask)
		elapsed := time.Since(began)
		served := 0
		for _, r := range answers {
			checkRateLimit(t, r, perSecond)
			if r.Status == 200 {
				served++
				continue
			}
			e2e.CheckProblem(t, r, 429, "rate_limited")
			if after := e2e.Number(t, r.Header.Get("Retry-After")); after < 1 || after > count {
				t.Errorf("%s: Retry-After is %d", name, after)
			}
		}
		// A full bucket, and the refill of two seconds; more only if the requests took long.
		least, most := 2*perSecond, perSecond*int(elapsed/time.Second+4)
		if served < least || served > most {
			t.Errorf("%s: %d of %d requests were served within %v, want %d to %d", name, served, count, elapsed, least, most)
		}
		// Other callers and health checks are not affected.
		other := s.As(s.NewKey("--scopes", "read", "--all-accounts"))
		if r := other.Must(200, "GET", "/v1/info", nil); !strings.HasPrefix(r.Header.Get("RateLimit"), `"requests";r=`) {
			t.Errorf("RateLimit of another caller: %q", r.Header.Get("RateLimit"))
		}
		for _, probe := range []string{"/livez", "/readyz"} {
			if r := s.Must(200, "GET", probe, nil); r.Header.Get("RateLimit") != "" {
				t.Errorf("%s has RateLimit %q", probe, r.Header.Get("RateLimit"))
			}
		}
		s.Must(204, "OPTIONS", "/v1/info", nil)
	}
}

var rateLimit = regexp.MustCompile(`^"requests";r=(\d+);t=(\d+)$`)

// checkRateLimit fails the test unless the headers announce this rate of requests.
func checkRateLimit(t *testing.T, r e2e.Response, perSecond int64) {
	t.Helper()
	if policy := r.Header.Get("RateLimit-Policy"); !strings.HasPrefix(policy, fmt.Sprintf(`"requests";q=%d;w=1`, perSecond)) {
		t.Errorf("%d: RateLimit-Policy is %q", r.Status, policy)
	}
	found := rateLimit.FindStringSubmatch(r.Header.Get("RateLimit"))
	if found == nil {
		t.Errorf("%d: RateLimit is %q", r.Status, r.Header.Get("RateLimit"))
	} else if left := e2e.Number(t, found[1]); left > perSecond || r.Status == 429 && left != 0 {
		t.Errorf("%d: RateLimit is %q", r.Status, found[0])
	}
}

// TestConcurrentRequests checks that with the maximum of requests in progress the service refuses
// the next one immediately, and accepts it after one has ended.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public")
	s.AsAdmin().Must(204, "PUT", e2e.BlobTarget("bob", "name"), e2e.Content(1, heldSize))
	one := s.As(s.NewKey("--scopes", "read", "--all-accounts", "--group", "team", "--concurrent-requests", "2"))
	two := s.As(s.NewKey("--scopes", "read", "--all-accounts", "--group", "team"))
	held := hold(s, "", e2e.BlobTarget("bob", "name"), "X-Api-Key: "+one.Key+"\r\n")
	two.Must(200, "GET", "/v1/info", nil)
	hold(s, "", e2e.BlobTarget("bob", "name"), "X-Api-Key: "+two.Key+"\r\n")
	for _, at := range []*e2e.Server{one, two} {
		r := at.Do("GET", "/v1/info", nil)
		e2e.CheckProblem(t, r, 429, "too_many_at_once")
		if r.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
		at.Must(200, "GET", "/livez", nil)
	}
	s.Must(200, "GET", "/v1/info", nil)
	testenv.OK(t, held.Close())
	s.Await("a request that has ended still counts", func() bool { return two.Do("GET", "/v1/info", nil).Status == 200 })
}

// TestQuota checks that stored blobs and open uploads' parts count together, for all of a group's
// keys. The service refuses a body that does not fit before the client sends it, and keeps nothing;
// a delete frees quota immediately.
func TestQuota(t *testing.T) {
	t.Parallel()
	const quota = 1 << 20
	s := e2e.StartHosted(t, "public")
	one := s.As(s.NewKey("--scopes", "write,read", "--all-accounts", "--group", "team", "--stored-bytes", "1MiB", "--open-uploads", "2"))
	two := s.As(s.NewKey("--scopes", "write", "--all-accounts", "--group", "team"))
	refused := func(at *e2e.Server, target string, size int) {
		t.Helper()
		e2e.CheckProblem(t, at.Do("PUT", target, e2e.Content(9, size)), 403, "quota_exceeded")
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			// The response must not wait for the body. The client sends nothing of it.
			r := s.Raw("PUT", fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n%s\r\n", s.Base+target, at.Key, size, expect))
			e2e.CheckProblem(t, r, 403, "quota_exceeded")
		}
	}
	refused(one, e2e.BlobTarget("bob", "large"), quota+1)
	one.Must(204, "PUT", e2e.BlobTarget("bob", "a"), e2e.Content(1, 600_000))
	for _, at := range []*e2e.Server{one, two} {
		refused(at, e2e.BlobTarget("bob", "b"), 500_000)
		refused(at, e2e.BlobTarget("alice", "b"), 500_000)
	}
	// Without a length, the service refuses the body when it exceeds the quota.
	chunkedOverQuota(s, two, 500_000)

	upload := two.Begin("bob", "u", 300_000)
	two.Must(200, "PUT", e2e.PartTarget(upload, 0), e2e.Content(2, 300_000))
	refused(one, e2e.PartTarget(upload, 1), 300_000)
	refused(one, e2e.BlobTarget("bob", "b"), 300_000)
	one.Begin("bob", "v", 1000)
	body := `{"rawAccount":"bob","rawBlobName":"w"}`
	e2e.CheckProblem(t, two.Do("POST", "/v1/multipart-uploads", []byte(body)), 403, "quota_exceeded")

	one.Must(204, "DELETE", "/v1/multipart-uploads/"+upload, nil)
	two.Must(204, "PUT", e2e.BlobTarget("bob", "b"), e2e.Content(3, 300_000))
	one.Must(204, "DELETE", e2e.BlobTarget("bob", "a"), nil)
	two.Must(204, "PUT", e2e.BlobTarget("bob", "a"), e2e.Content(4, 600_000))
	upload = two.Begin("bob", "u", 100_000)
	two.Must(200, "PUT", e2e.PartTarget(upload, 0), e2e.Content(5, 100_000))
	two.Must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
	refused(two, e2e.BlobTarget("bob", "c"), 300_000)

	// Other groups are not affected, and the service has not stored refused writes.
	s.AsAdmin().Must(204, "PUT", e2e.BlobTarget("carol", "large"), e2e.Content(6, 2*quota))
	if got := fmt.Sprint(one.Names("bob"), one.Names("alice")); got != "[a b u] []" {
		t.Errorf("the listing is %s", got)
	}
}

// chunkedOverQuota sends a body without a length that exceeds the quota.
func chunkedOverQuota(s *e2e.Server, at *e2e.Server, size int) {
	s.T.Helper()
	request, err := at.Request("PUT", e2e.BlobTarget("bob", "chunked"), io.LimitReader(e2e.Stream(7), int64(size)), nil)
	testenv.OK(s.T, err)
	r, err := at.Send(request)
	testenv.OK(s.T, err)
	e2e.CheckProblem(s.T, r, 403, "quota_exceeded")
}

// TestRatesAreReported checks that /v1/info and the response headers announce the limits in force.
func TestRatesAreReported(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public", "--key-requests-per-second", "unlimited", "--key-bytes-in-per-second", "3MiB", "--key-bytes-out-per-second", "4MB",
		"--key-concurrent-requests", "7", "--key-stored-bytes", "1GiB", "--key-open-uploads", "9", "--key-stored-objects", "1000", "--key-channels", "5",
		"--address-requests-per-second", "11", "--address-bytes-in-per-second", "unlimited", "--address-concurrent-requests", "13")
	var facts struct {
		Rates struct{ Key, Address map[string]int64 }
	}
	r := s.Must(200, "GET", "/v1/info", nil)
	r.Decode(t, &facts)
	want := "map[bytesInPerSecond:3145728 bytesOutPerSecond:4000000 channels:5 concurrentRequests:7 occupiedBytes:4294967296 openUploads:9 storedBytes:1073741824 storedObjects:1000] " +
		"map[bytesOutPerSecond:33554432 concurrentRequests:13 requestsPerSecond:11]"
	if got := fmt.Sprint(facts.Rates.Key, facts.Rates.Address); got != want {
		t.Errorf("the limits in /v1/info are %s, want %s", got, want)
	}
	for _, test := range []struct {
		at     *e2e.Server
		policy string
		limit  bool
	}{
		{s, `"requests";q=11;w=1, "bytes-out";q=33554432;w=1;qu="content-bytes"`, true},
		{s.AsAdmin(), `"bytes-in";q=3145728;w=1;qu="content-bytes", "bytes-out";q=4000000;w=1;qu="content-bytes"`, false},
		{s.As(s.NewKey("--scopes", "read", "--accounts", "bob", "--bytes-in-per-second", "1KiB", "--bytes-out-per-second", "unlimited")),
			`"bytes-in";q=1024;w=1;qu="content-bytes"`, false},
	} {
		for _, target := range []string{"/v1/info", e2e.BlobTarget("bob", "absent"), "/v1/nothing"} {
			r := test.at.Do("GET", target, nil)
			if got := r.Header.Get("RateLimit-Policy"); got != test.policy {
				t.Errorf("%s: RateLimit-Policy is %q, want %q", target, got, test.policy)
			}
			if got := r.Header.Get("RateLimit"); (got != "") != test.limit {
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
	s := e2e.StartHosted(t, "public")
	paced := s.As(s.NewKey("--scopes", "read,write", "--all-accounts", "--bytes-in-per-second", "4MiB", "--bytes-out-per-second", "4MiB"))
	data := e2e.Content(1, each)
	for _, method := range []string{"PUT", "GET"} {
		began := time.Now()
		for _, r := range s.AtOnce(streams, func(i int) (e2e.Response, error) {
			if method == "PUT" {
				return paced.Try("PUT", e2e.BlobTarget("bob", strconv.Itoa(i)), data)
			}
			return paced.Try("GET", e2e.BlobTarget("bob", strconv.Itoa(i)), nil)
		}) {
			if r.Status != 204 && (r.Status != 200 || e2e.Digest(r.Body) != e2e.Digest(data)) {
				t.Errorf("%s: %d with %d bytes", method, r.Status, len(r.Body))
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
				s := e2e.StartHosted(b, "public")
				s = s.As(s.NewKey("--scopes", "read,write", "--all-accounts", "--bytes-in-per-second", "32MiB", "--bytes-out-per-second", "32MiB"))
				data := e2e.Content(1, total/streams)
				// Another key writes the blob, so the rate is unused.
				s.As(s.NewKey("--scopes", "write", "--all-accounts")).Must(204, "PUT", e2e.BlobTarget("bob", "name"), data)
				b.SetBytes(total)
				for b.Loop() {
					var workers sync.WaitGroup
					for i := range streams {
						workers.Go(func() {
							target, body := e2e.BlobTarget("bob", "name"), []byte(nil)
							if method == "PUT" {
								target, body = e2e.BlobTarget("bob", strconv.Itoa(i)), data
							}
							if r, err := s.Try(method, target, body); err != nil || r.Status != 200 && r.Status != 204 {
								b.Errorf("%s: %d, %v", method, r.Status, err)
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
