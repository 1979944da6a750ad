// Package accountkey keeps the key pair of an account, with which micropayments are signed, in a file.
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
	prefix = "ed25519-priv-0x" // precedes the digits of an Ed25519 private key, as in AIP-80 of the chain
	digits = 64                // of a private key
)

// Key is the key pair of an account. fmt does not print its secret.
type Key struct {
	private micropay.PrivateKey
	signer  *micropay.Signer
	text    func() string // the private key in the form of AIP-80
}

// New returns a new random key pair.
func New() (Key, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return Key{}, err
	}
	private, err := micropay.NewPrivateKey(micropay.KeyEd25519, secret)
	if err != nil {
		return Key{}, err
	}
	return keyOf(private, hex.EncodeToString(secret))
}

// Parse parses a private key: 64 hexadecimal digits, with or without 0x before them, or the form of
// AIP-80, ed25519-priv-0x and the digits. White space around it is ignored. Errors do not repeat it.
func Parse(text string) (Key, error) {
	text = strings.TrimSpace(text)
	private, err := micropay.ParsePrivateKey(text)
	switch {
	case err != nil:
		return Key{}, errors.New("want an Ed25519 private key: 64 hexadecimal digits, with or without ed25519-priv-0x before them")
	case private.Public().Type != micropay.KeyEd25519:
		return Key{}, errors.New("the private key is a secp256k1 key: only Ed25519 keys are supported")
	}
	return keyOf(private, text[len(text)-digits:])
}

// keyOf returns the key pair of a private key with these hexadecimal digits.
func keyOf(private micropay.PrivateKey, secret string) (Key, error) {
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, private)
	if err != nil {
		return Key{}, err
	}
	return Key{private, signer, func() string { return prefix + strings.ToLower(secret) }}, nil
}

// Signer returns the signer of the account.
func (k Key) Signer() *micropay.Signer { return k.signer }

// Address returns the address of the account.
func (k Key) Address() micropay.Address { return k.signer.Address() }

// PublicKey returns the public key as 0x and 64 hexadecimal digits.
func (k Key) PublicKey() string { return "0x" + hex.EncodeToString([]byte(k.private.Public().Bytes)) }

// Create writes the private key to a new file with mode 0600, durably.
func (k Key) Create(name string) error {
	err := secretfile.Create(name, []byte(k.text()+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write the key to %s: %w and may hold the only copy of a key: name another file, or move it away", name, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("cannot write the key: %w", err)
	}
	return nil
}

// Read returns the key pair in a file. It returns an error if others than its owner may access the
// file, and fs.ErrNotExist, with what to do, if there is none.
func Read(name string) (Key, error) {
	text, err := secretfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Key{}, fmt.Errorf("cannot read the account in %s: %w: sluice account new makes one", name, fs.ErrNotExist)
	}
	if err != nil {
		return Key{}, fmt.Errorf("cannot read the account: %w", err)
	}
	k, err := Parse(string(text))
	if err != nil {
		return Key{}, fmt.Errorf("the file %s: %w", name, err)
	}
	return k, nil
}

// DefaultFile returns the path of the file of the account of the current user.
func DefaultFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the folder for the account: %w", err)
	}
	return filepath.Join(dir, "sluice", "account.key"), nil
}
