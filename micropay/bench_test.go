package micropay

import (
	"crypto/ed25519"
	"crypto/sha3"
	"slices"
	"testing"
	"time"

	"sluice/test/testenv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// BenchmarkVerify measures, for every authenticator, a server's whole work on a header (full) and
// only the signature checks in it, on prepared keys, hashes and numbers (bare). It alternates
// between both and compares medians, so that a busy machine affects both equally.
func BenchmarkVerify(b *testing.B) {
	all := genuine(b)
	for _, name := range []string{
		"ed25519-basic", "single-ed25519", "single-secp256k1", "multikey-2of3", "multi-ed25519-2of3-first-last",
	} {
		benchmark(b, name, all[name])
	}
	benchmark(b, "multikey-32of32", testenv.Must(largest(b).Sign(Payment{}))(b).raw)
}

func benchmark(b *testing.B, name string, encoded []byte) {
	m := testenv.Must(Parse(encoded))(b)
	header := m.Base64()
	checks := bareChecks(b, m)
	b.Run(name, func(b *testing.B) {
		var bare, full []time.Duration
		for b.Loop() {
			start := time.Now()
			for _, check := range checks {
				if !check() {
					b.Fatal("signature refused")
				}
			}
			middle := time.Now()
			m, err := ParseBase64(header)
			testenv.OK(b, err)
			testenv.OK(b, m.Verify())
			bare = append(bare, middle.Sub(start))
			full = append(full, time.Since(middle))
		}
		slices.Sort(bare)
		slices.Sort(full)
		x, y := bare[len(bare)/2], full[len(full)/2]
		b.ReportMetric(0, "ns/op") // for both together, so it means nothing
		b.ReportMetric(float64(x.Microseconds()), "bare-µs")
		b.ReportMetric(float64(y.Microseconds()), "full-µs")
		b.ReportMetric(float64(y)/float64(x), "full/bare")
		b.ReportMetric(float64(time.Second)/float64(y), "verified/s")
	})
}

func bareChecks(b *testing.B, m *Micropayment) (checks []func() bool) {
	message := m.SigningMessage()
	hash := sha3.Sum256(message)
	for _, s := range m.auth.signatures {
		key := []byte(m.auth.keys[s.key].Bytes)
		if s.kind == KeyEd25519 {
			checks = append(checks, func() bool { return ed25519.Verify(key, message, s.bytes) })
			continue
		}
		public := testenv.Must(secp256k1.ParsePubKey(key))(b)
		var x, y secp256k1.ModNScalar
		x.SetByteSlice(s.bytes[:32])
		y.SetByteSlice(s.bytes[32:])
		sig := ecdsa.NewSignature(&x, &y)
		checks = append(checks, func() bool { return sig.Verify(hash[:], public) })
	}
	return checks
}

func BenchmarkParse(b *testing.B) {
	encoded := genuine(b)["ed25519-basic"]
	b.ReportAllocs()
	for b.Loop() {
		testenv.OK(b, testenv.Error(Parse(encoded)))
	}
}

func BenchmarkSign(b *testing.B) {
	for _, s := range signers(b)[:3] {
		b.Run(s.auth.scheme.String(), func(b *testing.B) {
			for b.Loop() {
				testenv.OK(b, testenv.Error(s.Sign(Payment{})))
			}
		})
	}
}

func BenchmarkCollect(b *testing.B) {
	for _, v := range settlementVectors(b)[:4] {
		m := testenv.Must(ParseBase64(v.Micropayment))(b)
		receiver := v.signer(b)
		b.Run(v.Name, func(b *testing.B) {
			for b.Loop() {
				testenv.OK(b, testenv.Error(m.Collect(receiver)))
			}
		})
	}
}
