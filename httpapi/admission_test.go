package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/wire"
)

// TestTooManyConcurrentRequests: above the limit of all callers a request is refused immediately,
// but probes and preflights are served.
func TestTooManyConcurrentRequests(t *testing.T) {
	const most = 3
	s := newService(t, func(c *Config, _ *Server) { c.MaxRequests = most })
	if s.Busy() {
		t.Error("a server without requests is busy")
	}
	var bodies []*io.PipeWriter
	var responses sync.WaitGroup
	for i := range most {
		r, w := io.Pipe()
		bodies = append(bodies, w)
		responses.Go(func() {
			req, err := http.NewRequest("PUT", fmt.Sprintf("%s/v1/blobs/1/%d", s.url, i), r)
			if err != nil {
				t.Error(err)
				return
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil || res.StatusCode != 204 {
				t.Errorf("%v, %v", res, err)
				return
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := w.Write([]byte("some")); err != nil {
			t.Fatal(err)
		}
	}
	for s.slots.active.Load() < most { // until all are in progress
		runtime.Gosched()
	}
	if res, body := s.do(t, "GET", "/v1/info", ""); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, `"overloaded"`) {
		t.Errorf("one request too many: %d %s", res.StatusCode, body)
	}
	if !s.Busy() {
		t.Error("a server with requests is not busy")
	}
	if refused, limit := s.RefusedBusy(), s.MaxRequests(); refused != 1 || limit != most {
		t.Errorf("%d refusals by a limit of %d are counted, want one by %d", refused, limit, most)
	}
	for _, probe := range []string{"/livez", "/readyz"} {
		if res, body := s.do(t, "GET", probe, ""); res.StatusCode != 200 {
			t.Errorf("%s: %d %s", probe, res.StatusCode, body)
		}
	}
	if res, _ := s.do(t, "OPTIONS", "/v1/info", ""); res.StatusCode != 204 {
		t.Errorf("OPTIONS: %d", res.StatusCode)
	}
	for _, w := range bodies {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	responses.Wait()
	if res, body := s.do(t, "GET", "/v1/info", ""); res.StatusCode != 200 {
		t.Errorf("after they have ended: %d %s", res.StatusCode, body)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestQuotaOfWritesInDoubt checks that what may have been stored counts until the store is queried
// again.
func TestQuotaOfWritesInDoubt(t *testing.T) {
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	_, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Limits: keys.Limits{StoredBytes: 100 + 2*metastore.Charge("in doubt", "")}})
	caller, err := h.keys.Authenticate(t.Context(), secret)
	testenv.OK(t, err)
	x := &exchange{allowance: h.limiter.OfKey(caller)}
	put := func() (*bodyReader, error) {
		x.r = httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", 60)))
		return x.storeBody("in doubt", "")
	}
	first, err := put()
	testenv.OK(t, err)
	body := make([]byte, 60)
	_, err = h.meta.CommitBlob(t.Context(), metastore.Blob{
		Account: "ours", Name: "in doubt", Content: metastore.NewContentID(time.Now()), Size: 60, Owner: caller.Group(),
	}, []metastore.Extent{{Size: 60, Blocks: []uint32{0}, Body: body}}, nil)
	testenv.OK(t, err)
	if err := first.confirm(database.ErrUnknownOutcome); !errors.Is(err, database.ErrUnknownOutcome) {
		t.Error(err)
	}
	if second, err := put(); !errors.Is(err, access.ErrQuota) {
		t.Errorf("60 bytes more: %+v, %v; want them refused", second, err)
	}
}

// TestQuota: a quota counts parts and blobs and refuses before it reads. Deleted objects do not
// count.
func TestQuota(t *testing.T) {
	const unit = 20_000 // large compared with what each object is charged
	const limit = 100*unit + 10_000
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	_, secret := h.key(t, access.NewKey{
		Scopes: []access.Scope{access.ScopeWrite}, Limits: keys.Limits{StoredBytes: limit, OpenUploads: 1},
	})
	auth := []string{"X-Api-Key", secret}
	ask := func(method, path, body string, want int) string {
		t.Helper()
		res, got := h.do(t, method, path, body, auth...)
		if res.StatusCode != want || want == 403 && !strings.Contains(got, `"quota_exceeded"`) {
			t.Errorf("%s %s: %d %s, want %d", method, path, res.StatusCode, got, want)
		}
		return got
	}
	ask("PUT", "/v1/blobs/ours/a", strings.Repeat("a", 60*unit), 204)
	ask("PUT", "/v1/blobs/ours/b", strings.Repeat("b", 41*unit), 403)
	began := ask("POST", "/v1/multipart-uploads", `{"rawAccount":"ours","rawBlobName":"u"}`, 200)
	ask("POST", "/v1/multipart-uploads", `{"rawAccount":"ours","rawBlobName":"u"}`, 403)
	upload := "/v1/multipart-uploads/" + strings.Split(began, `"`)[3]
	ask("PUT", upload+"/parts/0", strings.Repeat("p", 30*unit), 200)
	ask("PUT", "/v1/blobs/ours/b", strings.Repeat("b", 11*unit), 403)
	ask("DELETE", "/v1/blobs/ours/a", "", 204)
	ask("PUT", "/v1/blobs/ours/b", strings.Repeat("b", 70*unit), 204)
	ask("DELETE", upload, "", 204)
	ask("POST", "/v1/multipart-uploads", `{"rawAccount":"ours","rawBlobName":"u"}`, 200)
	ask("PUT", "/v1/blobs/ours/c", strings.Repeat("c", 30*unit), 204)
	ask("PUT", "/v1/blobs/ours/d", strings.Repeat("d", unit), 403)

	// A body without a declared length is counted as it arrives.
	ask("DELETE", "/v1/blobs/ours/c", "", 204)
	for size, want := range map[int]int{31: 403, 30: 204} {
		req, err := http.NewRequest("PUT", h.url+"/v1/blobs/ours/e", io.MultiReader(strings.NewReader(strings.Repeat("e", size*unit))))
		testenv.OK(t, err)
		req.Header.Set("X-Api-Key", secret)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if err != nil || res.StatusCode != want {
			t.Fatalf("%d bytes without a length: %v, %v, want %d", size, res, err, want)
		}
		told, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || want == 403 && !strings.Contains(string(told), `"detail":"The quota is exceeded: of 2010000 stored bytes`) {
			t.Errorf("%v: %s", err, told)
		}
		if want == 204 {
			ask("DELETE", "/v1/blobs/ours/e", "", 204)
		}
	}
}

// TestQuotaOfEmptyBlobs: empty blobs, parts and uploads count with their names, so a quota bounds
// everything that is stored.
func TestQuotaOfEmptyBlobs(t *testing.T) {
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	long := strings.Repeat("n", 900)
	for _, c := range []struct {
		limits keys.Limits
		fits   int
		says   string
	}{
		{keys.Limits{StoredBytes: 1 << 10}, 0, "of 1024 stored bytes 0 are in use, 1925 more are wanted"},
		{keys.Limits{StoredBytes: 10 << 10}, 5, "of 10240 stored bytes 9625 are in use, 1925 more are wanted"},
		{keys.Limits{StoredObjects: 3}, 3, "of 3 stored objects 3 are in use, 1 more are wanted"},
	} {
		_, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Limits: c.limits})
		auth := []string{"X-Api-Key", secret}
		for i := range c.fits {
			if res, got := h.do(t, "PUT", fmt.Sprint("/v1/blobs/ours/", i, long), "", auth...); res.StatusCode != 204 {
				t.Fatalf("%+v: blob %d: %d %s", c.limits, i, res.StatusCode, got)
			}
		}
		if res, got := h.do(t, "PUT", fmt.Sprint("/v1/blobs/ours/", c.fits, long), "", auth...); res.StatusCode != 403 || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %d %s", c.limits, res.StatusCode, got)
		}
		upload := fmt.Sprintf(`{"rawAccount":"ours","rawBlobName":"%d%s"}`, c.fits, long)
		res, got := h.do(t, "POST", "/v1/multipart-uploads", upload, auth...)
		if c.limits.StoredBytes > 0 {
			if res.StatusCode != 403 || !strings.Contains(got, c.says) {
				t.Errorf("%+v: upload: %d %s", c.limits, res.StatusCode, got)
			}
		} else { // an upload is not an object, but its parts are
			part := "/v1/multipart-uploads/" + strings.Split(got, `"`)[3] + "/parts/0"
			if res, got := h.do(t, "PUT", part, "p", auth...); res.StatusCode != 403 || !strings.Contains(got, c.says) {
				t.Errorf("%+v: part: %d %s", c.limits, res.StatusCode, got)
			}
		}
		for i := range c.fits {
			if res, got := h.do(t, "DELETE", fmt.Sprint("/v1/blobs/ours/", i, long), "", auth...); res.StatusCode != 204 {
				t.Fatalf("%+v: delete: %d %s", c.limits, res.StatusCode, got)
			}
		}
		if c.fits > 0 {
			if res, got := h.do(t, "PUT", "/v1/blobs/ours/fits", "", auth...); res.StatusCode != 204 {
				t.Errorf("%+v: after deletes: %d %s", c.limits, res.StatusCode, got)
			}
		}
	}
}

// TestQuotaOfChannels: a quota of channels refuses the next channel before anything is stored, but
// never a repeated request.
func TestQuotaOfChannels(t *testing.T) {
	const path = "/v1/sessions/micropaymentchannels"
	loses := &losesOpens{}
	h := newHostedOver(t, func(m whole.Database) whole.Database { loses.Database = m; return loses }, ReadsKey, access.ScopeChannels)
	k, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeChannels}, Limits: keys.Limits{Channels: 3}})
	body := func(number int) string {
		return fmt.Sprintf(`{"userIdentity":%q,"paymentChannelId":"%d"}`, payer, number)
	}
	open := func(number int, idem string) (*http.Response, string) {
		t.Helper()
		return h.do(t, "POST", path, body(number), "X-Api-Key", secret, wire.HeaderIdempotencyKey, idem)
	}
	counted := func(want int64) {
		t.Helper()
		if used, err := h.meta.Usage(t.Context(), k.Group); err != nil || used != (metastore.Used{Channels: want, Retained: want * metastore.RowCharge}) {
			t.Errorf("%+v is used, %v; want %d channels", used, err, want)
		}
	}
	first, made := open(1, "first")
	if first.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", first.StatusCode, made)
	}
	for range 3 { // neither a repeat nor a refusal uses quota
		if res, got := open(1, "first"); res.StatusCode != http.StatusCreated || got != made {
			t.Errorf("repeated: %d %s, want %s", res.StatusCode, got, made)
		}
		res, got := open(1, "another")
		wantProblem(t, res, got, http.StatusConflict, wire.CodeChannelExists)
	}
	counted(1)
	if res, got := open(2, "second"); res.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", res.StatusCode, got)
	}
	loses.next.Store(true)
	res, got := open(3, "third")
	wantProblem(t, res, got, http.StatusServiceUnavailable, wire.CodeOutcomeUnknown)
	counted(3)

	for _, idem := range []string{"fourth", "fourth", "fifth"} {
		res, got = open(4, idem)
		wantProblem(t, res, got, http.StatusForbidden, wire.CodeQuotaExceeded)
		if !strings.Contains(got, "of 3 channels 3 are in use, 1 more are wanted") {
			t.Errorf("the refusal is %s", got)
		}
	}
	res, got = h.do(t, "POST", path, body(4), "X-Api-Key", secret)
	wantProblem(t, res, got, http.StatusForbidden, wire.CodeQuotaExceeded)
	counted(3)
	if c, err := h.meta.FindChannel(t.Context(), payer, "0x1", "0x2", 4); !errors.Is(err, ledger.ErrNoChannel) {
		t.Errorf("the usage is %+v, %v", c, err)
	}

	// A repeat returns what was opened, also if the first response was lost.
	if res, got := open(1, "first"); res.StatusCode != http.StatusCreated || got != made {
		t.Errorf("repeated: %d %s, want %s", res.StatusCode, got, made)
	}
	if res, got := open(3, "third"); res.StatusCode != http.StatusCreated || !strings.Contains(got, `"3"`) {
		t.Errorf("the third, repeated: %d %s", res.StatusCode, got)
	}
	res, got = open(2, "first")
	wantProblem(t, res, got, http.StatusUnprocessableEntity, wire.CodeIdempotencyReuse)
	counted(3)
	_, another := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeChannels}, Limits: keys.Limits{Channels: 1}})
	if res, got := h.do(t, "POST", path, body(4), "X-Api-Key", another); res.StatusCode != http.StatusCreated {
		t.Errorf("another group: %d %s", res.StatusCode, got)
	}
}

