package sqlstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"sluice/ledger"
	"sluice/metastore"
)

// once runs do and records its result in the same transaction. If a result is recorded for
// idem already, it returns that and has no effect. Errors are not recorded. With an idem of
// nil nothing is recorded.
func once[T any, O outcome[T]](t moneyTx, idem *ledger.Idempotency, outcomeOf func(T) O, do func() (T, error)) (T, error) {
	if idem == nil {
		return do()
	}
	var none T
	id := idempotencyID(idem)
	if err := t.lock("idempotency", string(id)); err != nil {
		return none, err
	}
	var request, stored []byte
	found, err := t.row(`SELECT request, outcome FROM idempotency WHERE id = $1 AND created > $2`,
		args{id, t.now.Add(-ledger.IdempotencyRetention).UnixMicro()}, &request, &stored)
	if err != nil {
		return none, err
	}
	if found {
		if !bytes.Equal(request, idem.Hash[:]) {
			return none, ledger.ErrIdempotencyReuse
		}
		return decodeOutcome[T, O](stored)
	}
	out, err := do()
	if err != nil {
		return none, err
	}
	if stored, err = encodeOutcome(outcomeOf(out)); err != nil {
		return none, err
	}
	var recorded metastore.Used
	if idem.Owner != "" {
		// An expired row would keep its charge, which the trigger of the deletion subtracts.
		if err := t.change(`DELETE FROM idempotency WHERE id = $1`, id); err != nil {
			return none, err
		}
		recorded.Retained = metastore.RowCharge
		if err := recordUsage(t.tx, delta{idem.Owner, recorded}); err != nil {
			return none, err
		}
	}
	_, err = t.exec(`INSERT INTO idempotency (id, request, outcome, created, owner, charge) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET request = excluded.request, outcome = excluded.outcome, created = excluded.created`,
		id, idem.Hash[:], stored, micros(t.now), optionalColumn(idem.Owner), recorded.Retained)
	return out, err
}

// idempotencyID returns the key of the row of idem: a hash of its scope and key,
// which the length of the scope separates.
func idempotencyID(idem *ledger.Idempotency) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(idem.Scope)))
	b = append(append(b, idem.Scope...), idem.Key...)
	sum := sha256.Sum256(b)
	return sum[:]
}

// returnID returns the key of the row of a return to a session or channel. It
// differs from that of every request, because scopes of requests have no zero byte.
func returnID(kind, id, request string) []byte {
	return idempotencyID(&ledger.Idempotency{Scope: "\x00return " + kind + " " + id, Key: request})
}

// marked reports whether mark was called with this id within the retention.
func (t moneyTx) marked(id []byte) (bool, error) {
	if err := t.lock("idempotency", string(id)); err != nil {
		return false, err
	}
	var one integer
	return t.row(`SELECT 1 FROM idempotency WHERE id = $1 AND created > $2`,
		args{id, t.now.Add(-ledger.IdempotencyRetention).UnixMicro()}, &one)
}

// mark records an effect that has no result to be repeated.
func (t moneyTx) mark(id []byte) error {
	_, err := t.exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $2, $3)
		ON CONFLICT (id) DO UPDATE SET created = excluded.created`, id, []byte{}, micros(t.now))
	return err
}

// PurgeIdempotency deletes the keys whose retention has ended.
func PurgeIdempotency(in *tx, limit int) (int, error) {
	t := moneyTx{in}
	n, err := t.exec(`DELETE FROM idempotency WHERE id IN
		(SELECT i.id FROM idempotency i WHERE i.created <= $1 ORDER BY i.created LIMIT $2)`,
		t.now.Add(-ledger.IdempotencyRetention).UnixMicro(), int64(limit))
	return int(n), err
}
