package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/exchange"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestTooManyConcurrentRequests: above the limit of all callers a request is refused immediately,
// but probes and preflights are served.
func TestTooManyConcurrentRequests(t *testing.T) {
	const most = 3
	s := newService(t, func(c *Config) { c.MaxRequests = most })
	if s.Busy() {
		t.Error("a server without requests is busy")
	}
	end := s.hold(t, most)
	res, _ := s.refused(t, 503, wire.CodeOverloaded, "GET", "/v1/info", "")
	if res.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if !s.Busy() {
		t.Error("a server with requests is not busy")
	}
	if refused, limit := s.RefusedBusy(), s.MaxRequests(); refused != 1 || limit != most {
		t.Errorf("%d refusals by a limit of %d are counted, want one by %d", refused, limit, most)
	}
	s.want(t, 200, "GET", "/livez", "")
	s.want(t, 200, "GET", "/readyz", "")
	s.want(t, 204, "OPTIONS", "/v1/info", "")
	end()
	s.want(t, 200, "GET", "/v1/info", "")
}

// TestQuotaOfWritesInDoubt checks that bytes that may have been stored count until the store is
// queried again.
func TestQuotaOfWritesInDoubt(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	limits := keys.Limits{StoredBytes: 100 + 2*metastore.Charge("in doubt", "")}
	_, auth := h.limited(t, access.ScopeWrite, limits)
	caller := testenv.Must(h.keys.Authenticate(t.Context(), auth[1]))(t)
	x := &call{Exchange: exchange.Exchange{Allowance: h.Limiter().OfKey(caller)}}
	put := func() (*exchange.StoredBody, error) {
		x.Request = httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", 60)))
		return x.StoreBody(x.Request.Body, x.Request.ContentLength, "in doubt", "")
	}
	first := testenv.Must(put())(t)
	body := make([]byte, 60)
	_, err := h.meta.CommitBlob(t.Context(), metastore.Blob{
		Account: "ours", Name: "in doubt", Content: metastore.NewContentID(time.Now()), Size: 60, Owner: caller.Group(),
	}, []metastore.Extent{{Size: 60, Blocks: []uint32{0}, Body: body}}, nil)
	testenv.OK(t, err)
	testenv.Is(t, first.Confirm(database.ErrUnknownOutcome), database.ErrUnknownOutcome, "confirm")
	if second, err := put(); !errors.Is(err, access.ErrQuota) {
		t.Errorf("60 bytes more: %+v, %v; want them refused", second, err)
	}
}

// TestQuota: a quota counts parts and blobs and refuses before it reads. Deleted objects do not
// count.
func TestQuota(t *testing.T) {
	const unit = 20_000 // large compared with each object's charge
	const limit = 100*unit + 10_000
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	_, auth := h.limited(t, access.ScopeWrite, keys.Limits{StoredBytes: limit, OpenUploads: 1})
	ask := func(method, path, body string, want int) {
		t.Helper()
		if want == 403 {
			h.refused(t, want, wire.CodeQuotaExceeded, method, path, body, auth...)
		} else {
			h.want(t, want, method, path, body, auth...)
		}
	}
	ask("PUT", "/v1/blobs/ours/a", strings.Repeat("a", 60*unit), 204)
	ask("PUT", "/v1/blobs/ours/b", strings.Repeat("b", 41*unit), 403)
	upload := h.newUpload(t, ours, "u", "", auth...)
	ask("POST", "/v1/multipart-uploads", `{"rawAccount":"ours","rawBlobName":"u"}`, 403)
	ask("PUT", upload+"/parts/0", strings.Repeat("p", 30*unit), 200)
	ask("PUT", "/v1/blobs/ours/b", strings.Repeat("b", 11*unit), 403)
	ask("DELETE", "/v1/blobs/ours/a", "", 204)
	ask("PUT", "/v1/blobs/ours/b", strings.Repeat("b", 70*unit), 204)
	ask("DELETE", upload, "", 204)
	h.newUpload(t, ours, "u", "", auth...)
	ask("PUT", "/v1/blobs/ours/c", strings.Repeat("c", 30*unit), 204)
	ask("PUT", "/v1/blobs/ours/d", strings.Repeat("d", unit), 403)

	// A body without a declared length is counted as it arrives.
	ask("DELETE", "/v1/blobs/ours/c", "", 204)
	for _, one := range []struct {
		size, status int
		says         string
	}{
		{31 * unit, 403, `"detail":"The quota is exceeded: of 2010000 stored bytes`},
		{30 * unit, 204, ""},
	} {
		head := "PUT /v1/blobs/ours/e HTTP/1.1\r\nHost: h\r\nX-Api-Key: " + auth[1] + "\r\nTransfer-Encoding: chunked\r\n\r\n"
		chunk := fmt.Sprintf("%x\r\n%s\r\n", one.size, strings.Repeat("e", one.size))
		res, body := h.raw(t, head+chunk+"0\r\n\r\n")
		if res.StatusCode != one.status || !strings.Contains(body, one.says) {
			t.Errorf("%d bytes without a length: %d %s, want %d", one.size, res.StatusCode, body, one.status)
		}
	}
}

