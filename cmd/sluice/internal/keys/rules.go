package keys

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sluice/blob"
	"sluice/client"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

type bucketRules struct {
	administration.Flags

	Account string `arg:"" optional:"" placeholder:"ACCOUNT" help:"Account. Default: list all accounts with rules."`
	File    string `arg:"" optional:"" placeholder:"FILE" help:"File with all rules of the account in JSON, as --json prints them, or - for standard input. Default: show the rules, and what their last run removed."`
	Preview bool   `help:"Change nothing, and print what each rule would remove now."`
	Yes     bool   `short:"y" help:"Do not ask."`
}

// Validate reports an account's fault.
func (c *bucketRules) Validate() (err error) {
	if c.Account != "" {
		_, err = blob.ParseAccount(c.Account)
	} else if c.Preview {
		err = errors.New("--preview needs an account")
	}
	return err
}

// Run prints the accounts with rules, or an account's rules, which it sets if there is a file.
func (c *bucketRules) Run(ctx context.Context, console *cli.Console) error {
	if c.Account == "" {
		return administration.PrintAll(ctx, console, &c.Flags, administration.Options{}, "ACCOUNT\tRULES\tCHANGED\tLAST RUN", administration.Instance.Rules, func(r wire.Rules) []string {
			last := "-"
			if r.Last != nil {
				last = cli.TimeText(r.Last.Began)
			}
			return []string{terminal.Name(r.Account), fmt.Sprint(len(r.Rules)), cli.TimeText(r.Changed), last}
		})
	}
	rules, err := c.read(console)
	if err != nil {
		return err
	}
	return c.With(ctx, console, administration.Options{Create: rules != nil && !c.Preview}, func(ctx context.Context, on administration.Instance) error {
		now, err := on.AccountRules(ctx, c.Account)
		switch {
		case err != nil:
			return err
		case rules == nil && !c.Preview:
			return c.print(console, now)
		case rules == nil:
			rules = now.Rules
		}
		var would wire.RulesPreview
		for sum, err := range on.PreviewRules(ctx, c.Account, rules) {
			if would = sum; err != nil {
				return err
			}
		}
		switch {
		case c.Preview && c.JSON:
			return terminal.WriteJSON(console.Out, would)
		case c.Preview:
			return printTaken(console.Out, rules, would.Taken)
		}
		if now, err = c.set(ctx, console, on, now.ETag, rules, would); err != nil {
			return err
		}
		return c.print(console, now)
	})
}

// read returns the file's rules, nil if there is no file.
func (c *bucketRules) read(console *cli.Console) ([]wire.Rule, error) {
	in := console.In
	switch c.File {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(c.File)
		if err != nil {
			return nil, cli.ExitWith(cli.ExitNotFound, err)
		}
		defer file.Close() //nolint:errcheck // it was only read
		in = file
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		text = fmt.Appendf(nil, `{"rules":%s}`, text)
	}
	var file wire.Rules
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&file); err == nil && decoder.More() {
		err = errors.New("there is more than one value")
	}
	if err != nil || file.Rules == nil {
		return nil, cli.Usagef("%s: want the account's rules as sluice bucket rules ACCOUNT --json prints them, or [] for none: %w", terminal.Name(c.File), cmp.Or(err, errors.New("there are no rules")))
	}
	return file.Rules, nil
}

// set shows the things that the rules would remove, asks, and sets them.
func (c *bucketRules) set(ctx context.Context, console *cli.Console, on administration.Instance, etag string, rules []wire.Rule, would wire.RulesPreview) (wire.Rules, error) {
	if !c.Yes {
		err := printTaken(console.Err, rules, would.Taken)
		if err == nil {
			err = cli.Confirm(ctx, console, fmt.Sprintf("Set %s, which remove this now, and go on every day?", units.Count(len(rules), "rule")))
		}
		if err != nil {
			return wire.Rules{}, err
		}
	}
	return on.SetRules(ctx, c.Account, rules, client.UpdateOptions{IfMatch: etag})
}

// print prints an account's rules, their last run's removals, and remarks on their runs.
func (c *bucketRules) print(console *cli.Console, r wire.Rules) error {
	if c.JSON {
		return terminal.WriteJSON(console.Out, r)
	}
	var taken map[string]wire.RuleCounts
	if r.Last != nil {
		taken = r.Last.Taken
	}
	errs := []error{printTaken(console.Out, r.Rules, taken)}
	if len(r.Rules) == 0 {
		errs = append(errs, c.Remark(console, fmt.Sprintf("the account %s has no rules", terminal.Name(r.Account))))
	}
	if r.Last != nil {
		errs = append(errs, c.Remark(console, fmt.Sprintf("the last run began at %s and looked at %d", cli.TimeText(r.Last.Began), r.Last.Looked)))
	}
	if r.Running != nil {
		errs = append(errs, c.Remark(console, fmt.Sprintf("a run is in progress: it began at %s and has looked at %d", cli.TimeText(r.Running.Began), r.Running.Looked)))
	}
	return errors.Join(errs...)
}

// printTaken prints rules with the removals that they make or made, which is nil before a run.
func printTaken(out io.Writer, rules []wire.Rule, taken map[string]wire.RuleCounts) error {
	table := cli.NewTable(out, "RULE\tBLOBS\tEFFECT\tREMOVES")
	for i := range rules {
		about, effect := ruleText(&rules[i])
		removes := "-"
		if taken != nil {
			removes = takenText(taken[rules[i].ID])
		}
		if err := table.Row(nil, terminal.Name(rules[i].ID), about, effect, removes); err != nil {
			return err
		}
	}
	return table.Flush()
}

// takenText returns counts for people.
func takenText(n wire.RuleCounts) string {
	return joined("nothing", []part{
		{n.Blobs > 0, units.Count(n.Blobs, "blob")}, {n.Versions > 0, units.Count(n.Versions, "version")}, {n.Marks > 0, units.Count(n.Marks, "mark")},
		{n.Uploads > 0, units.Count(n.Uploads, "upload")}, {n.Bytes > 0, units.Bytes(n.Bytes)},
	})
}

// ruleText returns which blobs a rule is about, and its effect.
func ruleText(r *wire.Rule) (about, effect string) {
	return joined("all", []part{
			{r.Prefix != "", terminal.Name(r.Prefix) + "*"}, {len(r.Tags) > 0, terminal.Name("tags " + strings.TrimPrefix(fmt.Sprint(r.Tags), "map"))},
			{r.AtLeast > 0, "from " + units.Bytes(r.AtLeast)}, {r.Below > 0, "below " + units.Bytes(r.Below)},
		}), joined("", []part{
			{r.Disabled, "disabled"}, {r.ExpireDays > 0, fmt.Sprintf("expire after %dd", r.ExpireDays)}, {!r.ExpireOn.IsZero(), "expire on " + r.ExpireOn.UTC().Format(time.DateOnly)},
			{r.DropDays > 0, fmt.Sprintf("drop versions after %dd", r.DropDays)}, {r.DropBeyond > 0, fmt.Sprintf("drop versions beyond %d", r.DropBeyond)},
			{r.AbortDays > 0, fmt.Sprintf("abort uploads after %dd", r.AbortDays)}, {r.LoneMarks, "remove lone marks"},
		})
}

// part is a text that is shown on a condition.
type part struct {
	shown bool
	text  string
}

func joined(none string, parts []part) string {
	var texts []string
	for _, p := range parts {
		if p.shown {
			texts = append(texts, p.text)
		}
	}
	return cmp.Or(strings.Join(texts, ", "), none)
}
