package requests

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
)

// Find returns the outcome that was recorded for idem, and whether there is one. Until the
// transaction ends, no other one finds or records an outcome for the same scope and key.
func Find(t *engine.Tx, idem *database.Idempotency) (outcome []byte, found bool, err error) {
	id := ID(idem)
	if err := t.Lock("idempotency", string(id)); err != nil {
		return nil, false, err
	}
	var request []byte
	found, err = t.Row(`SELECT request, outcome FROM idempotency WHERE id = $1 AND created > $2`,
		engine.Args{id, t.Forgotten(database.IdempotencyRetention).UnixMicro()}, &request, &outcome)
	if err != nil || !found {
		return nil, false, err
	}
	if !bytes.Equal(request, idem.Hash[:]) {
		return nil, false, database.ErrIdempotencyReuse
	}
	return outcome, true, nil
}

// Record records an outcome, for which Find has found none in this transaction.
func Record(t *engine.Tx, idem *database.Idempotency, outcome []byte) error {
	id := ID(idem)
	var recorded usage.Delta
	if idem.Owner != "" {
		// An expired row would keep its charge: the deletion's trigger subtracts it.
		if err := t.Change(`DELETE FROM idempotency WHERE id = $1`, id); err != nil {
			return err
		}
		recorded = usage.Row(idem.Owner)
		if err := usage.Record(t, recorded); err != nil {
			return err
		}
	}
	_, err := t.Exec(`INSERT INTO idempotency (id, request, outcome, created, owner, charge) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET request = excluded.request, outcome = excluded.outcome, created = excluded.created`,
		id, idem.Hash[:], outcome, engine.Micros(t.Now), engine.OptionalColumn(idem.Owner), recorded.Retained)
	return err
}

// ID returns idem's row key: a hash of its scope and key, separated by the scope's length.
func ID(idem *database.Idempotency) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(idem.Scope)))
	b = append(append(b, idem.Scope...), idem.Key...)
	sum := sha256.Sum256(b)
	return sum[:]
}

// Marked reports whether Mark was called with this id within the retention.
func Marked(t *engine.Tx, id []byte) (bool, error) {
	if err := t.Lock("idempotency", string(id)); err != nil {
		return false, err
	}
	var one engine.Integer
	return t.Row(`SELECT 1 FROM idempotency WHERE id = $1 AND created > $2`,
		engine.Args{id, t.Forgotten(database.IdempotencyRetention).UnixMicro()}, &one)
}

// Mark records an effect that has no result to be repeated.
func Mark(t *engine.Tx, id []byte) error {
	_, err := t.Exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $2, $3)
		ON CONFLICT (id) DO UPDATE SET created = excluded.created`, id, []byte{}, engine.Micros(t.Now))
	return err
}

// Purge deletes rows after the end of their retention.
func Purge(t *engine.Tx, limit int) (int, error) {
	n, err := t.Exec(`DELETE FROM idempotency WHERE id IN
		(SELECT i.id FROM idempotency i WHERE i.created <= $1 ORDER BY i.created LIMIT $2)`,
		t.Now.Add(-database.IdempotencyRetention).UnixMicro(), int64(limit))
	return int(n), err
}