// losesOpens is a store that loses the result of the next OpenChannel.
type losesOpens struct {
	whole.Database
	next atomic.Bool
}

func (s *losesOpens) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	c, err := s.Database.OpenChannel(ctx, c, idem)
	if err == nil && s.next.Swap(false) {
		return ledger.Channel{}, database.ErrUnknownOutcome
	}
	return c, err
}

// TestRequestRate: the rates are announced, and a refused request has a Retry-After.
func TestRequestRate(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsPublic, access.ScopeWrite)
	h.limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 2}})
	var asked sync.WaitGroup
	statuses := make(chan int, 8)
	for range cap(statuses) {
		asked.Go(func() {
			res, _ := h.do(t, "GET", "/v1/info", "")
			if res.StatusCode == 429 && res.Header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			if got := res.Header.Get("RateLimit-Policy"); got != `"requests";q=1;w=1` {
				t.Errorf("RateLimit-Policy: %s", got)
			}
			if !strings.HasPrefix(res.Header.Get("RateLimit"), `"requests";r=`) {
				t.Errorf("RateLimit: %s", res.Header.Get("RateLimit"))
			}
			statuses <- res.StatusCode
		})
	}
	asked.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[200] < 1 || count[429] < 1 || count[200]+count[429] != cap(statuses) {
		t.Errorf("responses by status: %v", count)
	}
}

