package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Find lists the blobs that match conditions.
type Find struct {
	Prefix cli.RemoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: all accounts."`

	Name      []string       `env:"-" sep:"none" placeholder:"PATTERN" help:"Blobs whose names match, such as '*.jpg', 'logs/*.txt' or '/top/**'. Of several, one must match. Default: all."`
	Larger    *blobSize      `env:"-" placeholder:"SIZE" help:"Blobs of more bytes, such as 10MiB."`
	Smaller   *blobSize      `env:"-" placeholder:"SIZE" help:"Blobs of fewer bytes, such as 1MiB."`
	OlderThan *time.Duration `env:"-" placeholder:"DURATION" help:"Blobs that were stored longer ago, such as 30d."`
	NewerThan *time.Duration `env:"-" placeholder:"DURATION" help:"Blobs that were stored since, such as 1h."`
	Print0    bool           `name:"print0" short:"0" env:"-" help:"End each name with a zero byte in place of a line break, and print it as it is, for xargs -0."`

	cli.ServerFlags
	cli.OutputFlags
}

// blobSize is a blob's size in bytes.
type blobSize int64

// UnmarshalText parses a size.
func (s *blobSize) UnmarshalText(text []byte) error {
	n, err := units.ParseSize(string(text))
	if err != nil {
		return fmt.Errorf("want a size, such as 10MiB, not %q", text)
	}
	*s = blobSize(n)
	return nil
}

// Validate checks the flags.
func (c *Find) Validate() error {
	for _, age := range []struct {
		flag  string
		value *time.Duration
	}{{"older-than", c.OlderThan}, {"newer-than", c.NewerThan}} {
		if age.value != nil && *age.value < 0 {
			return fmt.Errorf("--%s %v: must not be negative", age.flag, *age.value)
		}
	}
	if c.Print0 && c.JSON {
		return errors.New("--print0 and --json both choose how blobs are printed: use one of them")
	}
	return nil
}

// Run prints the blobs while it lists them.
func (c *Find) Run(ctx context.Context, console *cli.Console) error {
	names, err := namesLike(c.Name)
	if err != nil {
		return err
	}
	from, err := c.ClientOf(console, c.Prefix)
	if err != nil {
		return err
	}
	now := time.Now()
	return eachAccount(ctx, console, c.OutputFlags, from, c.Prefix.Remote, func(of operand.Remote, _ *client.Account) error {
		return c.list(ctx, console, from, of, names, now)
	})
}

func (c *Find) list(ctx context.Context, console *cli.Console, from *client.Client, of operand.Remote, names *folder.Filter, now time.Time) error {
	parent, empty := of.Name[:strings.LastIndexByte(of.Name, '/')+1], true
	for e, err := range from.List(ctx, of.Account, client.ListOptions{Prefix: of.Name}) {
		if err != nil {
			return blobError(of, err)
		}
		empty = false
		if !c.matches(&e.Blob, now) || !names.Includes(strings.TrimPrefix(e.Name, parent)) {
			continue
		}
		if err := c.print(console.Out, of, e); err != nil {
			return err
		}
	}
	if empty {
		return remarkNothingAt(console, c.OutputFlags, of)
	}
	return nil
}

// namesLike returns a filter that includes the names which match a pattern, or all names if there
// are no patterns.
func namesLike(patterns []string) (*folder.Filter, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	var rules []folder.Rule
	for _, p := range patterns {
		if strings.HasSuffix(p, "/") {
			return nil, cli.Usagef("--name %s: no blob has such a name: %s** matches the blobs in the folder", p, p)
		}
		rules = append(rules, folder.Rule{Pattern: p})
	}
	// A folder that matches nothing can contain blobs that do.
	rules = append(rules, folder.Rule{Pattern: "*/"}, folder.Rule{Pattern: "*", Exclude: true})
	filter, err := folder.NewFilter(rules)
	if err != nil {
		return nil, cli.ExitWith(cli.ExitUsage, cli.About("--name", err))
	}
	return filter, nil
}

// matches reports whether a blob has the size and the age.
func (c *Find) matches(b *client.Blob, now time.Time) bool {
	age := now.Sub(b.LastModified)
	switch {
	case c.Larger != nil && b.Size <= int64(*c.Larger), c.Smaller != nil && b.Size >= int64(*c.Smaller):
		return false
	case c.OlderThan != nil && age <= *c.OlderThan, c.NewerThan != nil && age >= *c.NewerThan:
		return false
	}
	return true
}

func (c *Find) print(out io.Writer, below operand.Remote, e client.Entry) error {
	name := operand.Remote{Context: below.Context, Account: below.Account, Name: e.Name}
	switch {
	case c.JSON:
		return terminal.WriteJSON(out, printedEntry(below.Account, e))
	case c.Print0:
		_, err := io.WriteString(out, name.String()+"\x00")
		return err
	default:
		return cli.PrintLine(out, terminal.Name(name.String()))
	}
}
