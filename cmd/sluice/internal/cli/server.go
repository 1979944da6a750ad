package cli

import (
	"crypto/x509"
	"os"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
)

// ServerFlags name a command's server and its API key. Commands that use a server embed them.
type ServerFlags struct {
	URL      string        `name:"url" env:"-" group:"Server:" placeholder:"URL" help:"Base URL of the server, with its base path. Default: SLUICE_URL, or ${default_url}."`
	Context  string        `env:"-" group:"Server:" placeholder:"NAME" help:"Named server, see sluice context. Default: SLUICE_CONTEXT, or the current context."`
	KeyFile  string        `env:"-" group:"Server:" type:"path" placeholder:"FILE" help:"File with the API key. Default: the key of the context, SLUICE_KEY, or the file SLUICE_KEY_FILE."`
	RetryFor time.Duration `env:"-" group:"Server:" placeholder:"DURATION" default:"1m" help:"For how long requests are repeated while a server that has responded before is away. 0s: for a few seconds."`
	CAFile   string        `name:"ca-file" env:"-" group:"Server:" type:"path" placeholder:"FILE" help:"File with the certificate authorities that sign the server's certificate, in PEM. Default: the system's."`
}

// Roots returns the certificate authorities of --ca-file, or nil without it.
func (f *ServerFlags) Roots() (*x509.CertPool, error) {
	if f.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.CAFile)
	if err != nil {
		return nil, Usagef("--ca-file: cannot read the file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, Usagef("--ca-file: the file %s has no certificate in PEM", f.CAFile)
	}
	return roots, nil
}

// Server returns the context that an operand names, or, if it is "", the server that the flags, the
// environment and the contexts name.
func (f *ServerFlags) Server(context string) (s contexts.Server, err error) {
	if context == "" {
		s, err = contexts.Choice{URL: f.URL, Context: f.Context, KeyFile: f.KeyFile, Getenv: os.Getenv}.Choose(LoadContexts)
	} else {
		s, err = contexts.Named(context, LoadContexts)
	}
	if err != nil {
		return s, ExitWith(ExitUsage, err)
	}
	return s, nil
}

// Client returns a client for the context that an operand names, or for the server that the flags
// name.
func (f *ServerFlags) Client(console *Console, context string) (*client.Client, error) {
	return f.ClientWith(console, context, client.Options{})
}

// ClientOf returns a client for the server of a command's operands, which must be the same.
func (f *ServerFlags) ClientOf(console *Console, of ...RemoteOperand) (*client.Client, error) {
	context := ""
	for i, o := range of {
		if context = of[0].Context; o.Context != context {
			return nil, Usagef("%s and %s are not on one server: name one after another", terminal.Name(of[0].String()), terminal.Name(of[i].String()))
		}
	}
	return f.Client(console, context)
}

// ClientWith is client with options that no flag sets.
func (f *ServerFlags) ClientWith(console *Console, context string, o client.Options) (*client.Client, error) {
	server, err := f.Server(context)
	if err != nil {
		return nil, err
	}
	if o.RootCAs, err = f.Roots(); err != nil {
		return nil, err
	}
	o.RetryFor, o.OnOutage = f.RetryFor, console.outage
	return NewClient(console, server, o)
}

// NewClient returns a client for a server. It announces on the console when it waits because the
// server asks for it.
func NewClient(console *Console, s contexts.Server, o client.Options) (*client.Client, error) {
	o.Key, o.UserAgent, o.OnWait = s.Key, "sluice/"+Version(), console.waits
	o.OnSlow = console.slow
	c, err := client.New(s.URL, o)
	if err != nil {
		return nil, ExitWith(ExitUsage, About(s.Source, err))
	}
	return c, nil
}

// LoadContexts returns the contexts of the user.
func LoadContexts() (*contexts.List, error) {
	name, err := contexts.DefaultFile()
	if err != nil {
		return nil, err
	}
	return contexts.Load(name)
}

// ClientVariables are the environment variables that serverFlags use.
var ClientVariables = []string{contexts.EnvURL, contexts.EnvContext, contexts.EnvKey, contexts.EnvKeyFile}
