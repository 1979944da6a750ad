package engine

import "context"

// Scope runs functions in transactions of a caller's own type, by the methods of DB with the same
// names.
type Scope[X any] struct {
	db *DB
	of func(*Tx) X
}

// NewScope returns a Scope over a database. of returns the caller's transaction.
func NewScope[X any](db *DB, of func(*Tx) X) Scope[X] { return Scope[X]{db, of} }

// On returns fn as a function that a DB runs.
func (s Scope[X]) On(fn func(X) error) func(*Tx) error {
	return func(t *Tx) error { return fn(s.of(t)) }
}

// Read is DB.Read.
func (s Scope[X]) Read(ctx context.Context, fn func(X) error) error { return s.db.Read(ctx, s.On(fn)) }

// ReadList is DB.ReadList.
func (s Scope[X]) ReadList(ctx context.Context, fn func(X) error) error {
	return s.db.ReadList(ctx, s.On(fn))
}

// Snapshot is DB.Snapshot.
func (s Scope[X]) Snapshot(ctx context.Context, fn func(X) error) error {
	return s.db.Snapshot(ctx, s.On(fn))
}

// SnapshotList is DB.SnapshotList.
func (s Scope[X]) SnapshotList(ctx context.Context, fn func(X) error) error {
	return s.db.SnapshotList(ctx, s.On(fn))
}

// Write is DB.Write.
func (s Scope[X]) Write(ctx context.Context, fn func(X) error) error {
	return s.db.Write(ctx, s.On(fn))
}

// WriteForDeletion is DB.WriteForDeletion.
func (s Scope[X]) WriteForDeletion(ctx context.Context, fn func(X) error) error {
	return s.db.WriteForDeletion(ctx, s.On(fn))
}

// WriteLocked is DB.WriteLocked.
func (s Scope[X]) WriteLocked(ctx context.Context, fn func(X) error) error {
	return s.db.WriteLocked(ctx, s.On(fn))
}

// WriteLockedForDeletion is DB.WriteLockedForDeletion.
func (s Scope[X]) WriteLockedForDeletion(ctx context.Context, fn func(X) error) error {
	return s.db.WriteLockedForDeletion(ctx, s.On(fn))
}
