package meta

import (
	"context"
	"fmt"
	"math/rand/v2"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// SetAlias implements metastore.Aliases.
func (s *Metastore) SetAlias(ctx context.Context, a metastore.Alias, act *actions.Act) error {
	return s.in.Write(ctx, func(t tx) error {
		has, found, err := t.alias(a.Name)
		switch {
		case err != nil:
			return err
		case found && has != a.Account:
			return fmt.Errorf("alias: %w", database.ErrExists)
		case found:
			return nil
		}
		if err := t.checkAlias(a.Name); err != nil {
			return err
		}
		if err := acts.Record(t.Tx, act); err != nil {
			return err
		}
		if err := t.Change(`INSERT INTO aliases (name, account) VALUES ($1, $2)`, []byte(a.Name), []byte(a.Account)); err != nil {
			return err
		}
		return t.aliasesChanged()
	})
}

// checkAlias returns an error if there cannot be an alias of this name.
func (t tx) checkAlias(name string) error {
	var n int64
	switch _, err := t.Row(`SELECT COUNT(*) FROM aliases`, nil, (*engine.Integer)(&n)); {
	case err != nil:
		return err
	case n >= metastore.MaxAliases:
		return metastore.ErrTooManyAliases
	}
	markers := metastore.MarkersOf(name)
	used, err := t.Row(`SELECT 1 FROM blobs WHERE account IN ($1, $2, $3, $4) LIMIT 1`,
		engine.Args{[]byte(name), []byte(markers), []byte(metastore.KeptOf(name)), []byte(metastore.KeptOf(markers))}, (*engine.Integer)(&n))
	if err == nil && used {
		err = metastore.ErrNameHasBlobs
	}
	return err
}

// DeleteAlias implements metastore.Aliases.
func (s *Metastore) DeleteAlias(ctx context.Context, name string, act func(account string) (*actions.Act, error)) error {
	return s.in.Write(ctx, func(t tx) error {
		account, found, err := t.alias(name)
		switch {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("alias: %w", database.ErrNotFound)
		}
		if act != nil {
			made, err := act(account)
			if err != nil {
				return err
			}
			if err := acts.Record(t.Tx, made); err != nil {
				return err
			}
		}
		if err := t.Change(`DELETE FROM aliases WHERE name = $1`, []byte(name)); err != nil {
			return err
		}
		return t.aliasesChanged()
	})
}

// alias returns the account for which a name is an alias, if it is one.
func (t tx) alias(name string) (account string, found bool, err error) {
	found, err = t.Row(`SELECT account FROM aliases WHERE name = $1`, engine.Args{[]byte(name)}, &account)
	return account, found, err
}

// aliasesChanged sets a version that there never was, even if the database is set back afterwards
// and changed in another way.
func (t tx) aliasesChanged() error {
	_, err := t.Exec(`UPDATE aliases_version SET version = $1`, rand.Int64())
	return err
}

// ListAliases implements metastore.Aliases.
func (s *Metastore) ListAliases(ctx context.Context) (list []metastore.Alias, err error) {
	err = s.in.Read(ctx, func(t tx) (err error) {
		var a metastore.Alias
		list, err = engine.Collect(t.Tx, `SELECT name, account FROM aliases ORDER BY name`, nil, engine.Args{&a.Name, &a.Account}, &a)
		return err
	})
	return list, err
}

// AliasesVersion implements metastore.Aliases.
func (s *Metastore) AliasesVersion(ctx context.Context) (version int64, err error) {
	err = s.in.Read(ctx, func(t tx) error {
		_, err := t.Row(`SELECT version FROM aliases_version`, nil, (*engine.Integer)(&version))
		return err
	})
	return version, err
}
