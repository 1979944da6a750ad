package micropay

import (
	"bytes"
	"errors"
	"testing"
)

// A micropayment that can be parsed is encoded to the same bytes again, and nothing panics.
func FuzzParse(f *testing.F) {
	_, all := vectors(f)
	for _, v := range all {
		if v.Class != "encoding" {
			f.Add(fromBase64(f, v.Header))
		}
	}
	for _, header := range severalKeys(f) {
		f.Add(fromBase64(f, header))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Reason == "" || m != nil {
				t.Fatalf("refused with %#v, %v", err, m)
			}
			return
		}
		encoded, signed := m.append(nil)
		encoded = m.auth.append(encoded)
		if !bytes.Equal(encoded, b) || signed != m.signed {
			t.Fatalf("encodes to %x, parsed from %x", encoded, b)
		}
		if err := m.Verify(); err != nil && !errors.Is(err, ErrRefused) {
			t.Fatalf("Verify: %v", err)
		}
	})
}

// Every accepted base64 text is the only encoding of its bytes.
func FuzzParseBase64(f *testing.F) {
	_, all := vectors(f)
	for _, v := range all {
		f.Add(v.Header)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseBase64(s)
		if err == nil && m.Base64() != s {
			t.Fatalf("%q is encoded as %q", s, m.Base64())
		}
	})
}

// Whatever bits the authenticator has, no message but the signed one is verified.
func FuzzAuthenticator(f *testing.F) {
	b := genuine(f)["ed25519-basic"]
	const start = 271
	known := map[string]bool{}
	for _, g := range genuine(f) {
		known[string(g)] = true
		f.Add(g[min(start, len(g)):])
	}
	f.Fuzz(func(t *testing.T, auth []byte) {
		forged := append(bytes.Clone(b[:start]), auth...)
		if verified(forged) == nil && !known[string(forged)] {
			t.Fatalf("forged: %x", auth)
		}
	})
}
