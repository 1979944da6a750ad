package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"sluice/access/keys"
	"sluice/blob"
	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/storage"
)

// metaFlags say where the metadata is. They have the settings' help and defaults.
type metaFlags struct {
	Data string `default:"${data}" help:"${data_help}"`
	Meta string `placeholder:"DSN" help:"${meta_help}"`
}

func (f metaFlags) location() storage.Location {
	return storage.Location{Data: f.Data, Meta: f.Meta}
}

// keyFlags are the flags of all key commands.
type keyFlags struct {
	Config    configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
	outputFlags
}

// withKeys calls fn with the instance's keys, which it creates if create is set.
func (f *keyFlags) withKeys(ctx context.Context, create bool, fn func(ctx context.Context, store whole.Database) error) error {
	stores, err := storage.OpenMeta(ctx, f.location(), create)
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx, stores.Meta), stores.Close())
}

// parseAccounts returns accounts in their canonical form.
func parseAccounts(texts []string) (accounts []string, err error) {
	for _, text := range texts {
		account, parseErr := blob.ParseAccount(text)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("--accounts: %w", parseErr))
		}
		accounts = append(accounts, account)
	}
	return accounts, err
}

// absolute returns a folder's absolute path if it is known, and path otherwise.
func absolute(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// oneKey is a command on one key.
type oneKey struct {
	keyFlags

	ID string `arg:"" placeholder:"ID" help:"Id of the key."`
}

// print calls fn and prints the key that it returns. The argument may be the whole
// credential, not only the id, so it is never printed.
func (c *oneKey) print(ctx context.Context, console *console, fn func(ctx context.Context, store whole.Database, id string) (keys.Key, error)) error {
	return c.withKeys(ctx, false, func(ctx context.Context, store whole.Database) error {
		key, err := fn(ctx, store, idOf(c.ID))
		switch {
		case errors.Is(err, database.ErrNotFound):
			return exitWith(exitNotFound, errors.New("there is no such key: sluice key list shows all"))
		case err != nil:
			return err
		case c.JSON:
			return writeKeyJSON(console.out, key, "")
		default:
			return writeKey(console.out, key)
		}
	})
}

// idOf returns the id in text, which is an id or a whole credential.
func idOf(text string) string {
	rest, whole := strings.CutPrefix(text, "sluice_")
	if !whole {
		return text
	}
	id, _, _ := strings.Cut(rest, "_")
	return id
}
