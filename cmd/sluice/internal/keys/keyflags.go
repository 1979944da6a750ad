package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/wire"
)

// oneKey is a command on one key.
type oneKey struct {
	administration.Flags

	ID string `arg:"" placeholder:"ID" help:"Id of the key."`
}

// print calls fn, and prints the key that it returns, with its secrets if it has any. The argument
// may be the whole credential, not only the id, so it is never printed.
func (c *oneKey) print(ctx context.Context, console *cli.Console, o administration.Options, fn func(ctx context.Context, on administration.Instance, id string) (wire.IssuedKey, error)) error {
	return c.With(ctx, console, o, func(ctx context.Context, on administration.Instance) error {
		issued, err := fn(ctx, on, idOf(c.ID))
		switch {
		case err != nil:
			return administration.Explain(err, "there is no such key: sluice key list shows all")
		case issued.Secret == "" && issued.S3Secret == "":
			return c.Facts(console, issued.Key, keyFacts(issued.Key))
		}
		if err := writeIssued(&c.Flags, console, issued); err != nil {
			return fmt.Errorf("the key %s was changed, but could not be printed: %w", issued.ID, err)
		}
		return nil
	})
}

// writeIssued prints a key's new secrets alone to stdout, for scripts, and the rest to stderr.
func writeIssued(f *administration.Flags, console *cli.Console, issued wire.IssuedKey) error {
	if f.JSON {
		return terminal.WriteJSON(console.Out, issued)
	}
	var errs []error
	if issued.Secret != "" {
		errs = append(errs, cli.PrintLine(console.Out, issued.Secret))
	}
	if issued.S3Secret != "" {
		errs = append(errs, cli.PrintLine(console.Out, "AWS_ACCESS_KEY_ID="+issued.ID), cli.PrintLine(console.Out, "AWS_SECRET_ACCESS_KEY="+issued.S3Secret))
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
