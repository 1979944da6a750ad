package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"sluice/access"
	"sluice/metastore"
)

// slots bounds the requests in progress; probes and preflights are not counted.
type slots struct {
	max       int64
	active    atomic.Int64 // requests in progress
	anonymous atomic.Int64 // of them, without a valid key
	lookups   atomic.Int64 // of them, whose key is being looked up
}

func newSlots(limit int64) *slots { return &slots{max: limit} }

// slot is the slot of one request. The caller must call release.
type slot struct {
	of        *slots
	anonymous bool
}

// acquire returns a slot, or errTooBusy.
func (s *slots) acquire() (*slot, error) {
	if s.active.Add(1) > s.max {
		s.active.Add(-1)
		return nil, fmt.Errorf("%w: the limit is %d", errTooBusy, s.max)
	}
	return &slot{of: s}, nil
}

// markAnonymous counts the slot as one without a key, or returns errTooBusy. A quarter of all slots is
// reserved for callers with keys, so that many addresses together cannot lock them out.
func (s *slot) markAnonymous() error {
	limit := s.of.max - s.of.max/4
	if s.of.anonymous.Add(1) > limit {
		s.of.anonymous.Add(-1)
		return fmt.Errorf("%w: the limit without a key is %d", errTooBusy, limit)
	}
	s.anonymous = true
	return nil
}

func (s *slot) release() {
	if s.anonymous {
		s.of.anonymous.Add(-1)
	}
	s.of.active.Add(-1)
}

// beginLookup counts a lookup of a key, or returns errTooBusy. The key may be invalid, so lookups must
// not take the slots of callers with valid keys.
func (s *slots) beginLookup() (done func(), err error) {
	done = func() { s.lookups.Add(-1) }
	if limit := max(1, s.max/8); s.lookups.Add(1) > limit {
		done()
		return nil, fmt.Errorf("%w: the limit of lookups of keys is %d", errTooBusy, limit)
	}
	return done, nil
}

// admit applies the limits of the service and then those of the caller, which it identifies. The caller
// of admit must call leave when the request has ended.
func (s *Server) admit(x *exchange) (leave func(), err error) {
	slot, err := s.slots.acquire()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			slot.release()
		}
	}()
	ctx := x.r.Context()
	x.client = clientAddress(x.r, s.trustedProxies)
	if err := s.identify(ctx, x, slot); err != nil {
		return nil, err
	}
	var allowance *access.Allowance
	if x.caller != nil {
		allowance = s.limiter.OfKey(x.caller)
	} else {
		allowance = s.limiter.OfAddress(x.client)
	}
	defer func() {
		if err != nil {
			allowance.Release()
		}
	}()
	if err := x.hold(allowance); err != nil {
		return nil, err
	}
	left, err := allowance.Enter(ctx)
	if s.keys != nil {
		setRateLimitHeaders(x.Header(), allowance)
	}
	if err != nil {
		return nil, err
	}
	x.limit(allowance)
	return func() {
		left()
		allowance.Release()
		slot.release()
	}, nil
}

// probeLimits bound the probes and preflights of one address. They are far above what load balancers and
// browsers need, and prevent one client from using up the processors of a node.
var probeLimits = metastore.Limits{RequestsPerSecond: 200, ConcurrentRequests: 64}

// admitProbe applies probeLimits to a probe or a preflight. No other limit applies, so its body is not
// read, and a refusal closes the connection.
func (s *Server) admitProbe(x *exchange) (leave func(), err error) {
	if x.r.ContentLength != 0 && x.r.ProtoMajor == 1 {
		x.Header().Set("Connection", "close")
		x.body.Abandon()
	}
	if s.probeLimiter == nil {
		return func() {}, nil
	}
	x.client = clientAddress(x.r, s.trustedProxies)
	allowance := s.probeLimiter.OfAddress(x.client)
	defer func() {
		if err != nil {
			allowance.Release()
		}
	}()
	if err := x.hold(allowance); err != nil {
		return nil, err
	}
	left, err := allowance.Enter(x.r.Context())
	if err != nil {
		x.Header().Set("Connection", "close")
		return nil, err
	}
	return func() {
		left()
		allowance.Release()
	}, nil
}

// setRateLimitHeaders sets the headers of draft-ietf-httpapi-ratelimit-headers-10.
func setRateLimitHeaders(h http.Header, a *access.Allowance) {
	limits := a.Limits()
	var policies []string
	for _, one := range []struct {
		name  string
		quota int64
		unit  string
	}{
		{"requests", limits.RequestsPerSecond, ""},
		{"bytes-in", limits.BytesInPerSecond, ";qu=\"content-bytes\""},
		{"bytes-out", limits.BytesOutPerSecond, ";qu=\"content-bytes\""},
	} {
		if one.quota > 0 {
			policies = append(policies, fmt.Sprintf("%q;q=%d;w=1%s", one.name, one.quota, one.unit))
		}
	}
	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
	}
	if limits.RequestsPerSecond > 0 {
		left, reset := a.Requests()
		h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", "requests", left, seconds(reset)))
	}
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
