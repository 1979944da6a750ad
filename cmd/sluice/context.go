package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
)

// contextCommand manages the servers that the user has named.
type contextCommand struct {
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

// Help returns examples.
func (contextAdd) Help() string {
	return examples("sluice context add prod https://blobs.example.org/sluice --key-file prod.key", "sluice context add local http://localhost:9090")
}

// Run adds the context.
func (c *contextAdd) Run(ctx context.Context, console *console) error {
	added, err := c.context(console.in)
	if err != nil {
		return err
	}
	return updateContexts(func(l *contexts.List) error {
		if err := l.Add(c.Name, added, c.Replace); err != nil {
			return exitWith(exitUsage, err)
		}
		return c.ask(ctx, console)
	})
}

// ask returns an error if there is a server at the URL, and it is not a service. One that cannot be
// reached may be started later.
func (c *contextAdd) ask(ctx context.Context, console *console) error {
	on, err := client.New(c.URL, client.Options{MaxAttempts: 1, StallTimeout: announcedWait})
	if err != nil {
		return exitWith(exitUsage, err)
	}
	_, err = on.Info(ctx)
	e, reported := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return nil
	case reported && e.Status < http.StatusInternalServerError && (e.Code == "" || isWrongAddress(err)), errors.Is(err, client.ErrBadResponse):
		return usagef("%s is not the base URL of a service: want it with its base path, without /v1, and not the address for S3: %w", terminal.Text(c.URL), err)
	default:
		return printLine(console.err, "The context is added, although the server cannot be asked now: "+lineOf(err))
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
			return added, exitWith(exitUsage, fmt.Errorf("--key-stdin: standard input has no API key"))
		}
	}
	return added, nil
}

// oneContext is a command on one context.
type oneContext struct {
	Name string `arg:"" help:"Name of the context."`
}

type contextUse struct{ oneContext }

// Help returns examples.
func (contextUse) Help() string { return examples("sluice context use prod") }

// Run makes the context the current one.
func (c *contextUse) Run() error {
	return updateContexts(func(l *contexts.List) error { return l.Use(c.Name) })
}

type contextRm struct{ oneContext }

// Help returns examples.
func (contextRm) Help() string { return examples("sluice context rm prod") }

// Run removes the context.
func (c *contextRm) Run() error {
	return updateContexts(func(l *contexts.List) error { return l.Remove(c.Name) })
}

type contextLs struct{ outputFlags }

// printedContext is a context in JSON. The key is never printed.
type printedContext struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Key     bool   `json:"key"` // whether it has a key
	Current bool   `json:"current"`
}

// Help returns examples.
func (contextLs) Help() string { return examples("sluice context ls", "sluice context ls --json") }

// Run prints the contexts, sorted by name.
func (c *contextLs) Run(console *console) error {
	list, err := loadContexts()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', 0)
	for _, name := range list.Names() {
		context := list.Contexts[name]
		p := printedContext{name, context.URL, context.Key != "" || context.KeyFile != "", name == list.Current}
		if c.JSON {
			err = terminal.WriteJSON(console.out, p)
		} else {
			err = writeContext(table, p)
		}
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

func writeContext(w io.Writer, c printedContext) error {
	mark, key := " ", ""
	if c.Current {
		mark = "*"
	}
	if c.Key {
		key = "\twith a key"
	}
	_, err := fmt.Fprintf(w, "%s %s\t%s%s\n", mark, c.Name, terminal.Text(c.URL), key)
	return err
}