// TestKeysKeepAShareOfTheSlots occupies all slots that callers without a key may have: the next
// one is refused, also with an unknown key, and a caller with a key is served.
func TestKeysKeepAShareOfTheSlots(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeRead)
	h.slots.max = 8
	const most = 6
	var bodies []*io.PipeWriter
	var responses sync.WaitGroup
	for range most {
		r, w := io.Pipe()
		bodies = append(bodies, w)
		responses.Go(func() {
			res, err := http.Post(h.url+"/v1/sessions", "application/json", r)
			if err != nil {
				t.Error(err)
				return
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != 201 {
				t.Errorf("%d, %v", res.StatusCode, err)
			}
		})
		if _, err := w.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	for h.slots.active.Load() < most { // until all are in progress
		runtime.Gosched()
	}
	for name, headers := range map[string][]string{"no key": nil, "an unknown key": h.wrong[9].headers, "a revoked key": h.wrong[10].headers} {
		if res, body := h.do(t, "GET", "/v1/info", "", headers...); res.StatusCode != 503 || !strings.Contains(body, `"overloaded"`) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	for range 2 { // the key must be looked up first, and is cached then
		if res, body := h.do(t, "GET", "/v1/info", "", h.right.headers...); res.StatusCode != 200 {
			t.Errorf("a key: %d %s", res.StatusCode, body)
		}
	}
	for _, w := range bodies {
		if _, err := w.Write([]byte("}")); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	responses.Wait()
	if res, body := h.do(t, "GET", "/v1/info", ""); res.StatusCode != 200 || h.slots.anonymous.Load() != 0 {
		t.Errorf("after they have ended: %d %s, and %d slots in use", res.StatusCode, body, h.slots.anonymous.Load())
	}
}

// TestLookupsDoNotCountForAnAddress checks that a new key is looked up even if other callers at
// its address have used up their rate.
func TestLookupsDoNotCountForAnAddress(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeRead)
	limits := keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}
	h.limiter = access.NewLimiter(access.LimiterOptions{Address: limits})
	h.lookupLimiter = access.NewLimiter(access.LimiterOptions{Address: limits})
	address := h.limiter.OfAddress(netip.MustParseAddr("127.0.0.1"))
	leave, err := address.Enter(t.Context()) // holds the only slot, and uses the rate
	testenv.OK(t, err)
	defer leave()
	if res, body := h.do(t, "GET", "/v1/info", ""); res.StatusCode != 429 {
		t.Errorf("without a key: %d %s", res.StatusCode, body)
	}
	if res, body := h.do(t, "GET", "/v1/info", "", h.right.headers...); res.StatusCode != 200 {
		t.Errorf("with a key: %d %s", res.StatusCode, body)
	}
}

// TestUnknownKeysAreLookedUpWithinLimits: an address's limits bound its key lookups.
func TestUnknownKeysAreLookedUpWithinLimits(t *testing.T) {
	t.Parallel()
	store := &countingKeys{}
	s := startService(t, func(meta whole.Database) *access.Authenticator {
		store.KeyStore = meta
		return access.NewAuthenticator(store, access.AuthenticatorOptions{})
	}, func(c *Config, _ *Server) {
		c.Limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}})
	})
	const key = "sluice_aaaaaaaaaaaaaaaa_" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	var asked sync.WaitGroup
	for range 30 {
		asked.Go(func() {
			if res, _ := s.do(t, "GET", "/v1/info", "", "X-Api-Key", key); res.StatusCode != 401 && res.StatusCode != 429 {
				t.Errorf("%d", res.StatusCode)
			}
		})
	}
	asked.Wait()
	if n := store.asked.Load(); n == 0 || n > 10 {
		t.Errorf("30 requests made %d lookups in the store", n)
	}
}

