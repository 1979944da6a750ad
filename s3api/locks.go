package s3api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"sluice/access"
	"sluice/database"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// setLock sets the fields with a version's lock.
func (x *call) setLock(l metastore.Lock) {
	if l.Mode != metastore.LockNone {
		x.Fields.Set(fieldLockMode, strings.ToUpper(string(l.Mode)))
		x.Fields.Set(fieldLockUntil, document.FormatTime(l.Until))
	}
	if l.Hold {
		x.Fields.Set(fieldLegalHold, "ON")
	}
}

// statedLock returns the lock that a header states for an object with this key, or none. A lock
// needs access.ScopeRetain.
func (x *call) statedLock(key string, h http.Header) (l metastore.Lock, err error) {
	mode, until, hold := h.Get(fieldLockMode), h.Get(fieldLockUntil), h.Get(fieldLegalHold)
	switch {
	case (mode == "") != (until == ""):
		return l, fieldError(fieldLockMode, "and "+strings.ToLower(fieldLockUntil)+" must both be stated")
	case mode != "" && mode != document.Governance && mode != document.Compliance:
		return l, fieldError(fieldLockMode, "must be GOVERNANCE or COMPLIANCE")
	case hold != "" && hold != "ON" && hold != "OFF":
		return l, fieldError(fieldLegalHold, "must be ON or OFF")
	case until != "":
		if l.Until, err = document.ParseTime(until); err != nil {
			return l, fieldError(fieldLockUntil, err.Error())
		}
	}
	l.Mode, l.Hold = metastore.LockMode(strings.ToLower(mode)), hold == "ON"
	if l != (metastore.Lock{}) && !x.Local {
		err = x.GrantMore(access.ScopeRetain, x.account, key)
	}
	return l, err
}

// errNotLocked is returned for a version without a retention.
var errNotLocked = &refusal{code: "NoSuchObjectLockConfiguration", as: wire.CodeBlobNotFound, detail: "the object has no retention"}

// locked returns the lock that a named version has, in a bucket with locks.
func (s *Server) locked(x *call) (metastore.Lock, error) {
	b, err := s.lookUp(x)
	if err != nil || b.Lock != (metastore.Lock{}) {
		return b.Lock, err
	}
	keeping, err := s.blobs.Keeping(x.Request.Context(), x.account)
	if err == nil && !keeping.Locks {
		err = metastore.ErrNoLocks
	}
	return b.Lock, err
}

// getRetention returns until when a version is locked.
func (s *Server) getRetention(x *call) error {
	l, err := s.locked(x)
	switch {
	case err != nil:
		return err
	case l.Mode == metastore.LockNone:
		return errNotLocked
	}
	return x.writeXML(http.StatusOK, document.Retention{Mode: strings.ToUpper(string(l.Mode)), Until: document.FormatTime(l.Until)})
}

// getLegalHold returns whether a version has a legal hold.
func (s *Server) getLegalHold(x *call) error {
	l, err := s.locked(x)
	if err != nil {
		return err
	}
	return x.writeXML(http.StatusOK, document.Setting("LegalHold", "Status", map[bool]string{true: "ON", false: "OFF"}[l.Hold]))
}

// putRetention sets until when a version is locked. Without a mode it ends its retention.
func (s *Server) putRetention(x *call) error {
	body, err := x.readDocument(wire.MaxJSONBody)
	if err != nil {
		return err
	}
	mode, until, err := document.DecodeRetention(body)
	if err != nil {
		return err
	}
	return s.changeLock(x, metastore.LockChange{Retention: &metastore.Lock{Mode: metastore.LockMode(strings.ToLower(mode)), Until: until}})
}

// putLegalHold sets or ends a version's legal hold.
func (s *Server) putLegalHold(x *call) error {
	on, err := readAs(x, wire.MaxJSONBody, document.DecodeLegalHold)
	if err != nil {
		return err
	}
	return s.changeLock(x, metastore.LockChange{Hold: &on})
}

