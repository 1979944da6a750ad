package micropay

import (
	"crypto/ed25519"
	"crypto/sha3"
	"math/big"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// Verify returns nil if the micropayment's keys are its sender's, enough of them signed, and every
// signature is valid; otherwise it returns an *Error of ClassSigner or ClassSignature. It assumes
// that the sender never rotated its keys, which only the chain knows.
//
// Each signature is accepted in one form only: S must be below the group order for Ed25519 and in
// the lower half for secp256k1, and neither a key nor R may be of small order. Keys that did not
// sign must be valid too, as the chain requires.
func (m *Micropayment) Verify() error {
	if err := m.CheckSigner(); err != nil {
		return err
	}
	return m.VerifySignatures(func(verify func() error) error { return verify() })
}

// CheckSigner makes the checks of Verify that take little time: that the keys are the sender's, and
// that enough of them signed.
func (m *Micropayment) CheckSigner() error {
	if address := m.auth.address(); address != m.Sender {
		return refuse(ClassSigner, ReasonSigner, "the keys belong to %v, and the sender is %v", address, m.Sender)
	}
	if len(m.auth.signatures) < m.auth.required {
		return refuse(ClassSignature, ReasonTooFew, "%d signatures, not %d", len(m.auth.signatures), m.auth.required)
	}
	return nil
}

// Work returns how much processor time VerifySignatures takes at most, in verifications of one
// signature. Eight keys that did not sign take about as long as one signature.
func (m *Micropayment) Work() int {
	signatures := len(m.auth.signatures)
	return signatures + (len(m.auth.keys)-signatures+7)/8
}

// VerifySignatures makes the checks of Verify that CheckSigner does not make. It calls turn for
// each signature and for each key that did not sign, one after the other. turn calls verify, which
// takes up to about 0.2 ms of processor time, and returns its error; or it returns another error,
// which VerifySignatures then returns.
func (m *Micropayment) VerifySignatures(turn func(verify func() error) error) error {
	message := m.SigningMessage()
	signed := make([]bool, len(m.auth.keys))
	for _, s := range m.auth.signatures {
		signed[s.key] = true
		if err := turn(func() error { return m.auth.keys[s.key].verify(message, s) }); err != nil {
			return err
		}
	}
	for i, k := range m.auth.keys {
		if signed[i] {
			continue
		}
		if err := turn(k.check); err != nil {
			return err
		}
	}
	return nil
}

func (k PublicKey) verify(message []byte, s signature) error {
	if s.kind != k.Type {
		return badSignature("a signature has another type than its key")
	}
	if k.Type == KeyEd25519 {
		return verifyEd25519([]byte(k.Bytes), message, s.bytes)
	}
	return verifySecp256k1([]byte(k.Bytes), message, s.bytes)
}

// check returns an error unless a key that did not sign could have signed.
func (k PublicKey) check() error {
	if !k.valid() {
		return weakKey()
	}
	return nil
}

func (k PublicKey) valid() bool {
	if len(k.Bytes) != k.Type.size() {
		return false
	}
	if k.Type == KeyEd25519 {
		y := []byte(k.Bytes)
		return canonical(y) && !smallOrder(y) && onCurve(y)
	}
	_, err := parseSecp256k1([]byte(k.Bytes))
	return err == nil
}

func weakKey() error {
	return refuse(ClassSignature, ReasonWeakKey, "a public key is not a point of full order")
}

func badSignature(label string) error {
	return refuse(ClassSignature, ReasonBadSignature, "%s", label)
}

// verifyEd25519 makes two checks that [ed25519.Verify] omits: that the key is encoded canonically,
// and that neither the key nor R is of small order. ed25519.Verify requires that S is below the
// order, and compares the bytes of R.
func verifyEd25519(key, message, sig []byte) error {
	if !canonical(key) || smallOrder(key) {
		return weakKey()
	}
	if smallOrder(sig[:32]) {
		return badSignature("R is a point of small order")
	}
	if !ed25519.Verify(key, message, sig) {
		return badSignature("an Ed25519 signature is invalid")
	}
	return nil
}

func verifySecp256k1(key, message, sig []byte) error {
	public, err := parseSecp256k1(key)
	if err != nil {
		return err
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(sig[:32]) || s.SetByteSlice(sig[32:]) {
		return badSignature("R or S is not below the group order")
	}
	if s.IsOverHalfOrder() {
		return badSignature("S is in the upper half")
	}
	hash := sha3.Sum256(message)
	if !ecdsa.NewSignature(&r, &s).Verify(hash[:], public) {
		return badSignature("a secp256k1 signature is invalid")
	}
	return nil
}

func parseSecp256k1(key []byte) (*secp256k1.PublicKey, error) {
	if key[0] != secp256k1.PubKeyFormatUncompressed { // ParsePubKey accepts hybrid keys too
		return nil, weakKey()
	}
	public, err := secp256k1.ParsePubKey(key)
	if err != nil {
		return nil, weakKey()
	}
	return public, nil
}

// Constants of edwards25519, big-endian: the field prime, its successor, and the curve's d.
const (
	fieldPrime = "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xed"
	fieldPrimePlus1 = "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xee"
	curveD = "\x52\x03\x6c\xee\x2b\x6f\xfe\x73\x8c\xc7\x40\x79\x77\x79\xe8\x98" +
		"\x00\x70\x0a\x4d\x41\x41\xd8\xab\x75\xeb\x4d\xca\x13\x59\x78\xa3"
)

// The y coordinates, big-endian, of points with an order that divides 8: 1, 2, 4, and two with
// order 8.
const (
	torsionY1 = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	torsionY2 = "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xec"
	torsionY4 = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	torsionY8a = "\x05\xfc\x53\x6d\x88\x02\x38\xb1\x39\x33\xc6\xd3\x05\xac\xdf\xd5" +
		"\xf0\x98\xef\xf2\x89\xf4\xc3\x45\xb0\x27\xb2\xc2\x8f\x95\xe8\x26"
	torsionY8b = "\x7a\x03\xac\x92\x77\xfd\xc7\x4e\xc6\xcc\x39\x2c\xfa\x53\x20\x2a" +
		"\x0f\x67\x10\x0d\x76\x0b\x3c\xba\x4f\xd8\x4d\x3d\x70\x6a\x17\xc7"
)

// yBytes returns an encoded point's y coordinate (little-endian, with the sign of x in the top bit)
// in big-endian, without reduction: it may be p or greater.
func yBytes(encoded []byte) []byte {
	y := slices.Clone(encoded)
	y[31] &= 0x7f
	slices.Reverse(y)
	return y
}

// canonical reports whether y is below p. The two other non-canonical encodings, x = 0 with its
// sign set, are of small order.
func canonical(encoded []byte) bool { return string(yBytes(encoded)) < fieldPrime }

// smallOrder reports whether the encoded point, canonical or not, has an order that divides 8. Of
// the non-canonical values, p to 2^255-1, only p and p+1 are such a y: 0 and 1.
func smallOrder(encoded []byte) bool {
	switch string(yBytes(encoded)) {
	case torsionY1, torsionY2, torsionY4, torsionY8a, torsionY8b, fieldPrime, fieldPrimePlus1:
		return true
	}
	return false
}

// onCurve reports whether there is a point with this y, that is, whether
// x^2 = (y^2-1) / (d*y^2+1) has a solution (RFC 8032, section 5.1.3). A quotient is a square if and
// only if the product is, so it computes the product.
func onCurve(encoded []byte) bool {
	p := new(big.Int).SetBytes([]byte(fieldPrime))
	d := new(big.Int).SetBytes([]byte(curveD))
	one := big.NewInt(1)
	y := new(big.Int).SetBytes(yBytes(encoded))
	y2 := y.Mul(y, y)
	u := new(big.Int).Sub(y2, one)
	v := d.Mul(d, y2)
	v.Add(v, one)
	return big.Jacobi(u.Mul(u, v).Mod(u, p), p) >= 0
}
