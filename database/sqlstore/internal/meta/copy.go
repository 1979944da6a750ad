package meta

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// end is the source or the destination of a copy or a move. It stays as it is until the transaction
// ends.
type end struct {
	storedBlob
	found bool // whether there is a row
	live  bool // whether it has not expired
}

func (t tx) lockEnd(n metastore.BlobName) (end, error) {
	b, found, err := t.lockBlob(n.Account, n.Name)
	return end{b, found, found && !expired(b.Expires, t.Now)}, err
}

// lockEnds locks the two blobs in one order, whichever is the source. They are equal if they have
// one name.
func (t tx) lockEnds(from, to metastore.BlobName) (source, destination end, err error) {
	if from == to {
		source, err = t.lockEnd(from)
		return source, source, err
	}
	locks := []func() error{
		func() (err error) { source, err = t.lockEnd(from); return err },
		func() (err error) { destination, err = t.lockEnd(to); return err },
	}
	if cmp.Or(strings.Compare(from.Account, to.Account), strings.Compare(from.Name, to.Name)) > 0 {
		slices.Reverse(locks)
	}
	for _, lock := range locks {
		if err := lock(); err != nil {
			return end{}, end{}, err
		}
	}
	return source, destination, nil
}

// checkEnds returns ErrNoSource or a precondition's error.
func (t tx) checkEnds(source, destination end, onSource, onDestination metastore.Precondition) error {
	switch {
	case !source.found:
		return fmt.Errorf("%w: %w", metastore.ErrNoSource, database.ErrNotFound)
	case !source.live:
		return fmt.Errorf("%w: %w", metastore.ErrNoSource, database.ErrExpired)
	}
	if err := t.evaluate(onSource, &source.storedBlob, true); err != nil {
		return err
	}
	return t.evaluate(onDestination, &destination.storedBlob, destination.live)
}

// CopyBlob implements metastore.Blobs.
func (s *Metastore) CopyBlob(ctx context.Context, c metastore.Copy) (metastore.Blob, error) {
	c.To.Expires = engine.Truncate(c.To.Expires)
	if c.FromVersion != nil {
		c.From = c.FromVersion.BlobName
	}
	var b storedBlob
	err := s.in.WriteLocked(ctx, func(t tx) error {
		if expired(c.To.Expires, t.Now) {
			return fmt.Errorf("copy: %w", database.ErrExpired)
		}
		source, old, err := t.lockEnds(c.From, blobName(c.To))
		if err == nil && c.FromVersion != nil {
			source, err = t.versionEnd(source, *c.FromVersion)
		}
		if err != nil {
			return err
		}
		if err := t.checkEnds(source, old, c.Source, c.Precondition); err != nil {
			return err
		}
		if err := t.spares(c.Precondition, old.storedBlob, old.found, c.To.Expires); err != nil {
			return err
		}
		if err := acts.Record(t.Tx, c.Act); err != nil {
			return err
		}
		b = source.storedBlob
		if c.Restated {
			b.ContentType, b.Metadata = c.To.ContentType, c.To.Metadata
		}
		if c.KeepDate && !source.Since.IsZero() && c.From == blobName(c.To) {
			return t.restate(&b, source)
		}
		b.Account, b.Name, b.Owner, b.Expires = c.To.Account, c.To.Name, c.To.Owner, c.To.Expires
		b.Since, b.Until = time.Time{}, time.Time{}
		if c.KeepDate && source.Account == b.Account && source.Name == b.Name {
			return t.restate(&b, source)
		}
		b.By, b.Lock = c.To.By, c.To.Lock
		if c.Restores && old.live && c.To.Lock == (metastore.Lock{}) {
			same, err := t.sameCopy(&b, &old.storedBlob)
			if same {
				b = old.storedBlob
			}
			if same || err != nil {
				return err
			}
		}
		kind := metastore.ChangeCopied
		if c.Restores {
			kind = metastore.ChangeRestored
		}
		return t.writeCopy(&b, source, old, kind)
	})
	if err != nil {
		return metastore.Blob{}, err
	}
	return shown(b.Blob, s.db), nil
}

// sameCopy reports whether old has the bytes of b, as the same content or in the database, and all
// that a writer states.
func (t tx) sameCopy(b, old *storedBlob) (bool, error) {
	if b.Size != old.Size || b.CRC64 != old.CRC64 || b.PartSize != old.PartSize || !bytes.Equal(b.SHA256, old.SHA256) ||
		b.ContentType != old.ContentType || b.Metadata != old.Metadata || b.Owner != old.Owner || !b.Expires.Equal(old.Expires) {
		return false, nil
	}
	if b.Content == old.Content || b.Size == 0 {
		return true, nil
	}
	var one engine.Integer
	return t.Row(`SELECT 1 FROM bodies x, bodies y WHERE x.content = $1 AND x.part = 0 AND x.off = 0 AND y.content = $2 AND y.part = 0 AND y.off = 0
		AND x.body = y.body AND length(x.body) = CAST($3 AS BIGINT)`, engine.Args{b.Content[:], old.Content[:], b.Size}, &one)
}

func blobName(b metastore.Blob) metastore.BlobName {
	return metastore.BlobName{Account: b.Account, Name: b.Name}
}

// restate writes b over the row of source, which has the same content and date.
func (t tx) restate(b *storedBlob, source end) error {
	if err := usage.Record(t.Tx, blobUsage(b.Blob), blobUsage(source.Blob).Negated()); err != nil {
		return err
	}
	t.changed(metastore.ChangeProperties, &b.Blob)
	return t.updateBlob(b)
}