// hangingKeys is a store. A lookup returns when the test allows it.
type hangingKeys struct {
	access.KeyStore
	asked, answer chan struct{}
}

func (k *hangingKeys) Key(ctx context.Context, id string) (keys.Key, error) {
	k.asked <- struct{}{}
	<-k.answer
	return k.KeyStore.Key(ctx, id)
}

// TestLookupsUseFewSlots checks that lookups of keys take at most an eighth of all slots, even
// if the store hangs.
func TestLookupsUseFewSlots(t *testing.T) {
	store := &hangingKeys{asked: make(chan struct{}), answer: make(chan struct{})}
	s := startService(t, func(meta whole.Database) *access.Authenticator {
		store.KeyStore = meta
		return access.NewAuthenticator(store, access.AuthenticatorOptions{})
	}, func(c *Config, _ *Server) { c.MaxRequests = 16 })
	const key = "sluice_aaaaaaaaaaaaaaaa_" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	look := func() *http.Response {
		res, _ := s.do(t, "GET", "/v1/info", "", "X-Api-Key", key)
		return res
	}
	var held sync.WaitGroup
	for range 2 {
		held.Go(func() {
			if res := look(); res.StatusCode != 401 {
				t.Errorf("a key that was looked up: %d", res.StatusCode)
			}
		})
		<-store.asked
	}
	further := make(chan int, 1)
	go func() { further <- look().StatusCode }()
	select {
	case status := <-further:
		if status != 503 {
			t.Errorf("another key: %d, want 503", status)
		}
	case <-store.asked:
		t.Error("a third of 16 slots is used by a lookup")
	}
	close(store.answer)
	held.Wait()
}

