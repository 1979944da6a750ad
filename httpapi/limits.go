package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/bytestore"
	"sluice/metastore"
)

// admit lets a request in under the limits of the service, and then under those
// of its caller. leave must be called when it has ended.
func (s *Server) admit(x *exchange) (leave func(), err error) {
	place, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			place.leave()
		}
	}()
	ctx := x.r.Context()
	x.client = s.clientAddress(x.r)
	if err := s.identify(ctx, x, place); err != nil {
		return nil, err
	}
	var allowance *access.Allowance
	if x.caller != nil {
		allowance = s.Limiter.OfKey(x.caller)
	} else {
		allowance = s.Limiter.OfAddress(x.client)
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
	if s.Keys != nil {
		tellLimits(x.Header(), allowance)
	}
	if err != nil {
		return nil, err
	}
	x.allowance, x.body.allowance, x.out.allowance = allowance, allowance, allowance
	return func() {
		left()
		allowance.Release()
		place.leave()
	}, nil
}

// place is one of the MaxRequests places of requests at work.
type place struct {
	s         *Server
	anonymous bool // it is one of those that callers without a key may hold
}

// enter takes a place, if one is free.
func (s *Server) enter() (*place, error) {
	if s.active.Add(1) > s.MaxRequests {
		s.active.Add(-1)
		return nil, fmt.Errorf("%w: %d requests are at work", errTooBusy, s.MaxRequests)
	}
	return &place{s: s}, nil
}

// asAnonymous makes the place one of a caller without a key. A quarter of all
// places stays free of them, so that many addresses together cannot keep the
// holders of keys out.
func (p *place) asAnonymous() error {
	if p.s.anonymous.Add(1) > p.s.MaxRequests-p.s.MaxRequests/4 {
		p.s.anonymous.Add(-1)
		return fmt.Errorf("%w: %d of them have no key", errTooBusy, p.s.MaxRequests-p.s.MaxRequests/4)
	}
	p.anonymous = true
	return nil
}

func (p *place) leave() {
	if p.anonymous {
		p.s.anonymous.Add(-1)
	}
	p.s.active.Add(-1)
}

// probeLimits bound the probes and preflights of one address. They are far above
// what balancers and browsers need, and keep one client from taking the node's
// processors for nothing.
var probeLimits = metastore.Limits{RequestsPerSecond: 200, ConcurrentRequests: 64}

// admitProbe lets a probe or a preflight in. Nothing but probeLimits bounds them,
// so that no body is waited for, and a refusal ends the connection.
func (s *Server) admitProbe(x *exchange) (leave func(), err error) {
	x.probe = true
	if x.r.ContentLength != 0 && x.r.ProtoMajor == 1 {
		x.Header().Set("Connection", "close")
		x.body.abandon()
	}
	if s.probes == nil {
		return func() {}, nil
	}
	x.client = s.clientAddress(x.r)
	allowance := s.probes.OfAddress(x.client)
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

// hold keeps a place of the caller until the reply is sent to its end. Over
// HTTP/1.1 a connection has one reply at a time, and the caps of connections bound
// them. Over HTTP/2 any number of streams could wait for a client that lets
// nothing be sent: when it holds too many, the stream is reset without a reply,
// since that would wait, too.
func (x *exchange) hold(a *access.Allowance) error {
	if x.r.ProtoMajor != 2 {
		return nil
	}
	release, ok := a.Hold()
	if !ok {
		x.dropped = true
		return fmt.Errorf("%w: too many replies wait to be taken", access.ErrConcurrent)
	}
	x.release = release
	return nil
}

// clientAddress gives the address that a request comes from: that of the
// connection, or, behind proxies that are trusted, the last one in
// X-Forwarded-For that is not a trusted proxy itself.
func (s *Server) clientAddress(r *http.Request) netip.Addr {
	address := peerAddress(r.RemoteAddr)
	if !s.trusts(address) {
		return address
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.trusts(address); i-- {
		hop := peerAddress(strings.TrimSpace(hops[i]))
		if !hop.IsValid() {
			break
		}
		address = hop
	}
	return address
}

func (s *Server) trusts(address netip.Addr) bool {
	for _, proxies := range s.TrustedProxies {
		if proxies.Contains(address) {
			return true
		}
	}
	return false
}

// peerAddress reads an address with or without a port. What is none is the
// invalid address.
func peerAddress(text string) netip.Addr {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}

// tellLimits announces the rates (draft-ietf-httpapi-ratelimit-headers-10).
func tellLimits(h http.Header, a *access.Allowance) {
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

// seconds rounds up to whole seconds.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// setRetryAfter tells when a request may come again.
func setRetryAfter(h http.Header, row errorRow, cause error) {
	var rate *access.RateError
	switch {
	case errors.As(cause, &rate):
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(rate.RetryAfter)), 10))
	case row.retryAfter > 0:
		h.Set("Retry-After", strconv.Itoa(row.retryAfter))
	}
}

// storing returns the context of a request that stores its body: what all bodies
// share on their way is shared out by those who send them, as the limits are.
func (x *exchange) storing(r *http.Request) context.Context {
	return bytestore.WithCaller(r.Context(), x.allowance.Holder())
}

// stored is a body that counts towards what its sender may store.
type stored struct {
	io.Reader
	reservation *access.Reservation
	counted     int64 // bytes that are reserved
	read        int64
}

// reservationStep is how much is reserved at once of a body of unknown length.
const reservationStep = 1 << 20

// store reserves room in the sender's quota for the body of a request, which becomes
// a blob of that name, or a part, whose name is empty, before any of it is read. The caller calls settle with the outcome.
func (x *exchange) store(r *http.Request, name string) (*stored, error) {
	size := r.ContentLength
	reservation, err := x.allowance.Reserve(r.Context(), name, max(size, 0))
	if err != nil {
		return nil, err
	}
	b := &stored{Reader: r.Body, reservation: reservation, counted: size}
	if size == bytestore.UnknownSize {
		b.counted = 0
	}
	return b, nil
}

// Read reserves as it goes where the length was not known.
func (b *stored) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	if b.read > b.counted {
		if err := b.grow(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// grow reserves a step more, or, near the end of the quota, what has come.
func (b *stored) grow() error {
	step := max(reservationStep, b.read-b.counted)
	err := b.reservation.Grow(step)
	if errors.Is(err, access.ErrQuota) {
		step = b.read - b.counted
		err = b.reservation.Grow(step)
	}
	if err == nil {
		b.counted += step
	}
	return err
}

// settle keeps what was reserved if it was stored, or may have been.
func (b *stored) settle(err error) error {
	if err == nil || errors.Is(err, metastore.ErrUnknownOutcome) {
		b.reservation.Keep()
	} else {
		b.reservation.Release()
	}
	return err
}
