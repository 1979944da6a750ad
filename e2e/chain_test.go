package e2e

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sluice/internal/fullnode"
	"sluice/micropay"
)

// testChain is a chain on which a server collects payments: a fullnode, and the receiver's account.
type testChain struct {
	*fullnode.Node
	receiver *micropay.Signer
	key      string // the receiver's private key in hexadecimal
	apiKey   string // the fullnode's
	flags    []string
}

// startChain starts a fullnode that follows the machine's clock. The flags let a server collect on
// it.
func startChain(t testing.TB) *testChain {
	t.Helper()
	c := &testChain{
		Node:   fullnode.Start(t, fullnode.Options{}),
		key:    hex.EncodeToString(bytes.Repeat([]byte{0xc4, 0x1e}, 16)),
		apiKey: "fullnode-canary-6QYB2MW4",
	}
	key, err := micropay.ParsePrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.receiver, err = micropay.NewSigner(micropay.SchemeEd25519, key); err != nil {
		t.Fatal(err)
	}
	c.flags = []string{
		"--chain-url", c.URL(), "--receiver", c.receiver.Address().String(),
		"--receiver-key-file", secretFile(t, "ed25519-priv-0x"+c.key+"\n"), "--chain-api-key-file", secretFile(t, c.apiKey+"\n"),
	}
	return c
}

// secretFile returns a new file's path. Only the current user may read it.
func secretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// with returns options for a server that collects on the chain.
func (c *testChain) with(flags ...string) options {
	return options{flags: slices.Concat([]string{"--reads", "paid"}, c.flags, flags)}
}
