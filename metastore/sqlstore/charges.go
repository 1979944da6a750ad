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

// chargeMemory is how long a session keeps a charge that another store, or an
// earlier process, has recorded in it.
const chargeRetention = metastore.IdempotencyRetention

// chargeRecord is a charge of a session that took effect. The records of a
// session are a column of its row, so that a charge costs no statement of its
// own. Each transaction replaces the records of its own store, but for those of
// charges that are in doubt (uses.pinned), and keeps the others for
// chargeMemory: a charge in doubt is found for as long, whatever was charged
// since.
//
// Whether a charge is in doubt or not, the transaction that makes it has locked
// the row before; one that looks for it waits until that has ended, and finds
// the truth.
type chargeRecord struct {
	id    [16]byte // see chargeID
	store [8]byte  // by which it was made
	at    int64    // microseconds
	count int64    // chunksets
}

const chargeRecordSize = 16 + 8 + 8 + 8

// chargeID makes the name of a charge short.
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
		return nil, fmt.Errorf("sqlstore: the charges of a session have %d bytes", len(b))
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

// chargedSession finds a session that is remembered, with its charges.
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

// recordCharge writes what take took, or takes it back where n is negative, and
// the charges of the session as they are now.
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

// pinned are the charges in doubt of one session, since when.
type chargesInDoubt map[[16]byte]time.Time

// pin keeps the charges of uses whose outcome is not known.
func (u *useBatcher) pin(id string, members []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.store.Now()
	for session, charges := range u.mu.pinned { // what nobody asked for
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

// unpin forgets a charge that is not in doubt any more.
func (u *useBatcher) unpin(id string, charge [16]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.mu.pinned[id], charge)
	if len(u.mu.pinned[id]) == 0 {
		delete(u.mu.pinned, id)
	}
}

// keep returns those of the charges of a session that stay when others of this
// store take their place.
func (u *useBatcher) retained(id string, charges []chargeRecord, now time.Time) []chargeRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest := now.Add(-chargeRetention).UnixMicro()
	return slices.DeleteFunc(charges, func(r chargeRecord) bool {
		_, doubted := u.mu.pinned[id][r.id]
		return r.at <= oldest || r.store == u.name && !doubted
	})
}

// inDoubt reports whether the uses of a transaction that ended with err may have
// taken effect.
func inDoubt(err error) bool { return errors.Is(err, metastore.ErrUnknownOutcome) }
