package database

import "context"

// Properties stores name/value pairs about the instance.
type Properties interface {
	// Property returns a property's value, or ErrNotFound.
	Property(ctx context.Context, name string) (string, error)

	// SetProperty stores a new property. It returns ErrExists if the property exists.
	SetProperty(ctx context.Context, name, value string) error

	// ReplaceProperty replaces a property's value old. It returns ErrNotFound if the property does
	// not exist or has another value: if concurrent calls replace the same value by different ones,
	// one succeeds.
	ReplaceProperty(ctx context.Context, name, old, value string) error

	// Empty reports whether nothing is stored except properties and keys: no blob, upload,
	// session, channel or garbage.
	Empty(ctx context.Context) (bool, error)
}
