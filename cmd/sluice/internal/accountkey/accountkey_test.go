package accountkey_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/accountkey"
	"sluice/test/testenv"
)

// The key in RFC 8032, section 7.1, test 1.
const (
	seed   = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	public = "0xd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
)

func TestParse(t *testing.T) {
	for _, text := range []string{seed, "0x" + seed, "ed25519-priv-0x" + seed, strings.ToUpper(seed), " " + seed + "\n"} {
		a, err := accountkey.Parse(text)
		if err != nil || a.PublicKey() != public {
			t.Errorf("%q: %s, %v, want %s", text, a.PublicKey(), err, public)
		}
	}
	for text, want := range map[string]string{
		"":                          "want an Ed25519 private key",
		seed[2:]:                    "want an Ed25519 private key",
		seed + "00":                 "want an Ed25519 private key",
		"zz" + seed[2:]:             "want an Ed25519 private key",
		"secp256k1-priv-0x" + seed:  "only Ed25519 keys are supported",
		"ed25519-pub-0x" + seed[2:]: "want an Ed25519 private key",
	} {
		if _, err := accountkey.Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), seed[4:20]) {
			t.Errorf("%q: error %v, want one with %q that does not repeat the key", text, err, want)
		}
	}
}

// TestAddressIsTheNetworks compares an account's address with the one that the network's SDK gives
// it: the key ed25519_legacy in micropay's test vectors.
func TestAddressIsTheNetworks(t *testing.T) {
	a := testenv.Must(accountkey.Parse(strings.Repeat("11", 32)))(t)
	const public, address = "0xd04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737", "0x147e4d3a5b10eaed2a93536e284c23096dfcea9ac61f0a8420e5d01fbd8f0ea8"
	if a.PublicKey() != public || a.Address().String() != address || a.Signer().Address().String() != address {
		t.Errorf("the key %s has the address %s, want %s and %s", a.PublicKey(), a.Address(), public, address)
	}
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys", "account.key")
	if _, err := accountkey.Read(name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "sluice account new") {
		t.Errorf("no file: %v", err)
	}
	first := testenv.Must(accountkey.New())(t)
	second, err := accountkey.New()
	if err != nil || first.Address() == second.Address() {
		t.Fatalf("two new accounts are equal: %v, %v", first.Address(), err)
	}
	testenv.OK(t, first.Create(name))
	testenv.Is(t, second.Create(name), fs.ErrExist, "the file was replaced")
	read, err := accountkey.Read(name)
	if err != nil || read.Address() != first.Address() || read.PublicKey() != first.PublicKey() {
		t.Errorf("read is %v, %v, want %v", read.Address(), err, first.Address())
	}
	text, err := os.ReadFile(name)
	if err != nil || !strings.HasPrefix(string(text), "ed25519-priv-0x") || len(text) != 80 {
		t.Errorf("the file has %d bytes, %v, want the form of AIP-80", len(text), err)
	}
	secret := strings.TrimSpace(strings.TrimPrefix(string(text), "ed25519-priv-0x"))
	if printed := fmt.Sprintf("%v %+v %#v", first, first, first); strings.Contains(printed, secret) {
		t.Errorf("fmt prints the secret: %s", printed)
	}
}
