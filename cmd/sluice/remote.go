package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/blob"
	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// remoteOperand is an operand on a server: ACCOUNT/NAME, ACCOUNT/PREFIX/ or ACCOUNT.
type remoteOperand struct{ operand.Remote }

// UnmarshalText parses the operand.
func (r *remoteOperand) UnmarshalText(text []byte) (err error) {
	if r.Remote, err = operand.ParseRemote(string(text)); err != nil {
		return err
	}
	return checkRemote(r.Remote)
}

// checkRemote returns an error for an operand that no server accepts.
func checkRemote(r operand.Remote) error {
	_, err := blob.ParseAccount(r.Account)
	if err == nil && !r.Folder() {
		err = blob.CheckName(r.Name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want ACCOUNT/NAME, such as team/photo.jpg", terminal.Name(r.String()), err)
	}
	return nil
}

// Decode implements kong.MapperValue.
func (r *remoteOperand) Decode(ctx *kong.DecodeContext) error { return decodeText(ctx, r) }

// client returns a client for the context that an operand names, or for the server that the flags
// name.
func (f *serverFlags) client(console *console, context string) (*client.Client, error) {
	return f.clientWith(console, context, client.Options{})
}

// clientWith is client with options that no flag sets.
func (f *serverFlags) clientWith(console *console, context string, o client.Options) (*client.Client, error) {
	server, err := f.serverOf(context)
	if err != nil {
		return nil, err
	}
	roots, err := f.roots()
	if err != nil {
		return nil, err
	}
	o.RootCAs, o.RetryFor, o.OnOutage = roots, f.RetryFor, console.outage
	return newClient(console, server, o)
}

// below returns the blob or prefix with a name relative to a folder.
func below(to operand.Remote, name string) operand.Remote {
	to.Name += name
	return to
}

// asFolder returns a prefix that ends in a slash, unless it is a whole account.
func asFolder(r operand.Remote) operand.Remote {
	if !r.Folder() {
		r.Name += "/"
	}
	return r
}

// baseOf returns the part behind the last slash in a blob's name.
func baseOf(name string) string { return path.Base("/" + name) }

// checkPrefix returns an error unless a target can have several blobs below it.
func checkPrefix(to operand.Remote) error {
	if !to.Folder() {
		return usagef("%s is a single blob: want ACCOUNT/PREFIX/, with the last slash, as the target of several sources", terminal.Name(to.String()))
	}
	return nil
}

func bothWouldBe(one, other string, target operand.Remote) error {
	return usagef("%s and %s would both be %s: copy one of them by itself", terminal.Name(one), terminal.Name(other), terminal.Name(target.String()))
}

// keptName returns the name that one of several operands keeps: the part behind the last slash, or
// the account.
func keptName(r operand.Remote) string {
	if name := strings.TrimSuffix(r.Name, "/"); name != "" {
		return baseOf(name)
	}
	return r.Account
}

// newClient returns a client for a server. It announces on the console when it waits because the
// server asks for it.
func newClient(console *console, s contexts.Server, o client.Options) (*client.Client, error) {
	o.Key, o.UserAgent, o.OnWait = s.Key, "sluice/"+version(), console.waits
	o.OnSlow = console.slow
	c, err := client.New(s.URL, o)
	if err != nil {
		return nil, exitWith(exitUsage, about(s.Source, err))
	}
	return c, nil
}
