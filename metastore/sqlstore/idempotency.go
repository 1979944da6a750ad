package sqlstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"sluice/metastore"
)

// once runs do and remembers its result, in the same transaction; or, when
// idem was remembered before, returns that result and has no effect. An error
// is not remembered.
func once[T any](t *tx, idem *metastore.Idempotency, do func() (T, error)) (T, error) {
	var zero, out T
	if idem == nil {
		return do()
	}
	id := idempotencyID(idem)
	if err := t.lock("idempotency", string(id)); err != nil {
		return zero, err
	}
	var request, outcome []byte
	found, err := t.row(`SELECT request, outcome FROM idempotency WHERE id = $1 AND created > $2`,
		args{id, t.now.Add(-metastore.IdempotencyRetention).UnixMicro()}, &request, &outcome)
	if err != nil {
		return zero, err
	}
	if found {
		if !bytes.Equal(request, idem.Hash[:]) {
			return zero, metastore.ErrIdempotencyReuse
		}
		if err := json.Unmarshal(outcome, &out); err != nil {
			return zero, fmt.Errorf("sqlstore: remembered outcome: %w", err)
		}
		return out, nil
	}
	if out, err = do(); err != nil {
		return zero, err
	}
	if outcome, err = json.Marshal(out); err != nil {
		return zero, fmt.Errorf("sqlstore: outcome: %w", err)
	}
	_, err = t.exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET request = excluded.request, outcome = excluded.outcome, created = excluded.created`,
		id, idem.Hash[:], outcome, micros(t.now))
	return out, err
}

// idempotencyID hashes scope and key; the length keeps them apart.
func idempotencyID(idem *metastore.Idempotency) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(idem.Scope)))
	b = append(append(b, idem.Scope...), idem.Key...)
	sum := sha256.Sum256(b)
	return sum[:]
}

// returnID names one return to a session or channel. The scope cannot be that
// of a request: those are made of visible characters.
func returnID(kind, id, request string) []byte {
	return idempotencyID(&metastore.Idempotency{Scope: "\x00return " + kind + " " + id, Key: request})
}

// marked reports whether mark was called with this id within the memory.
func (t *tx) marked(id []byte) (bool, error) {
	if err := t.lock("idempotency", string(id)); err != nil {
		return false, err
	}
	var one integer
	return t.row(`SELECT 1 FROM idempotency WHERE id = $1 AND created > $2`,
		args{id, t.now.Add(-metastore.IdempotencyRetention).UnixMicro()}, &one)
}

// mark remembers that something was done that has no outcome to be repeated.
func (t *tx) mark(id []byte) error {
	_, err := t.exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $2, $3)
		ON CONFLICT (id) DO UPDATE SET created = excluded.created`, id, []byte{}, micros(t.now))
	return err
}