type countingKeys struct {
	access.KeyStore
	asked atomic.Int64
}

func (k *countingKeys) Key(ctx context.Context, id string) (keys.Key, error) {
	k.asked.Add(1)
	return k.KeyStore.Key(ctx, id)
}

// TestProbesWaitForNoBody: probes and preflights, to which few limits apply, do not wait for a
// body.
func TestProbesWaitForNoBody(t *testing.T) {
	s := newService(t, nil)
	for _, line := range []string{"GET /livez", "GET /readyz", "OPTIONS /v1/info"} {
		conn, err := net.Dial("tcp", s.addr)
		testenv.OK(t, err)
		if _, err := io.WriteString(conn, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode >= 300 || !res.Close {
			t.Fatalf("%s: %v, %v", line, res, err)
		}
		if err := errors.Join(res.Body.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
	}
}

// callersOfPuts is a store that records the callers of its Puts.
type callersOfPuts struct {
	bytestore.Store
	mu      sync.Mutex
	callers []string
}

func (s *callersOfPuts) Put(ctx context.Context, key bytestore.Name, src io.Reader, size int64) error {
	s.mu.Lock()
	s.callers = append(s.callers, bytestore.Caller(ctx))
	s.mu.Unlock()
	return s.Store.Put(ctx, key, src, size)
}

// TestStoredThingsNameTheirOwner checks that blobs and parts are stored in the name of the key's
// group or, without keys, of the network.
func TestStoredThingsNameTheirOwner(t *testing.T) {
	body := strings.Repeat("x", 100_000)
	stores := &callersOfPuts{Store: memory.New()}
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	h.blobs = blob.New(h.meta, stores, blob.Options{})
	store := func(s *service, headers ...string) []string {
		stores.callers = nil
		upload, err := s.blobs.Begin(t.Context(), blob.BeginOptions{Account: ours, Name: "u", PartSize: 1 << 20})
		testenv.OK(t, err)
		for _, path := range []string{"/v1/blobs/" + ours + "/n", "/v1/multipart-uploads/" + upload.ID + "/parts/0"} {
			if res, got := s.do(t, "PUT", path, body, headers...); res.StatusCode >= 300 {
				t.Fatalf("PUT %s: %d %s", path, res.StatusCode, got)
			}
		}
		return stores.callers
	}
	seen := map[string]bool{}
	for range 2 {
		key, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{ours}})
		callers := store(h.service, "X-Api-Key", secret)
		if want := "group " + key.Group; !slices.Equal(callers, []string{want, want}) {
			t.Errorf("stored in the name of %q, want %q", callers, want)
		}
		seen[callers[0]] = true
	}
	local := newService(t, nil)
	local.blobs = blob.New(local.meta, stores, blob.Options{})
	if callers := store(local); !slices.Equal(callers, []string{"network 127.0.0.1/32", "network 127.0.0.1/32"}) {
		t.Errorf("without keys stored in the name of %q", callers)
	}
	if len(seen) != 2 {
		t.Errorf("two groups are %v", seen)
	}
}

