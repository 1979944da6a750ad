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
}

// versionColumn scans the column version into a blob. The column expires must have been scanned: if
// the blob is not current, it is when that goes.
type versionColumn metastore.Blob

// Scan implements sql.Scanner.
func (b *versionColumn) Scan(src any) error {
	b.By, b.Versioned, b.Mark, b.Since, b.Until, b.Again = "", false, false, time.Time{}, time.Time{}, time.Time{}
	if src == nil {
		return nil
	}
	text, ok := src.([]byte)
	if !ok {
		return fmt.Errorf("%T is not a version", src)
	}
	var m versionMembers
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("sqlstore: version: %w", err)
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
	return nil
}

// versionOf returns a blob's column version.
func versionOf(b *metastore.Blob) (any, error) {
	if b.By == "" && !b.Versioned && b.Since.IsZero() && b.Again.IsZero() {
		return nil, nil
	}
	m := versionMembers{Versioned: b.Versioned, Mark: b.Mark, By: b.By}
	if !b.Since.IsZero() {
		since, expires := b.Since.UnixMicro(), b.Expires.UnixMicro()
		if m.Since = &since; !b.Expires.IsZero() {
			m.Expires = &expires
		}
	}
	if again := b.Again.UnixMicro(); !b.Again.IsZero() {
		m.Again = &again
	}
	return json.Marshal(m)
}

// expiresOf returns a blob's column expires.
func expiresOf(b *metastore.Blob) any {
	if b.Since.IsZero() {
		return engine.Micros(b.Expires)
	}
	return engine.Micros(b.Until)
}

// shown returns a stored version with the blob's account and name.
func shown(b metastore.Blob) metastore.Blob {
	if of, _, ok := metastore.KeptBlob(b.Account, b.Name); ok {
		b.Account, b.Name = of.Account, of.Name
	}
	return b
}
