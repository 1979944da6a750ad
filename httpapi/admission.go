package httpapi

import (
	"errors"

	"sluice/access"
	"sluice/access/keys"
)

// admit identifies the caller, and applies the service's limits and then the caller's.
func (s *Server) admit(x *exchange) error {
	x.client, x.forwarded = clientAddress(x.r, s.trustedProxies)
	if err := s.identify(x.r.Context(), x); err != nil {
		if errors.Is(err, errTooBusy) {
			s.slots.refused.Add(1)
		}
		return err
	}
	var allowance *access.Allowance
	if x.caller != nil {
		allowance = s.limiter.OfKey(x.caller)
	} else {
		allowance = s.limiter.OfAddress(x.client)
	}
	err := x.enter(allowance)
	if s.keys != nil && !x.dropped {
		setRateLimitHeaders(x, allowance)
	}
	if err != nil {
		return err
	}
	x.limit(allowance)
	return nil
}

// enter counts the exchange for the caller that has the allowance.
func (x *exchange) enter(allowance *access.Allowance) (err error) {
	x.entered = allowance
	if err := x.hold(allowance); err != nil {
		return err
	}
	x.left, err = allowance.Enter(x.r.Context())
	return err
}

// leave ends what admit or admitProbe has begun, also if it returned an error.
func (x *exchange) leave() {
	x.releaseReply()
	if x.left != nil {
		x.left()
	}
	if x.entered != nil {
		x.entered.Release()
	}
	x.slot.release()
}

// probeLimits bound the probes and preflights of one address. They are far above what load
// balancers and browsers need, and prevent one client from using up the processors of a node.
var probeLimits = keys.Limits{RequestsPerSecond: 200, ConcurrentRequests: 64}

// admitProbe applies probeLimits to a probe or a preflight. No other limit applies, so its body is
// not read, and a refusal closes the connection.
func (s *Server) admitProbe(x *exchange) error {
	if x.r.ContentLength != 0 && x.r.ProtoMajor == 1 {
		x.header.set("Connection", "close")
		x.body.Abandon()
	}
	if s.probeLimiter == nil {
		return nil
	}
	x.client, x.forwarded = clientAddress(x.r, s.trustedProxies)
	err := x.enter(s.probeLimiter.OfAddress(x.client))
	if err != nil && !x.dropped {
		x.header.set("Connection", "close")
	}
	return err
}