// TestRangesArePacedByWhatIsRead checks that a range of a byte counts as a block towards the rate,
// once for all ranges in the block.
func TestRangesArePacedByWhatIsRead(t *testing.T) {
	t.Parallel()
	const rate = 4 << 20 // bytes/s, a tenth is sent immediately
	s := newService(t, func(c *Config, s *Server) {
		if s == nil {
			c.Limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{BytesOutPerSecond: rate}})
		}
	})
	if res, body := s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 4<<20)); res.StatusCode != 204 {
		t.Fatalf("PUT: %d %s", res.StatusCode, body)
	}
	begun := time.Now()
	ranges := "bytes=0-0,1048576-1048576,5-5,2097152-2097152,1048580-1048580,9-9,3145727-3145727"
	res, body := s.do(t, "GET", "/v1/blobs/0x1/n", "", "Range", ranges)
	if parts := strings.Count(body, "Content-Range"); res.StatusCode != 206 || parts != 7 {
		t.Errorf("%d with %d parts", res.StatusCode, parts)
	}
	blocks := float64(3 << 20) // and not 7
	if took, least := time.Since(begun).Seconds(), (blocks-rate/10)/rate; took < least {
		t.Errorf("7 bytes of 3 blocks took %.3f s, which is less than the %.3f s that the blocks take", took, least)
	}
}