// TestQuotaOfEmptyBlobs: empty blobs, parts and uploads count with their names, so a quota bounds
// everything that is stored.
// Invariant 43.
func TestQuotaOfEmptyBlobs(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
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
		_, auth := h.limited(t, access.ScopeWrite, c.limits)
		blob := func(i int) string { return fmt.Sprint("/v1/blobs/ours/", i, long) }
		refused := func(method, path, body string) {
			t.Helper()
			_, got := h.refused(t, 403, wire.CodeQuotaExceeded, method, path, body, auth...)
			if !strings.Contains(got, c.says) {
				t.Errorf("%+v: %s", c.limits, got)
			}
		}
		for i := range c.fits {
			h.want(t, 204, "PUT", blob(i), "", auth...)
		}
		refused("PUT", blob(c.fits), "")
		if c.limits.StoredBytes > 0 {
			begin := fmt.Sprintf(`{"rawAccount":"ours","rawBlobName":"%d%s"}`, c.fits, long)
			refused("POST", "/v1/multipart-uploads", begin)
		} else { // an upload is not an object, but its parts are
			refused("PUT", h.newUpload(t, ours, fmt.Sprint(c.fits, long), "", auth...)+"/parts/0", "p")
		}
		for i := range c.fits {
			h.want(t, 204, "DELETE", blob(i), "", auth...)
		}
		if c.fits > 0 {
			h.want(t, 204, "PUT", "/v1/blobs/ours/fits", "", auth...)
		}
	}
}

// TestQuotaOfChannels: a quota of channels refuses the next channel before anything is stored, but
// never a repeated request.
// Invariant 44.
func TestQuotaOfChannels(t *testing.T) {
	const path = "/v1/sessions/micropaymentchannels"
	m := &failingMeta{}
	h := newHostedOver(t, m.around, access.ReadsPublic, access.ScopeChannels)
	k, auth := h.limited(t, access.ScopeChannels, keys.Limits{Channels: 3})
	body := func(number int) string {
		return fmt.Sprintf(`{"userIdentity":%q,"paymentChannelId":"%d"}`, payer, number)
	}
	keyed := func(idem string) []string { return append(auth, wire.HeaderIdempotencyKey, idem) }
	open := func(number int, idem string) string {
		t.Helper()
		_, made := h.want(t, 201, "POST", path, body(number), keyed(idem)...)
		return made
	}
	refused := func(number int, idem string, status int, code wire.Code) string {
		t.Helper()
		_, got := h.refused(t, status, code, "POST", path, body(number), keyed(idem)...)
		return got
	}
	counted := func(want int64) {
		t.Helper()
		used := testenv.Must(h.meta.Usage(t.Context(), k.Group))(t)
		testenv.Equal(t, used, metastore.Used{Channels: want, Retained: want * metastore.RowCharge}, "the usage")
	}
	made := open(1, "first")
	for range 3 { // neither a repeat nor a refusal uses quota
		testenv.Equal(t, open(1, "first"), made, "a repeated response")
		refused(1, "another", http.StatusConflict, wire.CodeChannelExists)
	}
	counted(1)
	open(2, "second")
	m.fail(database.ErrUnknownOutcome)
	refused(3, "third", http.StatusServiceUnavailable, wire.CodeOutcomeUnknown)
	m.fail(nil)
	counted(3)

	for _, idem := range []string{"fourth", "fourth", "fifth"} {
		got := refused(4, idem, http.StatusForbidden, wire.CodeQuotaExceeded)
		if !strings.Contains(got, "of 3 channels 3 are in use, 1 more are wanted") {
			t.Errorf("the refusal is %s", got)
		}
	}
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", path, body(4), auth...)
	counted(3)
	_, err := h.meta.FindChannel(t.Context(), payer, "0x1", "0x2", 4)
	testenv.Is(t, err, ledger.ErrNoChannel, "a channel that was refused")

	// A repeat returns the opened channel, even if the first response was lost.
	testenv.Equal(t, open(1, "first"), made, "a repeated response")
	if got := open(3, "third"); !strings.Contains(got, `"3"`) {
		t.Errorf("the third, repeated: %s", got)
	}
	refused(2, "first", http.StatusUnprocessableEntity, wire.CodeIdempotencyReuse)
	counted(3)
	_, another := h.limited(t, access.ScopeChannels, keys.Limits{Channels: 1})
	h.want(t, 201, "POST", path, body(4), another...)
}

