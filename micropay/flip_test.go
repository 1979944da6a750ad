package micropay

import (
	"bytes"
	"encoding/base64"
	"slices"
	"testing"

	"sluice/test/testenv"
)

// genuine returns every vector with a valid signature.
func genuine(t testing.TB) map[string][]byte {
	policy, all := vectors(t)
	m := map[string][]byte{}
	for _, v := range all {
		if v.Class == "ok" || v.Class == "policy" {
			m[v.Name] = fromBase64(t, v.Header)
		}
	}
	for name, header := range severalKeys(t) {
		if _, err := receive(header, policy, vectorTime); err == nil {
			m[name] = fromBase64(t, header)
		}
	}
	if len(m) != 14+5 {
		t.Fatalf("%d genuine vectors, want 19", len(m))
	}
	return m
}

func verified(b []byte) error {
	m, err := Parse(b)
	if err != nil {
		return err
	}
	return m.Verify()
}

// A micropayment with one changed bit is refused under every policy: each bit is covered by the
// signature, the address or the parser.
func TestEveryBitFlipIsRefused(t *testing.T) {
	for name, b := range genuine(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.OK(t, verified(b))
			flipped := slices.Clone(b)
			for i := 0; i < 8*len(b); i += flipStride {
				flipped[i/8] ^= 1 << (i % 8)
				if verified(flipped) == nil {
					t.Errorf("with bit %d of byte %d flipped it is accepted", i%8, i/8)
				}
				flipped[i/8] = b[i/8]
			}
		})
	}
}

// The same holds for the base64 text, where a flip can produce a line break.
func TestEveryBitFlipOfTheHeaderIsRefused(t *testing.T) {
	b := genuine(t)["nonce-zero"]
	header := base64.StdEncoding.EncodeToString(b) // ends in padding
	for i := 0; i < 8*len(header); i += flipStride {
		flipped := []byte(header)
		flipped[i/8] ^= 1 << (i % 8)
		m, err := ParseBase64(string(flipped))
		if err == nil {
			err = m.Verify()
		}
		if err == nil {
			t.Errorf("with bit %d of character %d flipped it is accepted", i%8, i/8)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	for name, b := range genuine(t) {
		for n := range b {
			if _, err := Parse(b[:n]); class(err) != ClassParse {
				t.Errorf("%s: first %d bytes: %v", name, n, err)
			}
		}
		for c := range 256 {
			if _, err := Parse(append(slices.Clone(b), byte(c))); reason(err) != ReasonTrailingBytes {
				t.Errorf("%s: one more byte %d: %v", name, c, err)
			}
		}
	}
}

func TestParseKeepsItsOwnCopy(t *testing.T) {
	b := genuine(t)["multikey-2of3"]
	own := slices.Clone(b)
	m, err := Parse(b)
	testenv.OK(t, err)
	clear(b)
	clear(m.Bytes())
	if err := m.Verify(); err != nil || !bytes.Equal(m.Bytes(), own) {
		t.Errorf("the micropayment changed with the caller's bytes: %v", err)
	}
}
