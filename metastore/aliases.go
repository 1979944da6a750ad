package metastore

import (
	"context"
	"errors"

	"sluice/access/actions"
)

// MaxAliases is the greatest number of aliases that an instance has: every node keeps all in
// memory.
const MaxAliases = 10_000

var (
	// ErrNameHasBlobs means that an alias cannot have a name, because an account with that name, or
	// its account of markers, has blobs.
	ErrNameHasBlobs = errors.New("metastore: an account with this name has blobs")
	// ErrTooManyAliases means that there are MaxAliases.
	ErrTooManyAliases = errors.New("metastore: there are too many aliases")
)

// Alias is another name for an account, for interfaces that cannot have its own. The store does not
// interpret the names.
type Alias struct {
	Name    string
	Account string
}

// Aliases stores the aliases.
type Aliases interface {
	// SetAlias stores a new alias, and records the act. Repeated, it has no effect. It returns
	// ErrExists if the name is another account's alias, ErrNameHasBlobs, ErrTooManyAliases, or
	// actions.ErrStale.
	SetAlias(ctx context.Context, a Alias, act *actions.Act) error

	// DeleteAlias removes an alias, and records the act, which act returns for the alias's account.
	// act may be nil, and is called within the transaction, possibly several times. DeleteAlias
	// returns ErrNotFound if there is no alias, act's error, or actions.ErrStale.
	DeleteAlias(ctx context.Context, name string, act func(account string) (*actions.Act, error)) error

	// ListAliases returns all aliases, sorted by name (bytewise).
	ListAliases(ctx context.Context) ([]Alias, error)

	// AliasesVersion returns a number that changes with every SetAlias and DeleteAlias that has an
	// effect, through any handle and in any process. If the store is set back, and changed in
	// another way, the number is not one that there was before.
	AliasesVersion(ctx context.Context) (int64, error)
}
