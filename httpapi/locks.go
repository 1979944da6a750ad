package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/access"
	"sluice/admin"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/wire"
)

// setLock serves PATCH on a version, which changes its lock.
func (s *Server) setLock(x *call) error {
	v, err := x.version()
	if err != nil {
		return err
	}
	holds, err := s.versionPrecondition(x.Request.Header)
	if err != nil {
		return err
	}
	var in wire.SetLock
	body, err := x.readKnown(&in)
	if err != nil {
		return err
	}
	c := metastore.LockChange{VersionName: v, Hold: in.Hold, Precondition: holds}
	if in.Retention != nil {
		if c.Retention, err = retentionOf(in.Retention); err != nil {
			return err
		}
	} else if isNull(body, "retention") {
		c.Retention = &metastore.Lock{}
	}
	if c.Retention == nil && c.Hold == nil {
		return fmt.Errorf(`%w: member "retention" or "hold" is required`, errMalformedJSON)
	}
	var b metastore.Blob
	err = s.bypassing(x, v.BlobName, func(bypass metastore.Bypass) (err error) {
		c.Bypass = bypass
		b, err = s.blobs.SetLock(x.Request.Context(), c)
		return exchange.BlobError(err)
	})
	if err != nil {
		return inDoubt(err, doubtError{retryable: true})
	}
	return writeJSON(x, http.StatusOK, admin.LockOf(b.Lock))
}

// isNull reports whether a body that was decoded has a member that is null.
func isNull(body []byte, name string) bool {
	var members map[string]jsontext.Value
	return decodeJSON(body, &members) == nil && members[name].Kind() == 'n'
}

// bypassing calls do with a permission to end retentions early, if the request has
// wire.HeaderBypass, and records each end. The key needs access.ScopeBypass then.
func (s *Server) bypassing(x *call, at metastore.BlobName, do func(metastore.Bypass) error) error {
	bypass, err := flagHeader(x.Request.Header, wire.HeaderBypass)
	if err != nil {
		return err
	}
	if !bypass || s.admin == nil {
		return do(nil)
	}
	if !x.Local {
		if err := x.GrantMore(access.ScopeBypass, at.Account, at.Name); err != nil {
			return err
		}
	}
	return s.admin.Bypassing(x.Request.Context(), by(x), at, do)
}

// flagHeader returns a header field that is true, false or absent.
func flagHeader(h http.Header, name string) (bool, error) {
	switch values := h.Values(name); {
	case len(values) == 0, len(values) == 1 && values[0] == "false":
		return false, nil
	case len(values) == 1 && values[0] == "true":
		return true, nil
	}
	return false, fmt.Errorf("%w: %s must be true or false", exchange.ErrHeader, name)
}

// retentionOf returns the retention that a request states.
func retentionOf(r *wire.Retention) (*metastore.Lock, error) {
	if r.Mode == "" || r.Until.IsZero() {
		return nil, fmt.Errorf("%w: a retention has a mode and a time until which it lasts", exchange.ErrParameter)
	}
	return &metastore.Lock{Mode: metastore.LockMode(r.Mode), Until: r.Until}, nil
}

// newLock returns the lock that a request states for a blob that it stores. The caller must have
// been permitted to store it; for a lock they need access.ScopeRetain, too.
func (x *call) newLock(in wire.Lock, account, name string) (l metastore.Lock, err error) {
	if in.Retention != nil {
		r, err := retentionOf(in.Retention)
		if err != nil {
			return l, err
		}
		l = *r
	}
	if l.Hold = in.Hold; l == (metastore.Lock{}) || x.Local {
		return l, nil
	}
	if x.linked {
		return l, fmt.Errorf("%w: it stores no locks", errLinkForbidden)
	}
	return l, x.GrantMore(access.ScopeRetain, account, name)
}

// lockFields returns the lock in a PUT's header.
func lockFields(h http.Header) (l wire.Lock, err error) {
	if l.Hold, err = flagHeader(h, wire.HeaderHold); err != nil {
		return l, err
	}
	mode, until := h.Values(wire.HeaderRetainMode), h.Values(wire.HeaderRetainUntil)
	if len(mode)+len(until) == 0 {
		return l, nil
	}
	if len(mode) == 1 && len(until) == 1 {
		if at, ok := parseTimestamp(until[0]); ok {
			l.Retention = &wire.Retention{Mode: mode[0], Until: at}
			return l, nil
		}
	}
	return l, fmt.Errorf("%w: %s must occur once, with %s, a time such as 2030-01-02T15:04:05Z (RFC 3339)", exchange.ErrHeader, wire.HeaderRetainMode, wire.HeaderRetainUntil)
}

// setLockFields sets the fields with a version's lock.
func setLockFields(x *call, l metastore.Lock) {
	if l.Mode != metastore.LockNone {
		x.Fields.Set(wire.HeaderRetainMode, string(l.Mode))
		x.Fields.Set(wire.HeaderRetainUntil, l.Until.UTC().Format(time.RFC3339))
	}
	if l.Hold {
		x.Fields.Set(wire.HeaderHold, "true")
	}
}
