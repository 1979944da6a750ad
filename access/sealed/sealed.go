// Package sealed encrypts secrets that a database keeps. The keys that open them are in a file
// outside the database, so nobody can read a secret with the database alone.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrKeys means that a text does not consist of master keys.
	ErrKeys = errors.New("want one line of 64 hexadecimal digits for each key, such as the output of openssl rand -hex 32")
	// ErrUnknownMaster means that no master key is the one that sealed a secret.
	ErrUnknownMaster = errors.New("it was sealed with a key that is not in the file")
	// ErrDamaged means that a secret was changed, or that it belongs to another owner.
	ErrDamaged = errors.New("it was changed, or belongs to another key")
)

// format is a sealed secret's first byte. The master key's mark, the nonce, and AES-256-GCM's
// result (NIST SP 800-38D) follow it.
const format = 1

// markSize is the size of a master key's mark, which identifies the key that opens a secret.
const markSize = 4

// mostKeys bounds how many master keys a box has.
const mostKeys = 16

// Box seals secrets with its first master key, and opens secrets that any of them has sealed. It
// may be used concurrently. At most 2^32 secrets may be sealed with one master key, because its
// nonces are random.
type Box struct{ masters []master }

type master struct {
	mark [markSize]byte
	aead cipher.AEAD
}

// Parse returns a box with the master keys in a text: one line of 64 hexadecimal digits for each,
// the one that seals first. It ignores empty lines. The error wraps ErrKeys, and does not contain
// the text.
func Parse(text []byte) (*Box, error) {
	var b Box
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, err := hex.DecodeString(line)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("line %d: %w", len(b.masters)+1, ErrKeys)
		}
		m, err := newMaster(key)
		if err != nil {
			return nil, err
		}
		b.masters = append(b.masters, m)
	}
	if len(b.masters) == 0 || len(b.masters) > mostKeys {
		return nil, fmt.Errorf("%d keys, not 1 to %d: %w", len(b.masters), mostKeys, ErrKeys)
	}
	return &b, nil
}

func newMaster(key []byte) (m master, err error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return m, err
	}
	if m.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return m, err
	}
	sum := sha256.Sum256(append([]byte("sluice: mark of a master key\n"), key...))
	copy(m.mark[:], sum[:])
	return m, nil
}

// Seal encrypts an owner's secret. Open returns it for the same owner only.
func (b *Box) Seal(owner, secret string) []byte {
	m := &b.masters[0]
	out := append([]byte{format}, m.mark[:]...)
	return m.aead.Seal(out, nil, []byte(secret), bound(out, owner))
}

// Open returns an owner's secret. It returns ErrUnknownMaster or ErrDamaged.
func (b *Box) Open(owner string, sealed []byte) (string, error) {
	m, err := b.masterOf(sealed)
	if err != nil {
		return "", err
	}
	const head = 1 + markSize
	secret, err := m.aead.Open(nil, nil, sealed[head:], bound(sealed[:head], owner))
	if err != nil {
		return "", ErrDamaged
	}
	return string(secret), nil
}

// Current reports whether Seal would use the master key that has sealed this secret.
func (b *Box) Current(sealed []byte) bool {
	m, err := b.masterOf(sealed)
	return err == nil && m == &b.masters[0]
}

// Marks returns the master keys' marks, in the keys' order. A mark reveals nothing about its key.
func (b *Box) Marks() string {
	var marks []string
	for _, m := range b.masters {
		marks = append(marks, hex.EncodeToString(m.mark[:]))
	}
	return strings.Join(marks, ",")
}

// masterOf returns the master key that has sealed a secret.
func (b *Box) masterOf(sealed []byte) (*master, error) {
	if len(sealed) < 1+markSize || sealed[0] != format {
		return nil, ErrDamaged
	}
	for i := range b.masters {
		if m := &b.masters[i]; m.mark == [markSize]byte(sealed[1:]) {
			return m, nil
		}
	}
	return nil, ErrUnknownMaster
}

// bound returns the additional data for encrypting a secret: its form and its owner.
func bound(head []byte, owner string) []byte {
	return append(append([]byte("sluice: S3 secret\n"), head...), owner...)
}