// writeCopy writes the row of b, a copy of source that replaces old.
func (t tx) writeCopy(b *storedBlob, source, old end, kind metastore.ChangeKind) (err error) {
	if old.found && old.Content == source.Content && !old.rule.keeps(&old.Blob) { // the references stay as they are
		err = usage.Record(t.Tx, blobUsage(b.Blob), blobUsage(old.Blob).Negated())
	} else {
		if err = t.lockShares(source, old); err == nil {
			b.Content, b.shared, err = t.share(source.storedBlob)
		}
		if old.Content == b.Content {
			old.shared = b.shared // the row that is kept has it
		}
		if err == nil { // after the content is shared, since that may remove the source's version
			_, err = t.giveUp(old.storedBlob, old.found, blobUsage(b.Blob))
		}
	}
	if err != nil {
		return err
	}
	return t.writeBlob(b, old.storedBlob, old.found, kind)
}

// MoveBlob implements metastore.Blobs.
func (s *Metastore) MoveBlob(ctx context.Context, m metastore.Move) (metastore.Blob, error) {
	var b metastore.Blob
	err := s.in.WriteLocked(ctx, func(t tx) (err error) {
		b, err = t.moveOnce(m)
		return err
	})
	if err != nil {
		return metastore.Blob{}, err
	}
	return b, nil
}

// moveOnce is move, unless the result of m.Once is recorded.
func (t tx) moveOnce(m metastore.Move) (metastore.Blob, error) {
	if m.Once == nil {
		return t.move(m)
	}
	outcome, found, err := requests.Find(t.Tx, m.Once)
	if err != nil {
		return metastore.Blob{}, err
	}
	if found {
		return decodeMoved(outcome, m.To)
	}
	if m.NoRecord != nil {
		return metastore.Blob{}, m.NoRecord
	}
	b, err := t.move(m)
	if err != nil {
		return metastore.Blob{}, err
	}
	if outcome, err = encodeMoved(b); err != nil {
		return metastore.Blob{}, err
	}
	return b, requests.Record(t.Tx, m.Once, outcome)
}

func (t tx) move(m metastore.Move) (metastore.Blob, error) {
	source, old, err := t.lockEnds(m.From, m.To)
	if err != nil {
		return metastore.Blob{}, err
	}
	if !source.live && old.live && m.Made != nil && m.Made(&old.Blob) {
		return shown(old.Blob, t), nil
	}
	if err := t.checkEnds(source, old, m.Source, m.Precondition); err != nil || m.From == m.To {
		return shown(source.Blob, t), err
	}
	if err := t.spares(m.Precondition, old.storedBlob, old.found, source.Expires); err != nil {
		return metastore.Blob{}, err
	}
	b, away := source.storedBlob, source.storedBlob
	if away.rule.keeps(&away.Blob) {
		if err = t.lockShares(source, old); err == nil {
			b.Content, b.shared, err = t.share(away)
		}
		if err != nil {
			return metastore.Blob{}, err
		}
		away.shared = b.shared
	}
	b.Account, b.Name, b.Owner, b.By, b.Lock = m.To.Account, m.To.Name, m.Owner, m.By, m.Lock
	deltas, err := t.leave(away, m.By)
	if err != nil {
		return metastore.Blob{}, err
	}
	t.changed(metastore.ChangeMovedFrom, &away.Blob)
	// Unless it is kept, the moved blob's reference stays. If both have the same content, it loses
	// the other reference.
	if _, err := t.giveUp(old.storedBlob, old.found, append(deltas, blobUsage(b.Blob))...); err != nil {
		return metastore.Blob{}, err
	}
	if err := t.writeBlob(&b, old.storedBlob, old.found, metastore.ChangeMovedTo); err != nil {
		return metastore.Blob{}, err
	}
	return shown(b.Blob, t), nil
}

// movedOutcome is the recorded result of MoveBlob, in JSON. Its fields are a metastore.Blob's.
// Members are added and never changed, because processes of several versions may share a database.
type movedOutcome struct {
	Account      string              `json:"-"`
	Name         string              `json:"-"`
	Content      metastore.ContentID `json:"content"`
	Size         int64               `json:"size"`
	CRC64        uint64              `json:"crc64"`
	PartSize     int64               `json:"partSize,omitempty"`
	SHA256       []byte              `json:"sha256,omitempty"`
	ContentType  string              `json:"-"`
	Metadata     string              `json:"-"`
	Owner        string              `json:"owner,omitempty"`
	Modified     time.Time           `json:"modified"`
	SharedSecond bool                `json:"sharedSecond,omitempty"`
	Expires      time.Time           `json:"expires,omitzero"`
	By           string              `json:"by,omitempty"`
	Versioned    bool                `json:"versioned,omitempty"`
	Mark         bool                `json:"-"`
	Since        time.Time           `json:"-"`
	Until        time.Time           `json:"-"`
	Again        time.Time           `json:"-"`
	Lock         metastore.Lock      `json:"-"`
}

func encodeMoved(b metastore.Blob) ([]byte, error) {
	text, err := json.Marshal(movedOutcome(b))
	if err != nil {
		return nil, fmt.Errorf("sqlstore: outcome: %w", err)
	}
	return text, nil
}

// decodeMoved returns the recorded result of a move to a name.
func decodeMoved(text []byte, to metastore.BlobName) (metastore.Blob, error) {
	o := movedOutcome{Account: to.Account, Name: to.Name}
	if err := json.Unmarshal(text, &o); err != nil {
		return metastore.Blob{}, fmt.Errorf("sqlstore: recorded outcome: %w", err)
	}
	return metastore.Blob(o), nil
}
