// Package money implements ledger.Store on a database.
//
// The operations are in one file for each kind of row: sessions.go, charges.go, channels.go,
// payments.go, readings.go, settlements.go, payout.go, submissions.go; inspection.go reads them.
// use_batcher.go combines concurrent uses of sessions; below it are known_sessions.go,
// session_rows.go and charge_records.go. idempotency.go records the results of calls in the form of
// outcome.go. fold.go folds old sales, with amounts.go for their sums; census.go and audit.go are
// the rest of this room's part in the database's upkeep. The SQL is the same for both engines.
//
// # The tables' invariants
//
//   - An accepted payment has one sale (a unique index), which is inserted with it and kept until
//     it is folded. The rest of the payment is the channel's credit.
//   - An amount that is accepted and not settled is in the channel's one settlement, expired or
//     not, until it is collected or replaced by a newer one.
package money
