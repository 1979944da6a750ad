package instances

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/client"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/wire"
)

// Webhook manages the URLs to which a server delivers changes. A database alone delivers nothing,
// so all its commands are for a server.
type Webhook struct {
	Create webhookCreate `cmd:"" help:"Create a webhook and print its secret, which cannot be shown again."`
	List   webhookList   `cmd:"" aliases:"ls" help:"List all webhooks, with their states and last results."`
	Show   webhookShow   `cmd:"" help:"Show one webhook."`
	Update webhookUpdate `cmd:"" help:"Change the URL, the filter or the label of a webhook."`
	Rotate webhookRotate `cmd:"" help:"Give a webhook a new secret and print it. The one before signs, too, for 24 hours."`
	Test   webhookTest   `cmd:"" help:"Deliver a test event, and print the result."`
	On     webhookOn     `cmd:"" help:"Turn a webhook on again: it continues where it was."`
	Off    webhookOff    `cmd:"" help:"Turn a webhook off."`
	Remove webhookRemove `cmd:"" aliases:"rm" help:"Delete a webhook."`
}

// webhookFlags are common to all commands.
type webhookFlags struct {
	cli.ServerFlags
	cli.OutputFlags
}

// on calls fn with the server.
func (f *webhookFlags) on(console *cli.Console, fn func(*client.Admin) error) error {
	c, err := f.Client(console, "")
	if err != nil {
		return err
	}
	return fn(c.Admin())
}

// oneWebhook is a command on one webhook.
type oneWebhook struct {
	webhookFlags

	ID string `arg:"" placeholder:"ID" help:"Id of the webhook, as webhook list prints it."`
}

// explain returns err, or an error with the webhook's id.
func (c *oneWebhook) explain(err error) error {
	return administration.Explain(err, "there is no webhook %s: sluice webhook list shows all", terminal.Name(c.ID))
}

// update changes the webhook and prints it.
func (c *oneWebhook) update(ctx context.Context, console *cli.Console, change wire.UpdateWebhook) error {
	return c.on(console, func(a *client.Admin) error {
		w, err := a.UpdateWebhook(ctx, c.ID, change, client.UpdateOptions{})
		switch {
		case err != nil:
			return c.explain(err)
		case w.Secret != "":
			return c.issued(console, w)
		}
		return c.Facts(console, w.Webhook, webhookFacts(w.Webhook))
	})
}

// issued prints a secret alone to stdout, for scripts, and a remark to stderr.
func (f *webhookFlags) issued(console *cli.Console, w wire.IssuedWebhook) error {
	return f.ResultWithRemarks(console, w, w.Secret, "The webhook "+w.ID+" has this secret, which is not shown again.")
}

// filterFlags select changes.
type filterFlags struct {
	Kinds []string `env:"-" placeholder:"KIND,..." help:"Only these kinds of changes, such as stored, replaced and deleted."`
	Label *string  `env:"-" placeholder:"TEXT" help:"Description of the webhook."`
}

type webhookCreate struct {
	webhookFlags

	URL    string            `arg:"" placeholder:"URL" help:"URL that gets the changes."`
	Prefix cli.RemoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: all accounts."`
	filterFlags
}

