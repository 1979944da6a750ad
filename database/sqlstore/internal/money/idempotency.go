package money

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/ledger"
)

// once runs do and records its result in the same transaction. If a result is recorded for
// idem already, it returns that and has no effect. Errors are not recorded. With an idem of
// nil nothing is recorded.
func once[T any, O outcome[T]](t tx, idem *ledger.Idempotency, outcomeOf func(T) O, do func() (T, error)) (T, error) {
	if idem == nil {
		return do()
	}
	var none T
	id := idempotencyID(idem)
	if err := t.Lock("idempotency", string(id)); err != nil {
		return none, err
	}
	var request, stored []byte
	found, err := t.Row(`SELECT request, outcome FROM idempotency WHERE id = $1 AND created > $2`,
		engine.Args{id, t.Now.Add(-ledger.IdempotencyRetention).UnixMicro()}, &request, &stored)
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
	var recorded usage.Delta
	if idem.Owner != "" {
		// An expired row would keep its charge: the deletion's trigger subtracts it.
		if err := t.Change(`DELETE FROM idempotency WHERE id = $1`, id); err != nil {
			return none, err
		}
		recorded = usage.Row(idem.Owner)
		if err := usage.Record(t.Tx, recorded); err != nil {
			return none, err
		}
	}
	_, err = t.Exec(`INSERT INTO idempotency (id, request, outcome, created, owner, charge) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET request = excluded.request, outcome = excluded.outcome, created = excluded.created`,
		id, idem.Hash[:], stored, engine.Micros(t.Now), engine.OptionalColumn(idem.Owner), recorded.Retained)
	return out, err
}

// idempotencyID returns idem's row key: a hash of its scope and key, separated by the scope's
// length.
func idempotencyID(idem *ledger.Idempotency) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(idem.Scope)))
	b = append(append(b, idem.Scope...), idem.Key...)
	sum := sha256.Sum256(b)
	return sum[:]
}

// returnID returns the row key for a return to a session or channel. It differs from every
// request's row key, because requests' scopes have no zero byte.
func returnID(kind, id, request string) []byte {
	return idempotencyID(&ledger.Idempotency{Scope: "\x00return " + kind + " " + id, Key: request})
}

// marked reports whether mark was called with this id within the retention.
func (t tx) marked(id []byte) (bool, error) {
	if err := t.Lock("idempotency", string(id)); err != nil {
		return false, err
	}
	var one engine.Integer
	return t.Row(`SELECT 1 FROM idempotency WHERE id = $1 AND created > $2`,
		engine.Args{id, t.Now.Add(-ledger.IdempotencyRetention).UnixMicro()}, &one)
}

// mark records an effect that has no result to be repeated.
func (t tx) mark(id []byte) error {
	_, err := t.Exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $2, $3)
		ON CONFLICT (id) DO UPDATE SET created = excluded.created`, id, []byte{}, engine.Micros(t.Now))
	return err
}

// PurgeIdempotency deletes keys after the end of their retention.
func PurgeIdempotency(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	n, err := t.Exec(`DELETE FROM idempotency WHERE id IN
		(SELECT i.id FROM idempotency i WHERE i.created <= $1 ORDER BY i.created LIMIT $2)`,
		t.Now.Add(-ledger.IdempotencyRetention).UnixMicro(), int64(limit))
	return int(n), err
}
