// Package accountkey keeps an account in a file: the key pair that signs its micropayments.
package accountkey

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/secretfile"
	"sluice/micropay"
)

const (
	prefix = "ed25519-priv-0x" // precedes an Ed25519 private key's digits, as in the chain's AIP-80
	digits = 64                // in a private key
)

// Account is an account that pays, with its private key, which fmt does not print.
type Account struct {
	private micropay.PrivateKey
	signer  *micropay.Signer
	text    func() string // the private key as in AIP-80
}

// New returns a new random account.
func New() (Account, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return Account{}, err
	}
	private, err := micropay.NewPrivateKey(micropay.KeyEd25519, secret)
	if err != nil {
		return Account{}, err
	}
	return accountOf(private, hex.EncodeToString(secret))
}

// Parse returns the account with a private key: 64 hexadecimal digits, after nothing, after 0x, or,
// as in AIP-80, after ed25519-priv-0x. It ignores white space around the key. Errors do not repeat
// it.
func Parse(text string) (Account, error) {
	text = strings.TrimSpace(text)
	private, err := micropay.ParsePrivateKey(text)
	switch {
	case err != nil:
		return Account{}, errors.New("want an Ed25519 private key: 64 hexadecimal digits, with or without ed25519-priv-0x before them")
	case private.Public().Type != micropay.KeyEd25519:
		return Account{}, errors.New("the private key is a secp256k1 key: only Ed25519 keys are supported")
	}
	return accountOf(private, text[len(text)-digits:])
}

// accountOf returns the account with a private key that has these hexadecimal digits.
func accountOf(private micropay.PrivateKey, secret string) (Account, error) {
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, private)
	if err != nil {
		return Account{}, err
	}
	return Account{private, signer, func() string { return prefix + strings.ToLower(secret) }}, nil
}

// Signer returns the account's signer.
func (a Account) Signer() *micropay.Signer { return a.signer }

// Address returns the account's address.
func (a Account) Address() micropay.Address { return a.signer.Address() }

// PublicKey returns the account's public key as 0x and 64 hexadecimal digits.
func (a Account) PublicKey() string {
	return "0x" + hex.EncodeToString([]byte(a.private.Public().Bytes))
}

// Create writes the private key to a new file with mode 0600, durably.
func (a Account) Create(name string) error {
	err := secretfile.Create(name, []byte(a.text()+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write the key to %s: %w and may hold the only copy of a key: name another file, or move it away", name, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("cannot write the key: %w", err)
	}
	return nil
}

// Read returns the account in a file. It returns an error if users other than the file's owner may
// access it, and fs.ErrNotExist, with the remedy, if there is none.
func Read(name string) (Account, error) {
	text, err := secretfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Account{}, fmt.Errorf("cannot read the account in %s: %w: sluice account new makes one", name, fs.ErrNotExist)
	}
	if err != nil {
		return Account{}, fmt.Errorf("cannot read the account: %w", err)
	}
	a, err := Parse(string(text))
	if err != nil {
		return Account{}, fmt.Errorf("the file %s: %w", name, err)
	}
	return a, nil
}

// DefaultFile returns where the current user's account is.
func DefaultFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the folder for the account: %w", err)
	}
	return filepath.Join(dir, "sluice", "account.key"), nil
}
