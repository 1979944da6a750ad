package keys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/database/whole"
	"sluice/node"
)

// keyFlags are the flags of all key commands.
type keyFlags struct {
	settings.MetaFlags `embed:""`
	cli.OutputFlags
}

// s3Flags are the flags of commands that make S3 secrets. The file's has the setting's help.
type s3Flags struct {
	S3SecretKeyFile string `name:"s3-secret-key-file" placeholder:"FILE" type:"path" help:"${s3-secret-key-file_help}"`
}

// box returns the box that seals S3 secrets.
func (f s3Flags) box() (*sealed.Box, error) {
	if f.S3SecretKeyFile == "" {
		return nil, cli.ExitWith(cli.ExitUsage, errors.New("--s3-secret-key-file: S3 secrets need a file with the key that seals them, equal on all nodes: (umask 077; openssl rand -hex 32 >FILE) makes one"))
	}
	box, err := node.OpenS3Secrets(f.S3SecretKeyFile)
	if err != nil {
		return nil, cli.ExitWith(cli.ExitUsage, err)
	}
	return box, nil
}

// operator returns who acts at the database, for actions' records.
func operator() admin.By {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return admin.By{From: name + "@" + host}
}

// oneKey is a command on one key.
type oneKey struct {
	keyFlags

	ID string `arg:"" placeholder:"ID" help:"Id of the key."`
}

// print calls fn and prints the key that it returns. The argument may be the whole
// credential, not only the id, so it is never printed.
func (c *oneKey) print(ctx context.Context, console *cli.Console, fn func(ctx context.Context, store whole.Database, id string) (keys.Key, error)) error {
	return c.printIssued(ctx, console, func(ctx context.Context, store whole.Database, id string) (access.Issued, error) {
		key, err := fn(ctx, store, id)
		return access.Issued{Key: key}, err
	})
}

// printIssued calls fn, and prints the key that it returns, with its S3 secret if it has one.
func (c *oneKey) printIssued(ctx context.Context, console *cli.Console, fn func(ctx context.Context, store whole.Database, id string) (access.Issued, error)) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, store whole.Database) error {
		issued, err := fn(ctx, store, idOf(c.ID))
		switch {
		case errors.Is(err, database.ErrNotFound), errors.Is(err, admin.ErrNotFound):
			return cli.ExitWith(cli.ExitNotFound, errors.New("there is no such key: sluice key list shows all"))
		case err != nil:
			return err
		case issued.S3Secret == "":
			return c.Facts(console, newPrintedKey(issued), keyFacts(issued.Key))
		}
		if err := c.writeIssued(console, issued); err != nil {
			return fmt.Errorf("the key %s was changed, but could not be printed: %w", issued.Key.ID, err)
		}
		return nil
	})
}

// writeIssued prints a key's new secrets alone to stdout, for scripts, and the rest to stderr.
func (f *keyFlags) writeIssued(console *cli.Console, issued access.Issued) error {
	if f.JSON {
		return terminal.WriteJSON(console.Out, newPrintedKey(issued))
	}
	var errs []error
	if issued.Credential != "" {
		errs = append(errs, cli.PrintLine(console.Out, issued.Credential))
	}
	if issued.S3Secret != "" {
		errs = append(errs, cli.PrintLine(console.Out, "AWS_ACCESS_KEY_ID="+issued.Key.ID), cli.PrintLine(console.Out, "AWS_SECRET_ACCESS_KEY="+issued.S3Secret))
	}
	errs = append(errs, f.Remark(console, "The secret is not shown again."))
	if !f.Quiet {
		errs = append(errs, cli.PrintFacts(console.Err, keyFacts(issued.Key)))
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
