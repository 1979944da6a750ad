package main

import (
	"crypto/x509"
	"os"
	"time"

	"sluice/cmd/sluice/internal/contexts"
)

// serverFlags name a command's server and its API key. Commands that use a server embed them.
type serverFlags struct {
	URL      string        `name:"url" env:"-" group:"Server:" placeholder:"URL" help:"Base URL of the server, with its base path. Default: SLUICE_URL, or ${default_url}."`
	Context  string        `env:"-" group:"Server:" placeholder:"NAME" help:"Named server, see sluice context. Default: SLUICE_CONTEXT, or the current context."`
	KeyFile  string        `env:"-" group:"Server:" type:"path" placeholder:"FILE" help:"File with the API key. Default: the key of the context, SLUICE_KEY, or the file SLUICE_KEY_FILE."`
	RetryFor time.Duration `env:"-" group:"Server:" placeholder:"DURATION" default:"1m" help:"For how long requests are repeated while a server that has responded before is away. 0s: for a few seconds."`
	CAFile   string        `name:"ca-file" env:"-" group:"Server:" type:"path" placeholder:"FILE" help:"File with the certificate authorities that sign the server's certificate, in PEM. Default: the system's."`
}

// roots returns the certificate authorities of --ca-file, or nil without it.
func (f *serverFlags) roots() (*x509.CertPool, error) {
	if f.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.CAFile)
	if err != nil {
		return nil, usagef("--ca-file: cannot read the file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, usagef("--ca-file: the file %s has no certificate in PEM", f.CAFile)
	}
	return roots, nil
}

// server returns the server that the flags, the environment and the contexts name.
func (f *serverFlags) server() (contexts.Server, error) {
	choice := contexts.Choice{URL: f.URL, Context: f.Context, KeyFile: f.KeyFile, Getenv: os.Getenv}
	s, err := choice.Choose(loadContexts)
	if err != nil {
		return s, exitWith(exitUsage, err)
	}
	return s, nil
}

// serverOf returns the context that an operand names, or the flags' server if it names none.
func (f *serverFlags) serverOf(context string) (contexts.Server, error) {
	if context == "" {
		return f.server()
	}
	s, err := contexts.Named(context, loadContexts)
	if err != nil {
		return s, exitWith(exitUsage, err)
	}
	return s, nil
}

func loadContexts() (*contexts.List, error) {
	name, err := contexts.DefaultFile()
	if err != nil {
		return nil, err
	}
	return contexts.Load(name)
}

// clientVariables are the environment variables that serverFlags use.
var clientVariables = []string{contexts.EnvURL, contexts.EnvContext, contexts.EnvKey, contexts.EnvKeyFile}
