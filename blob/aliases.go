package blob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/task"
	"sluice/metastore"
)

// aliasPoll is the interval at which Run looks for changes.
const aliasPoll = time.Second

// Aliases knows an instance's aliases, all in memory, so that a request costs no query. While Run
// runs, a change through another handle takes effect after a second, usually; while
// the store cannot be reached, the last ones hold. Its methods may be called concurrently.
type Aliases struct {
	meta  metastore.Aliases
	known atomic.Pointer[knownAliases]
}

// knownAliases are the aliases at one time. They are immutable.
type knownAliases struct {
	version  int64
	accounts map[string]string   // by alias
	names    map[string][]string // aliases by account, sorted
}

// LoadAliases returns a store's aliases.
func LoadAliases(ctx context.Context, meta metastore.Aliases) (*Aliases, error) {
	a := &Aliases{meta: meta}
	a.known.Store(&knownAliases{version: -1})
	return a, a.poll(ctx)
}

// Account returns the account that a name is an alias for, or "".
func (a *Aliases) Account(name string) string { return a.known.Load().accounts[name] }

// Of returns an account's aliases, sorted.
func (a *Aliases) Of(account string) []string { return slices.Clone(a.known.Load().names[account]) }

// Accounts returns the accounts greater than after that have aliases, sorted (bytewise).
func (a *Aliases) Accounts(after string) []string {
	accounts := slices.Sorted(maps.Keys(a.known.Load().names))
	from, found := slices.BinarySearch(accounts, after)
	if found {
		from++
	}
	return accounts[from:]
}

// Run looks for changes until ctx ends. It reports failures to report, each time one begins.
func (a *Aliases) Run(ctx context.Context, report func(error)) {
	failing := false
	task.Repeat(ctx, aliasPoll, aliasPoll, func() {
		err := a.poll(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			report(err)
		}
		failing = err != nil
	})
}

// poll loads the aliases if they have changed. The version is read first, so what is loaded has at
// least its changes.
func (a *Aliases) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*aliasPoll)
	defer cancel()
	version, err := a.meta.AliasesVersion(ctx)
	if err != nil {
		return fmt.Errorf("checking whether aliases have changed: %w", err)
	}
	if version == a.known.Load().version {
		return nil
	}
	list, err := a.meta.ListAliases(ctx)
	if err != nil {
		return fmt.Errorf("loading the aliases: %w", err)
	}
	next := &knownAliases{version: version, accounts: map[string]string{}, names: map[string][]string{}}
	for _, alias := range list {
		next.accounts[alias.Name] = alias.Account
		next.names[alias.Account] = append(next.names[alias.Account], alias.Name)
	}
	a.known.Store(next)
	return nil
}
