package s3api

import (
	"errors"
	"strings"

	"sluice/access"
	"sluice/exchange"
	"sluice/s3api/internal/postpolicy"
	"sluice/s3api/internal/sigv4"
	"sluice/wire"
)

// admit identifies the caller by the request's signature, and applies their limits. On a local
// instance credentials are ignored.
func (s *Server) admit(x *call) error {
	if s.keys == nil {
		return x.Admit(nil, nil)
	}
	signature, err := sigv4.Parse(x.Request, map[string][]string(x.query))
	switch {
	case errors.Is(err, sigv4.ErrUnsigned):
		return x.Admit(nil, nil)
	case err != nil && x.query.has("X-Amz-Algorithm"):
		return x.Admit(nil, refuseWith("AuthorizationQueryParametersError", wire.CodeBadParameter, "%v", err))
	case err != nil:
		return x.Admit(nil, err)
	}
	x.signed = &signed{Signature: signature}
	x.signed.check = func(secret string) (err error) {
		x.signed.chain, err = signature.Verify(x.Request, map[string][]string(x.query), secret, s.blobs.Now())
		return err
	}
	return x.Admit(x.signed, nil)
}

// admitForm admits who has signed a form's policy in place of its sender, who was admitted
// without a key.
func (s *Server) admitForm(x *call, form *postpolicy.Form) error {
	if s.keys == nil || form.Signature == nil {
		return nil
	}
	if err := x.requireProtection(sigv4.Unsigned); err != nil {
		return err
	}
	fields := form.Signature
	signature, err := sigv4.ParsePolicy(fields.Algorithm, fields.Credential, fields.Date, fields.Signature)
	if err != nil {
		return err
	}
	x.signed = &signed{Signature: signature, check: func(secret string) error {
		return signature.VerifyPolicy(fields.Policy, secret, s.blobs.Now())
	}}
	x.Leave()
	return x.Admit(x.signed, nil)
}

// credentialError returns why the caller's credential is invalid, or nil.
func (x *call) credentialError() error {
	switch {
	case x.BadCredential == nil:
		return nil
	case x.signed != nil && x.signed.err != nil:
		return x.signed.err
	case errors.Is(x.BadCredential, access.ErrUnknownKey):
		return refuseWith("InvalidAccessKeyId", wire.CodeCredentialUnknown, "the access key is unknown, has expired, was revoked or has no S3 secret")
	default:
		return x.BadCredential
	}
}

// permit requires that the caller may run the operation. A local instance allows everything but
// reads of what is blocked.
func (s *Server) permit(x *call) error {
	switch {
	case x.op.scope == access.ScopeRead:
		return s.permitRead(x)
	case s.keys == nil:
		return nil
	case x.op.scope == "":
		return x.credentialError()
	default:
		return s.require(x, x.op.scope)
	}
}

// permitRead requires what the object's place does, or for a bucket those that a list would show. A
// local instance with paid reads requires credentials in place of payment, which may be any.
func (s *Server) permitRead(x *call) (err error) {
	if x.rules, err = s.places.Account(x.Request.Context(), x.account); err != nil {
		return err
	}
	var reads access.Reads
	switch {
	case x.level == objectLevel:
		x.rule = x.rules.At(x.key)
		reads = x.rule.Reads
	case strings.HasPrefix(x.op.name, "ListObject"):
		reads = x.rules.Lists(x.query.get("prefix"))
	default:
		reads = x.rules.Lists("")
	}
	switch {
	case s.keys == nil && s.reads == access.ReadsPaid && !reads.Everybody():
		if _, err := sigv4.Parse(x.Request, map[string][]string(x.query)); errors.Is(err, sigv4.ErrUnsigned) {
			return exchange.ErrNoCredential
		}
	case s.keys == nil:
	case reads.Everybody():
		err = x.credentialError()
	default:
		err = s.require(x, access.ScopeRead)
	}
	if err != nil {
		return err
	}
	return x.rule.Unblocked()
}

// require requires that the caller has a key with the scope for the object, for a list's prefix, or
// for the whole bucket; where operation.some is set, for some objects in the bucket.
func (s *Server) require(x *call, scope access.Scope) error {
	if s.keys == nil {
		return nil
	}
	if err := x.credentialError(); err != nil {
		return err
	}
	if err := x.RequireScope(scope); err != nil {
		return err
	}
	switch {
	case x.op.some && x.Caller.Reaches(scope, x.account):
		return nil
	case x.op.lists:
		return x.Grant(scope, x.account, x.query.get("prefix"))
	default:
		return x.Grant(scope, x.account, x.key)
	}
}
