package exchange

import (
	"errors"

	"sluice/access"
	"sluice/database"
)

// Admit identifies the caller by the credential in the request, nil if there is none, and applies
// the service's limits and then the caller's. bad is why there is a credential and it is malformed;
// it becomes BadCredential. The caller must call Leave, even after an error.
func (x *Exchange) Admit(credential Credential, bad error) error {
	s := x.service
	x.Client, x.forwarded = clientAddress(x.Request, s.trustedProxies)
	if err := x.identify(credential, bad); err != nil {
		if errors.Is(err, ErrTooBusy) {
			s.slots.refused.Add(1)
		}
		return err
	}
	var allowance *access.Allowance
	if x.Caller != nil {
		allowance = s.limiter.OfKey(x.Caller)
	} else {
		allowance = s.limiter.OfAddress(x.Client)
	}
	err := x.enter(allowance)
	if s.keys != nil && !x.dropped {
		setRateLimitFields(x, allowance)
	}
	if err != nil {
		return err
	}
	x.limit(allowance)
	return nil
}

// enter counts the exchange for the caller that has the allowance.
func (x *Exchange) enter(allowance *access.Allowance) (err error) {
	x.entered = allowance
	if err := x.hold(allowance); err != nil {
		return err
	}
	x.left, err = allowance.Enter(x.Request.Context())
	return err
}

// Leave ends the admission that Admit or AdmitProbe has begun, even if it returned an error.
// Afterwards the exchange may be admitted again, for another caller. Repeated, Leave has no effect.
func (x *Exchange) Leave() {
	x.reply.release()
	x.document.release()
	if x.left != nil {
		x.left()
	}
	if x.entered != nil {
		x.entered.Release()
	}
	x.left, x.entered = nil, nil
	x.slot.release()
}

// Rest releases the exchange's slots, and the memory of its reply. It is called before a wait that
// is bounded otherwise, and may be repeated. The exchange keeps its caller's rates, and the
// database has as much patience with it as with another request.
func (x *Exchange) Rest() {
	x.reply.release()
	if x.left != nil {
		x.left()
		x.left = nil
	}
	if x.release != nil {
		x.release()
		x.release = nil
	}
	x.slot.release()
	if x.rested == nil {
		x.service.metrics.Rest()
		x.rested = x.Request.Context()
	}
	x.Request = x.Request.WithContext(database.WithPatience(x.rested, database.Patience))
}

// AdmitProbe applies Config.ProbeLimits to a probe or a preflight. No other limit applies, so its
// body is not read, and a refusal closes the connection. The caller must call Leave, even after an
// error.
func (x *Exchange) AdmitProbe() error {
	x.Probe = true
	if x.Request.ContentLength != 0 && x.Request.ProtoMajor == 1 {
		x.Fields.Set("Connection", "close")
		x.Body.Abandon()
	}
	limiter := x.service.probeLimiter
	if limiter == nil {
		return nil
	}
	x.Client, x.forwarded = clientAddress(x.Request, x.service.trustedProxies)
	err := x.enter(limiter.OfAddress(x.Client))
	if err != nil && !x.dropped {
		x.Fields.Set("Connection", "close")
	}
	return err
}
