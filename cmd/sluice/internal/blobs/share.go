package blobs

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/secretfile"
	"sluice/node"
)

// The environment variables in which tools for S3 expect a key and its secret.
const (
	envAccessKey = "AWS_ACCESS_KEY_ID"
	envSecretKey = "AWS_SECRET_ACCESS_KEY"
)

// Share makes a signed link.
type Share struct {
	Blob cli.RemoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ for all blobs below a prefix."`

	For        time.Duration `env:"-" default:"7d" placeholder:"TIME" help:"How long the link is valid, at most 7d."`
	Write      bool          `env:"-" help:"Make a link to create the blob, if it does not exist, instead of one to read it."`
	SecretFile string        `env:"-" type:"path" placeholder:"FILE" help:"File with the lines that sluice key create --s3 has printed. Default: the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."`

	cli.ServerFlags
	cli.OutputFlags
}

// printedLink is a link in JSON.
type printedLink struct {
	URL     string    `json:"url"`
	List    string    `json:"list,omitempty"`   // only of a prefix
	Expires time.Time `json:"expires,omitzero"` // none on a local instance
}

// Run prints the link.
func (c *Share) Run(ctx context.Context, console *cli.Console) error {
	of := c.Blob.Remote
	switch {
	case of.Name == "":
		return cli.Usagef("%s is a whole account: a link is for ACCOUNT/NAME or ACCOUNT/PREFIX/", terminal.Name(of.String()))
	case c.Write && of.Folder():
		return cli.Usagef("%s is a prefix: a link can create a single blob, ACCOUNT/NAME", terminal.Name(of.String()))
	case c.For < time.Second || c.For > client.MaxShare:
		return cli.Usagef("--for: a link is valid for 1s to 7d")
	}
	with, err := c.ClientWith(console, of.Context, client.Options{MaxAttempts: 1})
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
		return cli.ExitWith(cli.ExitUsage, err)
	}
	shared, err := with.Share(of.Account, of.Name, o)
	if err != nil {
		return err
	}
	return c.ResultWithRemarks(console, printedLink{shared.URL, shared.List, shared.Expires.UTC()}, shared.URL, remarkOn(shared, c.Write))
}

// printPlain prints the URL on a local instance, which serves everybody who can reach it.
func (c *Share) printPlain(console *cli.Console, with *client.Client) error {
	plain, list, err := with.Address(c.Blob.Account, c.Blob.Name)
	if err != nil {
		return err
	}
	return c.ResultWithRemarks(console, printedLink{URL: plain, List: list}, plain, "The instance is local: it needs no link, and serves only this machine unless it listens elsewhere.")
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
func (c *Share) secret() (id, secret string, err error) {
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
