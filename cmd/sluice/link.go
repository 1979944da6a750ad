package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/secretfile"
	"sluice/node"
)

// The environment variables in which tools for S3 expect a key and its secret.
const (
	envAccessKey = "AWS_ACCESS_KEY_ID"
	envSecretKey = "AWS_SECRET_ACCESS_KEY"
)

// shareCommand makes a signed link.
type shareCommand struct {
	Blob remoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ for all blobs below a prefix."`

	For        time.Duration `env:"-" default:"7d" placeholder:"TIME" help:"How long the link is valid, at most 7d."`
	Write      bool          `env:"-" help:"Make a link to create the blob, if it does not exist, instead of one to read it."`
	SecretFile string        `env:"-" type:"path" placeholder:"FILE" help:"File with the lines that sluice key create --s3 has printed. Default: the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."`

	serverFlags
	outputFlags
}

// Help describes links, and has examples.
func (*shareCommand) Help() string {
	return "Prints a URL with which others use a hosted network without a key, until it expires or the key that signs it is revoked. The key needs an S3 secret. On a local instance, which needs no link, the plain URL is printed.\n\n" +
		examples("sluice share team/photo.jpg --for 1d", "sluice share team/photos/", "sluice share --write team/inbox/report.pdf --secret-file team.s3")
}

// printedLink is a link in JSON.
type printedLink struct {
	URL     string    `json:"url"`
	List    string    `json:"list,omitempty"`   // only of a prefix
	Expires time.Time `json:"expires,omitzero"` // none on a local instance
}

// Run prints the link.
func (c *shareCommand) Run(ctx context.Context, console *console) error {
	of := c.Blob.Remote
	switch {
	case of.Name == "":
		return usagef("%s is a whole account: a link is for ACCOUNT/NAME or ACCOUNT/PREFIX/", terminal.Name(of.String()))
	case c.Write && of.Folder():
		return usagef("%s is a prefix: a link can create a single blob, ACCOUNT/NAME", terminal.Name(of.String()))
	case c.For < time.Second || c.For > client.MaxShare:
		return usagef("--for: a link is valid for 1s to 7d")
	}
	with, err := c.clientWith(console, "", client.Options{MaxAttempts: 1})
	if err != nil {
		return err
	}
	o := client.ShareOptions{For: c.For, Create: c.Write}
	if o.KeyID, o.Secret, err = c.secret(); err != nil || isLoopback(with.URL()) {
		if info, infoErr := with.Info(ctx); infoErr == nil && info.Profile == string(node.Local) {
			return c.printPlain(console, with)
		}
	}
	if err != nil {
		return exitWith(exitUsage, err)
	}
	shared, err := with.Share(of.Account, of.Name, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return terminal.WriteJSON(console.out, printedLink{shared.URL, shared.List, shared.Expires.UTC()})
	}
	return errors.Join(printLine(console.out, shared.URL), c.remark(console, remarkOn(shared, c.Write)))
}

// printPlain prints the URL on a local instance, which serves everybody who can reach it.
func (c *shareCommand) printPlain(console *console, with *client.Client) error {
	plain, list, err := with.Address(c.Blob.Account, c.Blob.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return terminal.WriteJSON(console.out, printedLink{URL: plain, List: list})
	}
	return errors.Join(printLine(console.out, plain), c.remark(console, "The instance is local: it needs no link, and serves only this machine unless it listens elsewhere."))
}

// isLoopback reports whether a URL is one of this machine.
func isLoopback(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// remarkOn describes how a link is used.
func remarkOn(shared client.Link, creates bool) string {
	until := "until " + formatTime(shared.Expires)
	switch {
	case creates:
		return "PUT creates the blob once, " + until + ": curl -T FILE 'URL'"
	case shared.List != "":
		return "Put the rest of a name before the question mark. This lists the names, " + until + ": " + shared.List
	default:
		return "GET reads the blob, " + until + "."
	}
}

// secret returns the signing key's id and its S3 secret.
func (c *shareCommand) secret() (id, secret string, err error) {
	if c.SecretFile == "" {
		if id, secret = os.Getenv(envAccessKey), os.Getenv(envSecretKey); id == "" || secret == "" {
			return "", "", fmt.Errorf("a link is signed with the S3 secret of a key: set %s and %s, or use --secret-file", envAccessKey, envSecretKey)
		}
		return id, secret, nil
	}
	text, err := secretfile.Read(c.SecretFile)
	if err != nil {
		return "", "", fmt.Errorf("--secret-file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
		case envAccessKey:
			id = value
		case envSecretKey:
			secret = value
		}
	}
	if id == "" || secret == "" {
		return "", "", fmt.Errorf("--secret-file: the file %s does not have the lines %s=ID and %s=SECRET, which sluice key create --s3 prints", c.SecretFile, envAccessKey, envSecretKey)
	}
	return id, secret, nil
}
