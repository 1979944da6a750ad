package metastore

import "context"

// Facts are what the instance knows of itself.
type Facts interface {
	// Fact gives a stored fact, or ErrNotFound.
	Fact(ctx context.Context, name string) (string, error)

	// SetFact stores a fact that is not there yet. ErrExists otherwise.
	SetFact(ctx context.Context, name, value string) error

	// ReplaceFact stores another value of a fact whose value is old. ErrNotFound
	// when there is no such fact or it has another value: of several calls at
	// once that replace the same value with different ones, one succeeds.
	ReplaceFact(ctx context.Context, name, old, value string) error

	// Empty reports whether nothing is stored but facts and keys: no blob,
	// upload, session, channel or garbage.
	Empty(ctx context.Context) (bool, error)
}