// TestRequestRate: the rates are announced, and a refused request has a Retry-After.
func TestRequestRate(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite, limited(keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 2}))
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

// TestKeysKeepAShareOfTheSlots occupies all slots that callers without a key may have: the next one
// is refused, even with an unknown key, and a caller with a key is served.
// Invariant 65.
func TestKeysKeepAShareOfTheSlots(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeRead, func(c *Config) { c.MaxRequests = 8 })
	end := h.hold(t, 6)
	// There is no key, an unknown one, or one that was revoked.
	for _, headers := range [][]string{nil, h.wrong[9].headers, h.wrong[10].headers} {
		h.refused(t, 503, wire.CodeOverloaded, "GET", "/v1/info", "", headers...)
	}
	for range 2 { // the key must be looked up first, and is cached then
		h.want(t, 200, "GET", "/v1/info", "", h.right.headers...)
	}
	end()
	h.want(t, 200, "GET", "/v1/info", "")
	testenv.Equal(t, h.Counts().Anonymous, 0, "slots in use after they have ended")
}

// TestLookupsDoNotCountForAnAddress checks that a new key is looked up even if other callers at
// its address have used up their rate.
func TestLookupsDoNotCountForAnAddress(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeRead, limited(keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}))
	address := h.Limiter().OfAddress(netip.MustParseAddr("127.0.0.1"))
	leave, err := address.Enter(t.Context()) // holds the only slot, and uses the rate
	testenv.OK(t, err)
	defer leave()
	h.want(t, 429, "GET", "/v1/info", "")
	h.want(t, 200, "GET", "/v1/info", "", h.right.headers...)
}

// TestUnknownKeysAreLookedUpWithinLimits: an address's limits bound its key lookups.
func TestUnknownKeysAreLookedUpWithinLimits(t *testing.T) {
	t.Parallel()
	store := &slowKeys{}
	s := start(t, setup{keys: store.of, config: func(c *Config) {
		c.Limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}})
	}})
	var asked sync.WaitGroup
	for range 30 {
		asked.Go(func() {
			res, _ := s.do(t, "GET", "/v1/info", "", keyHeader(unknownKey(0))...)
			if res.StatusCode != 401 && res.StatusCode != 429 {
				t.Errorf("%d", res.StatusCode)
			}
		})
	}
	asked.Wait()
	if n := store.lookups.Load(); n == 0 || n > 10 {
		t.Errorf("30 requests made %d lookups in the store", n)
	}
}

// TestLookupsUseFewSlots checks that lookups of keys take at most an eighth of all slots, even
// if the store hangs.
func TestLookupsUseFewSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 16)
		c.keys.takes.Store(int64(time.Minute))
		look := func() int { return c.ask(t.Context(), "198.51.100.1", unknownKey(0)) }
		var held sync.WaitGroup
		for range 2 {
			held.Go(func() { testenv.Equal(t, look(), 401, "the response for a key that was looked up") })
		}
		synctest.Wait() // for the lookups
		testenv.Equal(t, look(), 503, "the response for another key")
		testenv.Equal(t, c.keys.lookups.Load(), 2, "lookups in 16 slots")
		held.Wait()
	})
}

// TestProbesWaitForNoBody: probes and preflights, to which few limits apply, do not wait for a
// body.
func TestProbesWaitForNoBody(t *testing.T) {
	s := newService(t, nil)
	for _, line := range []string{"GET /livez", "GET /readyz", "OPTIONS /v1/info"} {
		res, _ := s.raw(t, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
		if res.StatusCode >= 300 || !res.Close {
			t.Errorf("%s: %d, closes: %t", line, res.StatusCode, res.Close)
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
// group or, without keys, the network's.
func TestStoredThingsNameTheirOwner(t *testing.T) {
	body := strings.Repeat("x", 100_000)
	stores := &callersOfPuts{Store: memory.New()}
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	h.blobs = blob.New(h.meta, stores, blob.Options{})
	store := func(s *service, headers ...string) []string {
		stores.callers = nil
		s.want(t, 204, "PUT", "/v1/blobs/ours/n", body, headers...)
		s.want(t, 200, "PUT", s.newUpload(t, ours, "u", "", headers...)+"/parts/0", body, headers...)
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

// TestRangesArePacedByWhatIsRead checks that a range with one byte counts as a block towards the
// rate, once for all ranges in the block.
// Invariant 64.
func TestRangesArePacedByWhatIsRead(t *testing.T) {
	t.Parallel()
	const rate = 4 << 20 // bytes/s, a tenth is sent immediately
	s := newService(t, func(c *Config) {
		c.Limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{BytesOutPerSecond: rate}})
	})
	s.want(t, 204, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 4<<20))
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
