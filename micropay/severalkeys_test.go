package micropay

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// severalKeys returns the micropayments of testdata/several-keys.json, which were created with the
// classes of @aptos-labs/ts-sdk, by name.
func severalKeys(t testing.TB) map[string]string {
	t.Helper()
	var file struct {
		Vectors []struct {
			Name   string
			Header string `json:"header_base64"`
		}
	}
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile("testdata/several-keys.json"))(t), &file))
	m := map[string]string{}
	for _, v := range file.Vectors {
		m[v.Name] = v.Header
	}
	return m
}

func TestSeveralKeys(t *testing.T) {
	policy, all := vectors(t)
	payment := all[0].payment(t)
	ed := []PrivateKey{testKey(t, KeyEd25519, 0x61), testKey(t, KeyEd25519, 0x62), testKey(t, KeyEd25519, 0x63)}
	mixed := []PrivateKey{testKey(t, KeyEd25519, 0x51), testKey(t, KeySecp256k1, 0x52), testKey(t, KeyEd25519, 0x53)}
	var twelve []PrivateKey
	for i := range 12 {
		twelve = append(twelve, testKey(t, KeyType(i%2), byte(0x70+i)))
	}
	var ten []PrivateKey
	for _, i := range []int{11, 0, 1, 2, 3, 4, 5, 7, 8, 10} { // in any order
		ten = append(ten, twelve[i])
	}
	signer := map[string]*Signer{
		"multi-ed25519-2of3-first-last": testenv.Must(NewMultiSigner(SchemeMultiEd25519, publics(ed...), 2, ed[0], ed[2]))(t),
		"multi-ed25519-2of3-all":        testenv.Must(NewMultiSigner(SchemeMultiEd25519, publics(ed...), 2, ed...))(t),
		"multikey-2of3-first-two":       testenv.Must(NewMultiSigner(SchemeMultiKey, publics(mixed...), 2, mixed[0], mixed[1]))(t),
		"multikey-2of3-all":             testenv.Must(NewMultiSigner(SchemeMultiKey, publics(mixed...), 2, mixed...))(t),
		"multikey-10of12":               testenv.Must(NewMultiSigner(SchemeMultiKey, publics(twelve...), 10, ten...))(t),
	}
	for name, header := range severalKeys(t) {
		t.Run(name, func(t *testing.T) {
			m, err := receive(header, policy, vectorTime)
			if strings.HasSuffix(name, "-one") {
				if reason(err) != ReasonTooFew {
					t.Errorf("one signature of two: %v", err)
				}
				return
			}
			testenv.OK(t, err)
			if built := testenv.Must(signer[name].Sign(payment))(t); built.Base64() != header {
				t.Errorf("signed %x\nwant   %x", built.raw, m.raw)
			}
		})
	}
}

// TestFewestAndMostKeys checks that 1 and 32 keys are accepted, as in aptos-core.
func TestFewestAndMostKeys(t *testing.T) {
	policy, all := vectors(t)
	var keys []PrivateKey
	for i := range maxKeys {
		keys = append(keys, testKey(t, KeyEd25519, byte(i+1)))
	}
	for _, scheme := range []Scheme{SchemeMultiEd25519, SchemeMultiKey} {
		for _, n := range []int{1, maxKeys} {
			signer := testenv.Must(NewMultiSigner(scheme, publics(keys[:n]...), n, keys[:n]...))(t)
			signed := testenv.Must(signer.Sign(all[0].payment(t)))(t)
			err := testenv.Error(receive(signed.Base64(), policy, vectorTime))
			testenv.Is(t, err, nil, "%d keys of scheme %v", n, scheme)
		}
	}
}
