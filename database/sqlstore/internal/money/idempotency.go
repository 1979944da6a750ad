package money

import (
	"sluice/database"
	"sluice/database/sqlstore/internal/requests"
)

// once runs do and records its result in the same transaction. If a result is recorded for
// idem already, it returns that and has no effect. Errors are not recorded. With an idem of
// nil nothing is recorded.
func once[T any, O outcome[T]](t tx, idem *database.Idempotency, outcomeOf func(T) O, do func() (T, error)) (T, error) {
	if idem == nil {
		return do()
	}
	var none T
	stored, found, err := requests.Find(t.Tx, idem)
	if err != nil {
		return none, err
	}
	if found {
		return decodeOutcome[T, O](stored)
	}
	out, err := do()
	if err != nil {
		return none, err
	}
	if stored, err = encodeOutcome(outcomeOf(out)); err != nil {
		return none, err
	}
	return out, requests.Record(t.Tx, idem, stored)
}

// returnID returns the row key for a return to a session or channel. It differs from every
// request's row key, because requests' scopes have no zero byte.
func returnID(kind, id, request string) []byte {
	return requests.ID(&database.Idempotency{Scope: "\x00return " + kind + " " + id, Key: request})
}
