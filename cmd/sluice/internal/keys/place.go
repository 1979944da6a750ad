package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/blob"
	"sluice/client"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/wire"
)

// Place manages who may read and list blobs, and which are blocked. Nodes apply a change within
// seconds.
type Place struct {
	List    placeList    `cmd:"" aliases:"ls" help:"List the places with settings, and the blocked ones."`
	Show    placeShow    `cmd:"" help:"Show a place, and who may read and list there."`
	Set     placeSet     `cmd:"" help:"Set who may read and list at a place."`
	Block   placeBlock   `cmd:"" help:"Refuse all reads at a place, for a reason that readers see."`
	Unblock placeUnblock `cmd:"" help:"End a place's block."`
}

type placeList struct {
	administration.Flags

	Account string `arg:"" optional:"" placeholder:"ACCOUNT" help:"Account with the places. Default: all accounts."`
}

// Run prints the places, ordered by account and name.
func (c *placeList) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		return cli.PrintAll(c.Table(console, "PLACE\tREADS\tLISTS\tOPENING\tBLOCKED"), on.Places(ctx, c.Account), func(p wire.Place) []string {
			opening, blocked := "", ""
			if p.MayOpen {
				opening = "permitted"
			}
			if p.Guarded {
				opening += " guarded"
			}
			if p.Blocked != nil {
				blocked = p.Blocked.Reason
			}
			return []string{placeText(p), p.Reads, p.Lists, strings.TrimSpace(opening), blocked}
		})
	})
}

// placeText returns a place as commands take it.
func placeText(p wire.Place) string {
	text := p.Account
	if p.Prefix != "" || p.Blob != "" {
		text += "/" + p.Prefix + p.Blob
	}
	return terminal.Name(text)
}

// onePlace is a command on one place.
type onePlace struct {
	administration.Flags

	Place  cli.RemoteOperand `arg:"" placeholder:"PLACE" help:"Account, ACCOUNT/PREFIX/, or ACCOUNT/NAME of a blob."`
	Prefix bool              `help:"The place is a prefix, even if it does not end in a slash."`
}

// run calls fn with the place, and prints the settings that it returns, and the rule in force if it
// returns one.
func (c *onePlace) run(ctx context.Context, console *cli.Console, o administration.Options, fn func(context.Context, administration.Instance, client.PlaceName) (wire.PlaceRule, error)) error {
	if c.Place.Context != "" {
		return cli.Usagef("%s has a context: name it with --context", terminal.Name(c.Place.String()))
	}
	account, err := blob.ParseAccount(c.Place.Account)
	if err != nil {
		return err
	}
	of := client.PlaceName{Account: account, Blob: c.Place.Name}
	if c.Prefix || c.Place.Folder() {
		of.Prefix, of.Blob = c.Place.Name, ""
	}
	return c.With(ctx, console, o, func(ctx context.Context, on administration.Instance) error {
		p, err := fn(ctx, on, of)
		if err != nil {
			return err
		}
		facts := [][2]string{{"place", placeText(p.Place)}, {"reads", p.Reads}, {"lists", p.Lists}}
		if p.MayOpen {
			facts = append(facts, [2]string{"may open", "beyond the instance's --reads"})
		}
		if p.Guarded {
			facts = append(facts, [2]string{"guarded", "by a public access block of S3's interface"})
		}
		if b := p.Blocked; b != nil {
			facts = append(facts, [2]string{"blocked", b.Reason}, [2]string{"since", cli.TimeText(b.Since)})
		}
		rule := p.InForce
		if rule == (wire.RuleInForce{}) {
			return c.Facts(console, p.Place, facts)
		}
		facts = append(facts, [2]string{"reads in force", rule.Reads}, [2]string{"lists in force", rule.Lists})
		if rule.Blocked != nil {
			facts = append(facts, [2]string{"block in force", rule.Blocked.Reason})
		}
		return c.Facts(console, p, facts)
	})
}

// change changes the place and prints it.
func (c *onePlace) change(ctx context.Context, console *cli.Console, o administration.Options, change wire.ChangePlace) error {
	return c.run(ctx, console, o, func(ctx context.Context, on administration.Instance, of client.PlaceName) (p wire.PlaceRule, err error) {
		p.Place, err = on.ChangePlace(ctx, of, change)
		return p, err
	})
}

// ruledPlace is a command on one place, for which a database needs the instance's reads.
type ruledPlace struct {
	onePlace
	settings.ReadsFlag `embed:""`
}

// options returns the options for the database.
func (c *ruledPlace) options() (o administration.Options, err error) {
	if o.Reads = c.Reads; c.Reads == "" && !c.ByServer() {
		err = cli.Usagef("--reads is required: the rules of places depend on the instance's setting; --config names the file that has it")
	}
	return o, err
}

type placeShow struct{ ruledPlace }

// Run prints the place's settings, and the rule in force.
func (c *placeShow) Run(ctx context.Context, console *cli.Console) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.run(ctx, console, o, func(ctx context.Context, on administration.Instance, of client.PlaceName) (wire.PlaceRule, error) {
		return on.Place(ctx, of)
	})
}

type placeSet struct {
	ruledPlace

	Readers string `arg:"" optional:"" placeholder:"WHO" help:"Who may read: public (everyone), key (keys for the account), free (everyone, where reads are paid), instance (as its --reads), or above (as the place above)."`
	Lists   string `placeholder:"WHO" help:"Who may list, likewise. Default: unchanged."`
	MayOpen *bool  `negatable:"" help:"Let the account open itself beyond the instance's reads."`
}

// Validate reports all errors.
func (c *placeSet) Validate() (err error) {
	for _, s := range []struct{ name, value, of string }{
		{"WHO", c.Readers, "public, key, free, instance, above"}, {"--lists", c.Lists, "public, key, instance, above"},
	} {
		if s.value != "" && !slices.Contains(strings.Split(s.of, ", "), s.value) {
			err = errors.Join(err, fmt.Errorf("%s %s: want one of %s", s.name, s.value, s.of))
		}
	}
	if err == nil && c.Readers == "" && c.Lists == "" && c.MayOpen == nil {
		err = errors.New("nothing to change: set who may read, --lists or --may-open")
	}
	return err
}

// Run sets the rules, and prints the place.
func (c *placeSet) Run(ctx context.Context, console *cli.Console) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.change(ctx, console, o, wire.ChangePlace{Reads: settingOf(c.Readers), Lists: settingOf(c.Lists), MayOpen: c.MayOpen})
}

// settingOf returns a setting as a request has it; nil: unchanged.
func settingOf(who string) *string {
	switch who {
	case "":
		return nil
	case "above":
		return new(string)
	}
	return &who
}

type placeBlock struct {
	onePlace

	Reason string `arg:"" placeholder:"REASON" help:"Reason, which readers see."`
}

// Run blocks the place.
func (c *placeBlock) Run(ctx context.Context, console *cli.Console) error {
	if c.Reason == "" { // it would end the block
		return cli.Usagef("REASON is empty: readers see it; place unblock ends a block")
	}
	err := c.change(ctx, console, administration.Options{}, wire.ChangePlace{Block: &c.Reason})
	if err != nil {
		return err
	}
	return c.Remark(console, fmt.Sprintf("Caches in front may serve what they have: purge them for %s.", terminal.Name(c.Place.String())))
}

type placeUnblock struct{ onePlace }

// Run ends the block.
func (c *placeUnblock) Run(ctx context.Context, console *cli.Console) error {
	return c.change(ctx, console, administration.Options{}, wire.ChangePlace{Block: new(string)})
}
