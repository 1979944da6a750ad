package micropay

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// splice returns b with n bytes at offset at replaced.
func splice(b []byte, at, n int, with ...byte) []byte {
	return slices.Concat(b[:at], with, b[at+n:])
}

func TestParseRefuses(t *testing.T) {
	b := genuine(t)["ed25519-basic"]
	multi := genuine(t)["multi-ed25519-2of3-first-last"]
	mixed := genuine(t)["multikey-2of3"]
	single := genuine(t)["single-ed25519"]
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	address := make([]byte, 32)
	tests := []struct {
		name   string
		bytes  []byte
		class  Class
		reason Reason
	}{
		{"nil", nil, ClassParse, ReasonTruncated},
		{"one byte above the limit", make([]byte, MaxSize+1), ClassParse, ReasonTooLong},
		{"payload variant 5", splice(b, 40, 1, 5), ClassParse, ReasonUnknownVariant},
		{"module bundle", splice(b, 40, 1, 1), ClassShape, ReasonPayload},
		{"multisig payload", splice(b, 40, 1, 3), ClassShape, ReasonPayload},
		{"inner payload variant 1", splice(b, 41, 1, 1), ClassParse, ReasonUnknownVariant},
		{"script executable", splice(b, 42, 1, 0), ClassShape, ReasonPayload},
		{"empty executable", splice(b, 42, 1, 2), ClassShape, ReasonPayload},
		{"executable variant 3", splice(b, 42, 1, 3), ClassParse, ReasonUnknownVariant},
		{"module name of 4 GiB", splice(b, 75, 1, huge...), ClassParse, ReasonNotCanonical},
		{"module name of 2 GiB", splice(b, 75, 1, 0xff, 0xff, 0xff, 0xff, 0x07), ClassParse, ReasonTruncated},
		{"length of 64 bits", splice(b, 75, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), ClassParse, ReasonNotCanonical},
		{"length beyond 64 bits", splice(b, 75, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), ClassParse, ReasonNotCanonical},
		{"length without end", append(slices.Clone(b[:75]), 0x8d), ClassParse, ReasonTruncated},
		{"length with padding", splice(b, 75, 1, 0x8d, 0x80, 0x00), ClassParse, ReasonNotCanonical},
		{"variant with padding", splice(b, 40, 1, 0x84, 0x00), ClassParse, ReasonNotCanonical},
		{"authenticator variant with padding", splice(b, 271, 1, 0x80, 0x00), ClassParse, ReasonNotCanonical},
		{"empty module name", splice(b, 75, 14, 0), ClassShape, ReasonModuleName},
		{"other case in function name", splice(b, 90, 1, 'R'), ClassShape, ReasonFunctionName},
		{"2^31-1 type arguments", splice(b, 107, 1, 0xff, 0xff, 0xff, 0xff, 0x07), ClassShape, ReasonTypeArgs},
		{"2^31-1 arguments", splice(b, 108, 1, 0xff, 0xff, 0xff, 0xff, 0x07), ClassParse, ReasonTruncated},
		{"no arguments", splice(b, 108, 61, 0), ClassShape, ReasonArgs},
		{"amount as u128", splice(b, 109, 9, append([]byte{16}, make([]byte, 16)...)...), ClassShape, ReasonArgs},
		{"channel as u32", splice(b, 118, 9, 4, 0, 0, 0, 0), ClassShape, ReasonArgs},
		{"asset of 31 bytes", splice(b, 136, 33, append([]byte{31}, make([]byte, 31)...)...), ClassShape, ReasonArgs},
		{"asset of 33 bytes", splice(b, 136, 33, append([]byte{33}, make([]byte, 33)...)...), ClassShape, ReasonArgs},
		{"extra configuration variant 1", splice(b, 169, 1, 1), ClassParse, ReasonUnknownVariant},
		{"multisig address option 2", splice(b, 170, 1, 2), ClassParse, ReasonUnknownVariant},
		{"nonce option 2", splice(b, 171, 1, 2), ClassParse, ReasonUnknownVariant},
		{"two secondary signers", splice(b, 205, 1, append([]byte{2}, address...)...), ClassShape, ReasonSecondary},
		{"2^31-1 secondary signers", splice(b, 205, 1, 0xff, 0xff, 0xff, 0xff, 0x07), ClassShape, ReasonSecondary},
		{"fee payer 0x1", splice(b, 270, 1, 1), ClassShape, ReasonFeePayer},
		{"abstraction authenticator", splice(b, 271, 1, 5), ClassSigner, ReasonUnsupported},
		{"authenticator variant 6", splice(b, 271, 1, 6), ClassParse, ReasonUnknownVariant},
		{"authenticator variant 256", splice(b, 271, 1, 0x80, 0x02), ClassParse, ReasonUnknownVariant},
		{"key of 31 bytes", splice(b, 272, 33, append([]byte{31}, make([]byte, 31)...)...), ClassParse, ReasonAuthenticator},
		{"signature of 63 bytes", splice(b, 305, 65, append([]byte{63}, make([]byte, 63)...)...), ClassParse, ReasonAuthenticator},

		{"threshold 0", splice(multi, 272+1+96, 1, 0), ClassParse, ReasonAuthenticator},
		{"threshold 4 of 3", splice(multi, 272+1+96, 1, 4), ClassParse, ReasonAuthenticator},
		{"no keys", splice(multi, 272, 98, 1, 1), ClassParse, ReasonAuthenticator},
		{"keys without threshold", splice(multi, 272, 98, append([]byte{96}, multi[273:273+96]...)...), ClassParse, ReasonAuthenticator},
		{"a byte between keys and threshold", splice(multi, 272, 98, slices.Concat([]byte{98}, multi[273:273+96], []byte{2, 2})...), ClassParse, ReasonAuthenticator},
		{"33 keys", splice(multi, 272, 98, slices.Concat([]byte{0xa1, 0x08}, bytes.Repeat(multi[273:273+96], 11), []byte{2})...), ClassParse, ReasonAuthenticator},
		{"no signatures", splice(multi, 370, 134, 4, 0, 0, 0, 0), ClassParse, ReasonAuthenticator},
		{"signatures without bitmap", append(splice(multi, 370, 134, 0x80, 0x01), make([]byte, 128)...), ClassParse, ReasonAuthenticator},
		{"bitmap with one bit more", splice(multi, 500, 1, 0xe0), ClassParse, ReasonAuthenticator},
		{"bitmap with one bit less", splice(multi, 500, 1, 0x80), ClassParse, ReasonAuthenticator},
		{"bitmap beyond the keys", splice(multi, 500, 1, 0x90), ClassParse, ReasonAuthenticator},
		{"bitmap far beyond the keys", splice(multi, 500, 4, 0x80, 0, 0, 1), ClassParse, ReasonAuthenticator},

		{"multikey without keys", splice(mixed, 272, 1, 0), ClassParse, ReasonAuthenticator},
		{"multikey with 33 keys", splice(mixed, 272, 1, 33), ClassParse, ReasonAuthenticator},
		{"multikey threshold 0", splice(mixed, 408, 1, 0), ClassParse, ReasonAuthenticator},
		{"multikey threshold 4", splice(mixed, 408, 1, 4), ClassParse, ReasonAuthenticator},
		{"multikey without signatures", splice(mixed, 409, 1, 0), ClassParse, ReasonAuthenticator},
		{"multikey with more signatures than keys", splice(mixed, 409, 1, 4), ClassParse, ReasonAuthenticator},
		{"multikey bitmap beyond the keys", splice(mixed, len(mixed)-4, 4, 0x50, 0, 0, 0), ClassParse, ReasonAuthenticator},
		{"multikey bitmap of 3 bytes", splice(mixed, len(mixed)-5, 5, 3, 0x60, 0, 0), ClassParse, ReasonAuthenticator},
		{"multikey bitmap of 5 bytes", splice(mixed, len(mixed)-5, 5, 5, 0x60, 0, 0, 0, 0), ClassParse, ReasonAuthenticator},
		{"secp256r1 key", splice(single, 272, 1, 2), ClassSigner, ReasonUnsupported},
		{"keyless key", splice(single, 272, 1, 3), ClassSigner, ReasonUnsupported},
		{"federated keyless key", splice(single, 272, 1, 4), ClassSigner, ReasonUnsupported},
		{"key variant 5", splice(single, 272, 1, 5), ClassParse, ReasonUnknownVariant},
		{"WebAuthn signature", splice(single, 306, 1, 2), ClassSigner, ReasonUnsupported},
		{"signature variant 4", splice(single, 306, 1, 4), ClassParse, ReasonUnknownVariant},
	}
	for _, test := range tests {
		m, err := Parse(test.bytes)
		if class(err) != test.class || reason(err) != test.reason || m != nil {
			t.Errorf("%s: %v, want %s %s", test.name, err, test.class, test.reason)
		}
	}
}

