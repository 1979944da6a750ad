package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/blob"
	"sluice/database"
	"sluice/database/whole"
	"sluice/node"
	"sluice/storage"
)

// metaFlags name the place of the metadata. They have the settings' help and defaults.
type metaFlags struct {
	Data string `default:"${data}" help:"${data_help}"`
	Meta string `placeholder:"DSN" help:"${meta_help}"`
}

func (f metaFlags) location() storage.Location {
	return storage.Location{Data: f.Data, Meta: f.Meta}
}

// openMeta opens the metadata. Root opens them as the data folder's owner.
func (f metaFlags) openMeta(ctx context.Context, create bool) (*storage.Stores, error) {
	if l := f.location(); !l.Shared() {
		if err := asOwner(l.Data); err != nil {
			return nil, err
		}
	}
	return storage.OpenMeta(ctx, f.location(), create)
}

// keyFlags are the flags of all key commands.
type keyFlags struct {
	Config    configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
	outputFlags
}

// withKeys calls fn with the instance's keys, which it creates if create is set.
func (f *keyFlags) withKeys(ctx context.Context, create bool, fn func(ctx context.Context, store whole.Database) error) error {
	stores, err := f.openMeta(ctx, create)
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx, stores.Meta), stores.Close())
}

// withMeta calls fn with the metadata.
func (f metaFlags) withMeta(ctx context.Context, fn func(whole.Database) error) error {
	stores, err := f.openMeta(ctx, false)
	if err != nil {
		return err
	}
	return errors.Join(fn(stores.Meta), stores.Close())
}

// s3Flags are the flags of commands that make S3 secrets. The file's has the setting's help.
type s3Flags struct {
	S3SecretKeyFile string `name:"s3-secret-key-file" placeholder:"FILE" type:"path" help:"${s3-secret-key-file_help}"`
}

// box returns the box that seals S3 secrets.
func (f s3Flags) box() (*sealed.Box, error) {
	if f.S3SecretKeyFile == "" {
		return nil, exitWith(exitUsage, errors.New("--s3-secret-key-file: S3 secrets need a file with the key that seals them, equal on all nodes: (umask 077; openssl rand -hex 32 >FILE) makes one"))
	}
	box, err := node.OpenS3Secrets(f.S3SecretKeyFile)
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	return box, nil
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
	return c.printIssued(ctx, console, func(ctx context.Context, store whole.Database, id string) (access.Issued, error) {
		key, err := fn(ctx, store, id)
		return access.Issued{Key: key}, err
	})
}

// printIssued is print for a function that may give the key an S3 secret.
func (c *oneKey) printIssued(ctx context.Context, console *console, fn func(ctx context.Context, store whole.Database, id string) (access.Issued, error)) error {
	return c.withKeys(ctx, false, func(ctx context.Context, store whole.Database) error {
		issued, err := fn(ctx, store, idOf(c.ID))
		switch {
		case errors.Is(err, database.ErrNotFound):
			return exitWith(exitNotFound, errors.New("there is no such key: sluice key list shows all"))
		case err != nil:
			return err
		case issued.S3Secret == "" && !c.JSON:
			return writeKey(console.out, issued.Key)
		}
		if err := c.writeIssued(console, issued); err != nil {
			return fmt.Errorf("the key %s was changed, but could not be printed: %w", issued.Key.ID, err)
		}
		return nil
	})
}

// writeIssued prints a key's new secrets alone to stdout, for scripts, and the rest to stderr.
func (f *keyFlags) writeIssued(console *console, issued access.Issued) error {
	if f.JSON {
		return writeKeyJSON(console.out, issued)
	}
	var errs []error
	if issued.Credential != "" {
		errs = append(errs, printLine(console.out, issued.Credential))
	}
	if issued.S3Secret != "" {
		errs = append(errs, printLine(console.out, "AWS_ACCESS_KEY_ID="+issued.Key.ID), printLine(console.out, "AWS_SECRET_ACCESS_KEY="+issued.S3Secret))
	}
	errs = append(errs, f.remark(console, "The secret is not shown again."))
	if !f.Quiet {
		errs = append(errs, writeKey(console.err, issued.Key))
	}
	return errors.Join(errs...)
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
