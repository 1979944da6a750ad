package httpapi

import (
	"sluice/access"
	"sluice/metastore"
)

// admit applies the limits of the service and then those of the caller, which it identifies. The
// caller of admit must call leave when the request has ended.
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

// probeLimits bound the probes and preflights of one address. They are far above what load
// balancers and browsers need, and prevent one client from using up the processors of a node.
var probeLimits = metastore.Limits{RequestsPerSecond: 200, ConcurrentRequests: 64}

// admitProbe applies probeLimits to a probe or a preflight. No other limit applies, so its body is
// not read, and a refusal closes the connection.
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