// Whatever a length claims, no more is allocated than the bytes that were received.
func TestParseAllocatesNoMoreThanItReads(t *testing.T) {
	b := genuine(t)["ed25519-basic"]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 100
	for _, at := range []int{75, 89, 108, 109, 136, 205, 272, 305} {
		for range rounds {
			if _, err := Parse(splice(b, at, 1, 0xff, 0xff, 0xff, 0xff, 0x07)); err == nil {
				t.Fatalf("length of 2 GiB at %d was accepted", at)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / (8 * rounds); each > 4*MaxSize {
		t.Errorf("%d bytes allocated for each refusal", each)
	}
}

func TestParseBase64Refuses(t *testing.T) {
	_, all := vectors(t)
	good, padded := all[0].Header, ""
	for _, v := range all {
		if v.Name == "single-ed25519" { // 372 bytes: no padding; 370: two characters
			padded = v.Header
		}
	}
	if !strings.HasSuffix(good, "==") || strings.HasSuffix(padded, "=") {
		t.Fatal("the vectors do not have the lengths that this test needs")
	}
	for name, s := range map[string]string{
		"empty":               "",
		"line break":          good[:64] + "\n" + good[64:],
		"carriage return":     good + "\r\n",
		"space":               " " + good,
		"without padding":     strings.TrimRight(good, "="),
		"URL alphabet":        strings.ReplaceAll(good, "+", "-"),
		"bits in the padding": good[:len(good)-3] + "R==",
		"too long":            strings.Repeat("A", 4*MaxSize/3+4),
	} {
		if _, err := ParseBase64(s); class(err) != ClassEncoding || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testenv.Check(t, testenv.Error(ParseBase64(padded)))
}

// The longest micropayment has MaxSize bytes.
func TestMaxSize(t *testing.T) {
	m, err := largest(t).Sign(Payment{})
	testenv.OK(t, err)
	if len(m.raw) != MaxSize {
		t.Errorf("%d bytes, MaxSize is %d", len(m.raw), MaxSize)
	}
	testenv.Check(t, m.Verify())
	if again, err := ParseBase64(m.Base64()); err != nil || !bytes.Equal(again.raw, m.raw) {
		t.Errorf("it is not parsed again: %v", err)
	}
}

// largest signs with all of 32 secp256k1 keys.
func largest(t testing.TB) *Signer {
	var keys []PrivateKey
	for i := range byte(maxKeys) {
		keys = append(keys, testKey(t, KeySecp256k1, i+1))
	}
	return testenv.Must(NewMultiSigner(SchemeMultiKey, publics(keys...), maxKeys, keys...))(t)
}