// changeLock changes the lock that a named version has.
func (s *Server) changeLock(x *call, c metastore.LockChange) error {
	c.VersionName = x.version.of(x.place())
	err := s.bypassing(x, x.key, func(bypass metastore.Bypass) error {
		if c.Bypass = bypass; bypass == nil {
			c.Precondition = s.keepsMode(c.Retention)
		}
		_, err := s.blobs.SetLock(x.Request.Context(), c)
		return err
	})
	switch {
	case !errors.Is(err, database.ErrNotFound):
	case x.version.stated:
		err = s.noVersion(x, c.VersionName)
	default:
		err = s.noObject(x, x.account, x.key, err)
	}
	return x.done(err, http.StatusOK)
}

// bypassing calls do with the permission to end retentions in the mode governance early, if the
// request asks for it and the caller's key has it. Each end is recorded.
func (s *Server) bypassing(x *call, key string, do func(metastore.Bypass) error) error {
	if s.admin == nil || !strings.EqualFold(x.header.Get(fieldBypass), "true") || x.Caller != nil && !x.Caller.Can(access.ScopeBypass, x.account, key) {
		return do(nil)
	}
	return s.admin.Bypassing(x.Request.Context(), x.by(), metastore.BlobName{Account: x.account, Name: key}, do)
}

// keepsMode returns the condition that a change of a retention leaves its mode as it is, which
// natively becomes stricter without a bypass.
func (s *Server) keepsMode(to *metastore.Lock) metastore.Precondition {
	now := s.blobs.Now()
	return func(current *metastore.Blob) error {
		if to == nil || current == nil {
			return nil
		}
		is := metastore.Lock{Mode: current.Lock.Mode, Until: current.Lock.Until}
		if is.Holds(now) && is.Mode != to.Mode {
			return &metastore.LockedError{Lock: is}
		}
		return nil
	}
}

// getObjectLock returns the retention that new objects get.
func (s *Server) getObjectLock(x *call) error {
	k, err := s.blobs.Keeping(x.Request.Context(), x.account)
	switch {
	case err != nil:
		return err
	case !k.Locks:
		return &refusal{code: "ObjectLockConfigurationNotFoundError", as: wire.CodeBlobNotFound, detail: "the bucket has no locks"}
	}
	return x.writeXML(http.StatusOK, document.ObjectLock(strings.ToUpper(string(k.LockMode)), k.LockFor))
}

// putObjectLock sets the retention that new objects get, in a bucket that keeps versions. It has
// locks from then on.
func (s *Server) putObjectLock(x *call) error {
	body, err := x.readDocument(wire.MaxJSONBody)
	if err != nil {
		return err
	}
	mode, period, err := document.DecodeObjectLock(body)
	if err != nil {
		return err
	}
	return x.done(s.changeKeeping(x, func(now *metastore.Keeping) error {
		switch {
		case now.State != metastore.KeepOn:
			return refuseWith("InvalidBucketState", wire.CodeConflict, "only a bucket with the versioning Enabled can have locks")
		case period > now.MaxLock():
			return refuseWith("InvalidRetentionPeriod", wire.CodeBadRequest, "the operator allows at most %d days", now.MaxLock()/(24*time.Hour))
		}
		now.Locks, now.LockMode, now.LockFor = true, metastore.LockMode(strings.ToLower(mode)), period
		return nil
	}), http.StatusOK)
}

// changeKeeping changes which versions the account keeps, and their locks.
func (s *Server) changeKeeping(x *call, change func(*metastore.Keeping) error) error {
	if s.admin == nil {
		return errNotAdministered
	}
	_, err := s.admin.ChangeKeeping(x.Request.Context(), x.by(), x.account, nil, change)
	return err
}

// wantsLocks reports whether a new bucket shall have locks, for which its creator must administer
// it.
func (s *Server) wantsLocks(x *call) (bool, error) {
	switch {
	case !strings.EqualFold(x.header.Get(fieldBucketLocks), "true"):
		return false, nil
	case s.admin == nil:
		return false, errNotAdministered
	case x.Local:
		return true, nil
	}
	return true, x.GrantMore(access.ScopeAdmin, x.account, "")
}

// enableLocks lets the bucket keep versions and have locks, for ever.
func (s *Server) enableLocks(x *call) error {
	return s.changeKeeping(x, func(now *metastore.Keeping) error {
		now.State, now.Locks = metastore.KeepOn, true
		return nil
	})
}
