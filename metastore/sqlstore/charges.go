package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/metastore"
)

// chargeRetention is how long a session keeps a charge that another store or an earlier
// process recorded.
const chargeRetention = metastore.IdempotencyRetention

// chargeRecord is a charge of a session that has taken effect. The records of a session are
// a column of its row, so that a charge needs no statement of its own. Each transaction
// replaces the records of its own store, except those of charges in doubt (pinned), and
// keeps the others for chargeRetention. A charge in doubt can therefore be found for that
// time, regardless of later charges.
//
// The transaction of a charge locks the row of the session. A transaction that looks for the
// charge waits until the former has ended and then sees its outcome.
type chargeRecord struct {
	id    [16]byte // see chargeID
	store [8]byte  // name of the store that made it
	at    int64    // microseconds since 1970
	count int64    // chunksets
}

const chargeRecordSize = 16 + 8 + 8 + 8

// chargeID returns the stored form of the name of a charge.
func chargeID(charge string) [16]byte {
	sum := sha256.Sum256([]byte(charge))
	return [16]byte(sum[:16])
}

func encodeCharges(list []chargeRecord) []byte {
	b := make([]byte, 0, len(list)*chargeRecordSize)
	for _, r := range list {
		b = append(append(b, r.id[:]...), r.store[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(r.at))
		b = binary.BigEndian.AppendUint64(b, uint64(r.count))
	}
	return b
}

func decodeCharges(b []byte) ([]chargeRecord, error) {
	if len(b)%chargeRecordSize != 0 {
		return nil, fmt.Errorf("sqlstore: a session has invalid charges of %d bytes", len(b))
	}
	var list []chargeRecord
	for ; len(b) > 0; b = b[chargeRecordSize:] {
		list = append(list, chargeRecord{
			id: [16]byte(b), store: [8]byte(b[16:]),
			at: int64(binary.BigEndian.Uint64(b[24:])), count: int64(binary.BigEndian.Uint64(b[32:])),
		})
	}
	return list, nil
}

// chargedSession returns a session and its charges, unless its retention has ended.
func (t *tx) chargedSession(id string) (metastore.Session, []chargeRecord, error) {
	var s metastore.Session
	var raw []byte
	found, err := t.row(`SELECT `+sessionColumns+`, charges FROM sessions WHERE id = $1`+t.forUpdate(),
		args{[]byte(id)}, append(sessionFields(&s), &raw)...)
	if err == nil {
		err = t.remembered(s, found)
	}
	if err != nil {
		return metastore.Session{}, nil, err
	}
	charges, err := decodeCharges(raw)
	return s, charges, err
}

// recordCharge writes a use of n chunksets, or a return if n is negative, and the charges of
// the session.
func (t *tx) recordCharge(id string, n int64, charges []chargeRecord) error {
	_, err := t.exec(`UPDATE sessions SET remaining = remaining - $2, used = used + $2, charges = $3 WHERE id = $1`,
		[]byte(id), n, encodeCharges(charges))
	return err
}

// ChargeSession implements metastore.Sessions.
func (s *Store) ChargeSession(ctx context.Context, id string, n int64, charge string) (metastore.Session, error) {
	if n < 1 || charge == "" {
		return metastore.Session{}, errNegative
	}
	return s.uses.use(ctx, id, n, charge)
}

// ReturnCharge implements metastore.Sessions.
func (s *Store) ReturnCharge(ctx context.Context, id string, charge string) (metastore.Session, error) {
	name := chargeID(charge)
	out, err := s.writeSession(ctx, func(t *tx) (metastore.Session, error) {
		out, charges, err := t.chargedSession(id)
		if err != nil {
			return out, err
		}
		i := slices.IndexFunc(charges, func(r chargeRecord) bool { return r.id == name })
		if i < 0 {
			return out, nil
		}
		n := charges[i].count
		if n > out.Used {
			return out, errNotUsed
		}
		out.Left += n
		out.Used -= n
		return out, t.recordCharge(id, -n, slices.Delete(charges, i, i+1))
	})
	if err == nil {
		s.uses.unpin(id, name)
	}
	return out, err
}

// ReturnRead implements metastore.Channels.
func (s *Store) ReturnRead(ctx context.Context, p metastore.Payment, charge string) (metastore.Channel, error) {
	name := chargeID(charge)
	return s.writeChannel(ctx, func(t *tx) (metastore.Channel, error) {
		c, err := t.findChannel(p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
		if err != nil {
			return c, err
		}
		var count, price int64
		sold, err := t.row(`SELECT count, price FROM sales WHERE channel = $1 AND sequence = $2 AND charge = $3`,
			args{[]byte(c.ID), p.Sequence, name[:]}, (*integer)(&count), (*integer)(&price))
		if err != nil || !sold {
			return c, err
		}
		if _, err := t.exec(`UPDATE sales SET charge = NULL WHERE channel = $1 AND sequence = $2`, []byte(c.ID), p.Sequence); err != nil {
			return c, err
		}
		return t.addCredit(c, count, price)
	})
}

// chargesInDoubt are the charges in doubt of a session, with the time since when they are.
type chargesInDoubt map[[16]byte]time.Time

// pin records the charges of uses whose outcome is unknown.
func (u *useBatcher) pin(id string, members []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.store.Now()
	for session, charges := range u.mu.pinned { // remove those that were never returned
		for charge, since := range charges {
			if now.Sub(since) > chargeRetention {
				delete(charges, charge)
			}
		}
		if len(charges) == 0 {
			delete(u.mu.pinned, session)
		}
	}
	for _, m := range members {
		if m.charge == "" {
			continue
		}
		if u.mu.pinned == nil {
			u.mu.pinned = map[string]chargesInDoubt{}
		}
		if u.mu.pinned[id] == nil {
			u.mu.pinned[id] = chargesInDoubt{}
		}
		u.mu.pinned[id][chargeID(m.charge)] = now
	}
}

// unpin removes a charge that is no longer in doubt.
func (u *useBatcher) unpin(id string, charge [16]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.mu.pinned[id], charge)
	if len(u.mu.pinned[id]) == 0 {
		delete(u.mu.pinned, id)
	}
}

// retained returns the charges of a session that remain when this store records new ones.
func (u *useBatcher) retained(id string, charges []chargeRecord, now time.Time) []chargeRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest := now.Add(-chargeRetention).UnixMicro()
	return slices.DeleteFunc(charges, func(r chargeRecord) bool {
		_, doubted := u.mu.pinned[id][r.id]
		return r.at <= oldest || r.store == u.name && !doubted
	})
}

// inDoubt reports whether a transaction that returned err may have taken effect.
func inDoubt(err error) bool { return errors.Is(err, metastore.ErrUnknownOutcome) }
