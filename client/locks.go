package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"sluice/wire"
)

// The values of Lock.Mode.
const (
	LockGovernance = "governance" // keys with bypass end it early
	LockCompliance = "compliance" // nobody ends it early
)

// Lock keeps a version from being removed. The zero value is none.
type Lock struct {
	Mode  string    // of its retention; "": there is none
	Until time.Time // when the retention ends
	Hold  bool      // a legal hold
}

// wire returns the lock in a request.
func (l Lock) wire() (out wire.Lock) {
	if out.Hold = l.Hold; l.Mode != "" {
		out.Retention = &wire.Retention{Mode: l.Mode, Until: l.Until}
	}
	return out
}

func lockOf(l *wire.Lock) (out Lock) {
	if out.Hold = l.Hold; l.Retention != nil {
		out.Mode, out.Until = l.Retention.Mode, l.Retention.Until
	}
	return out
}

// checkLock returns an error if no service can have the lock.
func checkLock(l *wire.Lock) error {
	if r := l.Retention; r != nil && (r.Until.IsZero() || checkID("mode", r.Mode) != nil) {
		return invalid("retention", "has the mode %s and the time %v", shown(r.Mode), r.Until)
	}
	return nil
}

// setFields sets the header of a PUT.
func (l Lock) setFields(h http.Header) {
	if l.Mode != "" {
		h.Set(wire.HeaderRetainMode, l.Mode)
		h.Set(wire.HeaderRetainUntil, l.Until.UTC().Format(time.RFC3339Nano))
	}
	if l.Hold {
		h.Set(wire.HeaderHold, "true")
	}
}

// parseLock returns the lock in a response's header.
func parseLock(h http.Header) (l Lock, err error) {
	l.Mode, l.Hold = h.Get(wire.HeaderRetainMode), h.Get(wire.HeaderHold) == "true"
	l.Until, err = parseTime(h, wire.HeaderRetainUntil, func(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) })
	return l, cmp.Or(err, checkWord("mode", l.Mode, maxWord))
}

// LockOptions describe a change of a version's lock. Members that are not set stay as they are.
type LockOptions struct {
	Mode    string // a retention until Until
	Until   time.Time
	End     bool   // ends the retention; without Mode
	Hold    *bool  // sets or ends the legal hold
	IfMatch string // changes only a version with this ETag

	// Bypass ends or shortens a retention in LockGovernance early, which is recorded. The key needs
	// bypass.
	Bypass bool
}

// SetLock changes a version's lock, and returns it. The key needs retain. A retention that has not
// ended can only be extended, unless Bypass permits more: then the error has the status 403 and the
// code "locked". It returns ErrNotFound if there is no such version.
func (c *Client) SetLock(ctx context.Context, account, name, version string, o LockOptions) (Lock, error) {
	body := map[string]any{}
	switch {
	case o.Mode != "" && o.End, version == "":
		return Lock{}, fmt.Errorf("client: set a lock: %w: it needs a version, and sets or ends a retention", ErrInvalid)
	case o.Mode != "":
		body["retention"] = wire.Retention{Mode: o.Mode, Until: o.Until}
	case o.End:
		body["retention"] = nil
	}
	if o.Hold != nil {
		body["hold"] = *o.Hold
	}
	path, err := versionPath(account, name, version)
	if err != nil {
		return Lock{}, err
	}
	r := newRequest("set a lock", http.MethodPatch, path, idempotent)
	if o.IfMatch != "" {
		r.header.Set("If-Match", o.IfMatch)
		r.conditional = true
	}
	if o.Bypass {
		r.header.Set(wire.HeaderBypass, "true")
	}
	var out wire.Lock
	if err := r.setJSON(body); err != nil {
		return Lock{}, err
	}
	r.check = func() error { return checkLock(&out) }
	if _, err := c.call(ctx, r, &out); err != nil {
		return Lock{}, err
	}
	return lockOf(&out), nil
}
