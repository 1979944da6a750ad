package money

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// chargeRetention is how long a session keeps a charge that another store or an earlier
// process recorded.
const chargeRetention = database.IdempotencyRetention

// chargeRecord is a session's charge that has taken effect. A session's records are a column of its
// row, so that a charge needs no statement of its own. Each transaction replaces its own store's
// records, except for charges in doubt, and keeps the rest for chargeRetention. A charge in doubt
// can therefore be found for that time, regardless of later charges.
//
// A charge's transaction locks the session's row. A transaction that looks for the charge waits
// until the former has ended and then sees its outcome.
type chargeRecord struct {
	id    [16]byte // see chargeID
	store [8]byte  // the name of the store that made it
	at    int64    // microseconds since 1970
	count int64    // chunksets
}

const chargeRecordSize = 16 + 8 + 8 + 8

// chargeID returns the stored form of a charge's name.
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
func (t tx) chargedSession(id string) (ledger.Session, []chargeRecord, error) {
	var s ledger.Session
	var raw []byte
	var sum engine.StoredSum
	found, err := t.Row(`SELECT `+sessionColumns+`, charges, row_sum FROM sessions WHERE id = $1`+t.ForUpdate(),
		engine.Args{[]byte(id)}, append(sessionFields(&s), &raw, &sum)...)
	if err == nil && found {
		err = checkSum(&s, sum)
	}
	if err == nil {
		err = t.remembered(id, s, found)
	}
	if err != nil {
		return ledger.Session{}, nil, err
	}
	charges, err := decodeCharges(raw)
	return s, charges, err
}

// recordCharge writes a use of n chunksets, or a return if n is negative, and the session's
// charges.
func (t tx) recordCharge(id string, n int64, charges []chargeRecord) error {
	return t.Change(`UPDATE sessions SET remaining = remaining - $2, used = used + $2, charges = $3 WHERE id = $1`,
		[]byte(id), n, encodeCharges(charges))
}

// chargesInDoubt are a store's charges with an unknown outcome. The zero value has none. Its
// methods may be called concurrently.
type chargesInDoubt struct {
	mu    sync.Mutex
	since map[string]map[[16]byte]time.Duration // the elapsed time when each charge was added, by session
}

// add adds a session's charge at an elapsed time, and removes all charges that were added more than
// chargeRetention before. A clock that is set removes none.
func (d *chargesInDoubt) add(id string, charge [16]byte, elapsed time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for session, since := range d.since {
		maps.DeleteFunc(since, func(_ [16]byte, at time.Duration) bool { return elapsed-at > chargeRetention })
		if len(since) == 0 {
			delete(d.since, session)
		}
	}
	if d.since == nil {
		d.since = map[string]map[[16]byte]time.Duration{}
	}
	if d.since[id] == nil {
		d.since[strings.Clone(id)] = map[[16]byte]time.Duration{} // the id may be part of a request
	}
	d.since[id][charge] = elapsed
}

// remove removes a charge that is no longer in doubt.
func (d *chargesInDoubt) remove(id string, charge [16]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since[id], charge)
	if len(d.since[id]) == 0 {
		delete(d.since, id)
	}
}

// retained returns a session's charges that remain when a store records new ones: not its own that
// are not in doubt, and none from forgotten or before.
func (d *chargesInDoubt) retained(id string, charges []chargeRecord, store [8]byte, forgotten time.Time) []chargeRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(charges, func(r chargeRecord) bool {
		_, doubted := d.since[id][r.id]
		return r.at <= forgotten.UnixMicro() || r.store == store && !doubted
	})
}

// inDoubt reports whether a transaction that returned err may have taken effect.
func inDoubt(err error) bool { return errors.Is(err, database.ErrUnknownOutcome) }
