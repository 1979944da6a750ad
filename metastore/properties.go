package metastore

import "context"

// Properties are what the instance knows of itself.
type Properties interface {
	// Fact gives a stored fact, or ErrNotFound.
	Property(ctx context.Context, name string) (string, error)

	// SetProperty stores a fact that is not there yet. ErrExists otherwise.
	SetProperty(ctx context.Context, name, value string) error

	// ReplaceProperty stores another value of a fact whose value is old. ErrNotFound
	// when there is no such fact or it has another value: of several calls at
	// once that replace the same value with different ones, one succeeds.
	ReplaceProperty(ctx context.Context, name, old, value string) error

	// Empty reports whether nothing is stored but facts and keys: no blob,
	// upload, session, channel or garbage.
	Empty(ctx context.Context) (bool, error)
}
