// Package servers has the commands that name, describe, probe and measure servers.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
)

// Context manages the servers that the user has named.
type Context struct {
	Add contextAdd `cmd:"" help:"Name a server. The first one becomes the current one."`
	Use contextUse `cmd:"" help:"Make a context the current one: the server of commands that name none."`
	Ls  contextLs  `cmd:"" aliases:"list" help:"List the contexts. An asterisk marks the current one."`
	Rm  contextRm  `cmd:"" help:"Remove a context."`
}

// updateContexts changes the user's file of contexts.
func updateContexts(change func(*contexts.List) error) error {
	name, err := contexts.DefaultFile()
	if err != nil {
		return err
	}
	return contexts.Update(name, change)
}

type contextAdd struct {
	Name     string `arg:"" help:"Name of the context, two characters or more."`
	URL      string `arg:"" name:"url" help:"Base URL of the server, with its base path."`
	KeyFile  string `env:"-" placeholder:"FILE" help:"File with the API key. It is read whenever the context is used."`
	KeyStdin bool   `env:"-" help:"Read the API key from standard input, and keep it in the file of contexts."`
	Replace  bool   `env:"-" help:"Replace a context of that name."`
}

// Run adds the context.
func (c *contextAdd) Run(ctx context.Context, console *cli.Console) error {
	added, err := c.context(console.In)
	if err != nil {
		return err
	}
	return updateContexts(func(l *contexts.List) error {
		if err := l.Add(c.Name, added, c.Replace); err != nil {
			return cli.ExitWith(cli.ExitUsage, err)
		}
		return c.ask(ctx, console)
	})
}

// ask returns an error if there is a server at the URL, and it is not a service. One that cannot be
// reached may be started later.
func (c *contextAdd) ask(ctx context.Context, console *cli.Console) error {
	on, err := client.New(c.URL, client.Options{MaxAttempts: 1, StallTimeout: cli.AnnouncedWait})
	if err != nil {
		return cli.ExitWith(cli.ExitUsage, err)
	}
	_, err = on.Info(ctx)
	e, reported := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return nil
	case reported && e.Status < http.StatusInternalServerError && (e.Code == "" || cli.IsWrongAddress(err)), errors.Is(err, client.ErrBadResponse):
		return cli.Usagef("%s is not the base URL of a service: want it with its base path, without /v1, and not the address for S3: %w", terminal.Text(c.URL), err)
	default:
		return cli.PrintLine(console.Err, "The context is added, although the server cannot be asked now: "+cli.LineOf(err))
	}
}

func (c *contextAdd) context(stdin io.Reader) (contexts.Context, error) {
	added := contexts.Context{URL: strings.TrimSuffix(c.URL, "/")}
	if c.KeyFile != "" {
		path, err := filepath.Abs(c.KeyFile)
		if err != nil {
			return added, err
		}
		added.KeyFile = path
	}
	if c.KeyStdin {
		key, err := io.ReadAll(io.LimitReader(stdin, 64<<10))
		if err != nil {
			return added, fmt.Errorf("cannot read the API key from standard input: %w", err)
		}
		if added.Key = strings.TrimSpace(string(key)); added.Key == "" {
			return added, cli.ExitWith(cli.ExitUsage, fmt.Errorf("--key-stdin: standard input has no API key"))
		}
	}
	return added, nil
}

// oneContext is a command on one context.
type oneContext struct {
	Name string `arg:"" help:"Name of the context."`
}

type contextUse struct{ oneContext }

// Run makes the context the current one.
func (c *contextUse) Run() error {
	return updateContexts(func(l *contexts.List) error { return l.Use(c.Name) })
}

type contextRm struct{ oneContext }

// Run removes the context.
func (c *contextRm) Run() error {
	return updateContexts(func(l *contexts.List) error { return l.Remove(c.Name) })
}

type contextLs struct{ cli.OutputFlags }

// printedContext is a context in JSON. The key is never printed.
type printedContext struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Key     bool   `json:"key"` // whether it has a key
	Current bool   `json:"current"`
}

// Run prints the contexts, sorted by name.
func (c *contextLs) Run(console *cli.Console) error {
	list, err := cli.LoadContexts()
	if err != nil {
		return err
	}
	table := c.Table(console, "")
	for _, name := range list.Names() {
		context := list.Contexts[name]
		current, hasKey := name == list.Current, context.Key != "" || context.KeyFile != ""
		cells := []string{"  " + name, context.URL}
		if current {
			cells[0] = "* " + name
		}
		if hasKey {
			cells = append(cells, "with a key")
		}
		if err := table.Row(printedContext{name, context.URL, hasKey, current}, cells...); err != nil {
			return err
		}
	}
	return table.Flush()
}
