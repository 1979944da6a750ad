package meta

import (
	"encoding/json"
	"fmt"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// versionMembers are the members in the column version. Times are in microseconds.
type versionMembers struct {
	Versioned bool   `json:"versioned,omitempty"` // the first, as the index blobs_null has it
	Mark      bool   `json:"mark,omitempty"`
	By        string `json:"by,omitempty"`
	Since     *int64 `json:"since,omitempty"`
	Expires   *int64 `json:"expires,omitempty"` // the blob's, if there is Since
	Again     *int64 `json:"again,omitempty"`

	Lock *lockMembers `json:"lock,omitempty"`
	Kept *int64       `json:"kept,omitempty"` // Until, if there are Since and Lock
}

// lockMembers are a lock's. Until is by the clock of locks.
type lockMembers struct {
	Mode  metastore.LockMode `json:"mode,omitempty"`
	Until int64              `json:"until,omitempty"`
	Hold  bool               `json:"hold,omitempty"`
}

// onlyVersioned is the column version of most current blobs. Package json would take longer.
const onlyVersioned = `{"versioned":true}`

// versionColumn scans the column version into a blob. The column expires must have been scanned: if
// the blob is not current, it is when that goes.
type versionColumn metastore.Blob

// Scan implements sql.Scanner.
func (b *versionColumn) Scan(src any) error {
	b.By, b.Versioned, b.Mark, b.Since, b.Until, b.Again, b.Lock = "", false, false, time.Time{}, time.Time{}, time.Time{}, metastore.Lock{}
	if src == nil {
		return nil
	}
	text, ok := src.([]byte)
	if !ok {
		return fmt.Errorf("%T is not a version", src)
	}
	if string(text) == onlyVersioned {
		b.Versioned = true
		return nil
	}
	var m versionMembers
	if err := json.Unmarshal(text, &m); err != nil {
		return engine.DamagedRow("the column version of a blob is not in JSON: %v", err)
	}
	b.By, b.Versioned, b.Mark = m.By, m.Versioned, m.Mark
	if m.Since != nil {
		b.Since, b.Until, b.Expires = time.UnixMicro(*m.Since).UTC(), b.Expires, time.Time{}
	}
	if m.Expires != nil {
		b.Expires = time.UnixMicro(*m.Expires).UTC()
	}
	if m.Again != nil {
		b.Again = time.UnixMicro(*m.Again).UTC()
	}
	if l := m.Lock; l != nil {
		if b.Lock = (metastore.Lock{Mode: l.Mode, Hold: l.Hold}); l.Mode != metastore.LockNone {
			b.Lock.Until = time.UnixMicro(l.Until).UTC()
		}
		if b.Until = (time.Time{}); m.Kept != nil {
			b.Until = time.UnixMicro(*m.Kept).UTC()
		}
	}
	return nil
}

// hasMembers reports whether a blob's column version is not NULL.
func hasMembers(b *metastore.Blob) bool {
	return b.By != "" || b.Versioned || !b.Since.IsZero() || !b.Again.IsZero() || b.Lock != (metastore.Lock{})
}

// versionOf returns a blob's column version.
func versionOf(b *metastore.Blob) (any, error) {
	if !hasMembers(b) {
		return nil, nil
	}
	m := versionMembers{Versioned: b.Versioned, Mark: b.Mark, By: b.By}
	if m == (versionMembers{Versioned: true}) && b.Again.IsZero() && b.Lock == (metastore.Lock{}) {
		if b.Since.IsZero() {
			return []byte(onlyVersioned), nil
		} else if b.Expires.IsZero() {
			return fmt.Appendf(nil, `{"versioned":true,"since":%d}`, b.Since.UnixMicro()), nil
		}
	}
	if !b.Since.IsZero() {
		since, expires := b.Since.UnixMicro(), b.Expires.UnixMicro()
		if m.Since = &since; !b.Expires.IsZero() {
			m.Expires = &expires
		}
	}
	if again := b.Again.UnixMicro(); !b.Again.IsZero() {
		m.Again = &again
	}
	if l := b.Lock; l != (metastore.Lock{}) {
		m.Lock = &lockMembers{Mode: l.Mode, Hold: l.Hold}
		if l.Mode != metastore.LockNone {
			m.Lock.Until = l.Until.UnixMicro()
		}
		if until := b.Until.UnixMicro(); !b.Until.IsZero() {
			m.Kept = &until
		}
	}
	return json.Marshal(m)
}

// expiresOf returns a blob's column expires.
func expiresOf(b *metastore.Blob) any {
	switch {
	case b.Since.IsZero():
		return engine.Micros(b.Expires)
	case b.Lock.Hold:
		return nil
	case b.Lock.Mode != metastore.LockNone:
		return lockedUntil + b.Lock.Until.UnixMicro()
	}
	return engine.Micros(b.Until)
}