// Run creates the webhook.
func (c *webhookCreate) Run(ctx context.Context, console *cli.Console) error {
	on, err := c.ClientOf(console, c.Prefix)
	if err != nil {
		return err
	}
	in := wire.CreateWebhook{URL: c.URL, Account: c.Prefix.Account, Prefix: c.Prefix.Name, Kinds: c.Kinds}
	if c.Label != nil {
		in.Label = *c.Label
	}
	issued, err := on.Admin().CreateWebhook(ctx, in, client.CreateKeyOptions{})
	if errors.Is(err, client.ErrSecretLost) { // nobody has it
		issued, err = on.Admin().UpdateWebhook(ctx, issued.ID, wire.UpdateWebhook{NewSecret: true}, client.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	return c.issued(console, issued)
}

type webhookList struct{ webhookFlags }

// Run prints the webhooks, ordered by id.
func (c *webhookList) Run(ctx context.Context, console *cli.Console) error {
	return c.on(console, func(a *client.Admin) error {
		return cli.PrintAll(c.Table(console, "ID\tSTATE\tCHANGES\tURL\tLAST\tLABEL"), a.Webhooks(ctx), func(w wire.Webhook) []string {
			return []string{w.ID, stateOf(w), changesOf(w), terminal.Text(w.URL), cmp.Or(resultText(w.Last), "-"), strconv.Quote(w.Label)}
		})
	})
}

type webhookShow struct{ oneWebhook }

// Run prints the webhook.
func (c *webhookShow) Run(ctx context.Context, console *cli.Console) error {
	return c.on(console, func(a *client.Admin) error {
		w, err := a.Webhook(ctx, c.ID)
		if err != nil {
			return c.explain(err)
		}
		return c.Facts(console, w, webhookFacts(w))
	})
}

type webhookUpdate struct {
	oneWebhook

	NewURL  *string            `name:"new-url" env:"-" placeholder:"URL" help:"URL that gets the changes from now on."`
	Changes *cli.RemoteOperand `env:"-" placeholder:"ACCOUNT/PREFIX" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it."`
	filterFlags
}

// Run changes the webhook.
func (c *webhookUpdate) Run(ctx context.Context, console *cli.Console) error {
	change := wire.UpdateWebhook{URL: c.NewURL, Label: c.Label}
	if c.Changes != nil {
		change.Account, change.Prefix = &c.Changes.Account, &c.Changes.Name
	}
	if c.Kinds != nil {
		change.Kinds = &c.Kinds
	}
	return c.update(ctx, console, change)
}

type webhookRotate struct{ oneWebhook }

// Run replaces the webhook's secret and prints the new one.
func (c *webhookRotate) Run(ctx context.Context, console *cli.Console) error {
	return c.update(ctx, console, wire.UpdateWebhook{NewSecret: true})
}

type webhookTest struct{ oneWebhook }

// Run delivers a test event. It fails if the receiver does not accept it.
func (c *webhookTest) Run(ctx context.Context, console *cli.Console) error {
	return c.on(console, func(a *client.Admin) error {
		result, err := a.TestWebhook(ctx, c.ID)
		if err != nil {
			return c.explain(err)
		}
		if err := c.Result(console, result, resultText(&result)); err != nil || result.Error == "" {
			return err
		}
		return errors.New("the receiver has not accepted the test")
	})
}

type webhookOn struct{ oneWebhook }

// Run turns the webhook on.
func (c *webhookOn) Run(ctx context.Context, console *cli.Console) error {
	return c.update(ctx, console, wire.UpdateWebhook{On: new(true)})
}

type webhookOff struct{ oneWebhook }

// Run turns the webhook off.
func (c *webhookOff) Run(ctx context.Context, console *cli.Console) error {
	return c.update(ctx, console, wire.UpdateWebhook{On: new(false)})
}

type webhookRemove struct{ oneWebhook }

// Run deletes the webhook.
func (c *webhookRemove) Run(ctx context.Context, console *cli.Console) error {
	return c.on(console, func(a *client.Admin) error { return c.explain(a.DeleteWebhook(ctx, c.ID)) })
}

func stateOf(w wire.Webhook) string { return strings.TrimSuffix(w.State+": "+w.Reason, ": ") }

// changesOf returns the changes that a webhook gets.
func changesOf(w wire.Webhook) string {
	text := "all"
	if w.Account != "" {
		text = strings.TrimSuffix(terminal.Name(w.Account+"/"+w.Prefix), "/")
	} else if w.Prefix != "" {
		text = "*/" + terminal.Name(w.Prefix)
	}
	if w.Kinds != nil {
		text += " (" + strings.Join(w.Kinds, ",") + ")"
	}
	return text
}

// resultText returns an attempt's result, or "" if there was none.
func resultText(r *wire.WebhookResult) string {
	if r == nil {
		return ""
	}
	answer := cmp.Or(r.Error, "accepted")
	if r.Status != 0 {
		answer = strconv.Itoa(r.Status)
	}
	return fmt.Sprintf("%s after %.3g s at %s", answer, r.Seconds, cli.TimeText(r.At))
}

func webhookFacts(w wire.Webhook) [][2]string {
	failures := ""
	if w.Failed > 0 {
		failures = fmt.Sprintf("%d since %s, next attempt at %s", w.Failed, cli.TimeText(w.Failing), cli.TimeText(w.Next))
	}
	return [][2]string{
		{"id", w.ID}, {"state", stateOf(w)}, {"changes", changesOf(w)}, {"url", terminal.Text(w.URL)}, {"label", terminal.Text(w.Label)}, {"key", w.Key},
		{"created", cli.TimeText(w.Created)}, {"delivered to", w.After}, {"last", resultText(w.Last)}, {"failures", failures},
		{"old secret ends", cli.TimeText(w.OldUntil)},
	}
}
