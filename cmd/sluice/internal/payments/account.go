package payments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sluice/cmd/sluice/internal/accountkey"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/secretfile"
)

// Account manages the user's key pair, which signs micropayments.
type Account struct {
	New  accountNew  `cmd:"" help:"Make a key pair, or import one, in a new file of mode 0600, and print its address."`
	Show accountShow `cmd:"" help:"Print the address of a key pair."`
}

// accountFile names a key pair's file.
type accountFile struct {
	File string `arg:"" optional:"" help:"File of the key pair. Default: account.key in the folder of the contexts."`

	cli.OutputFlags
}

func (f *accountFile) path() (string, error) {
	if f.File != "" {
		return f.File, nil
	}
	return accountkey.DefaultFile()
}

// printedAccount is an account in JSON. Its private key is never printed.
type printedAccount struct {
	Address   string `json:"address"`
	PublicKey string `json:"publicKey"`
	File      string `json:"file"`
}

// print prints the address alone to stdout, and the rest to stderr.
func (f *accountFile) print(console *cli.Console, k accountkey.Account, file string) error {
	return f.ResultWithRemarks(console, printedAccount{k.Address().String(), k.PublicKey(), file}, k.Address().String(),
		"public key "+k.PublicKey(), "key pair in "+terminal.Name(file))
}

type accountNew struct {
	accountFile

	Import bool `env:"-" help:"Read an Ed25519 private key from standard input: hexadecimal digits, or ed25519-priv-0x and the digits."`
}

// Run makes or imports the key pair. It never replaces a file.
func (c *accountNew) Run(console *cli.Console) error {
	file, err := c.path()
	if err != nil {
		return err
	}
	k, err := c.key(console.In)
	if err != nil {
		return err
	}
	if err := k.Create(file); err != nil {
		return err
	}
	return c.print(console, k, file)
}

func (c *accountNew) key(stdin io.Reader) (accountkey.Account, error) {
	if !c.Import {
		return accountkey.New()
	}
	text, err := io.ReadAll(io.LimitReader(stdin, secretfile.MaxSize))
	if err != nil {
		return accountkey.Account{}, fmt.Errorf("cannot read the private key from standard input: %w", err)
	}
	k, err := accountkey.Parse(string(text))
	if err != nil {
		return k, cli.ExitWith(cli.ExitUsage, fmt.Errorf("--import: standard input: %w", err))
	}
	return k, nil
}

type accountShow struct{ accountFile }

// Run prints the address.
func (c *accountShow) Run(console *cli.Console) error {
	file, err := c.path()
	if err != nil {
		return err
	}
	k, err := accountkey.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.ExitWith(cli.ExitNotFound, err)
	case err != nil:
		return err
	}
	return c.print(console, k, file)
}
