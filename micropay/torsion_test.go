package micropay

import (
	"crypto/ed25519"
	"crypto/sha3"
	"crypto/sha512"
	"math/big"
	"slices"
	"testing"

	"sluice/test/testenv"
)

// This is independent arithmetic on edwards25519, with the formulas of RFC 8032 section 5.1.4 in
// affine form and decimal constants.

type point struct{ x, y *big.Int }

type curve struct{ p, d, order *big.Int }

func edwards25519(t testing.TB) curve {
	t.Helper()
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	d := new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), p))
	order, ok := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	if !ok {
		t.Fatal("order")
	}
	order.Add(order, new(big.Int).Lsh(big.NewInt(1), 252))
	return curve{p, d.Mod(d, p), order}
}

func (c curve) mul(a ...*big.Int) *big.Int {
	r := big.NewInt(1)
	for _, x := range a {
		r.Mod(r.Mul(r, x), c.p)
	}
	return r
}

func (c curve) add(a, b point) point {
	one := big.NewInt(1)
	k := c.mul(c.d, a.x, b.x, a.y, b.y)
	x := new(big.Int).Add(c.mul(a.x, b.y), c.mul(a.y, b.x))
	y := new(big.Int).Add(c.mul(a.y, b.y), c.mul(a.x, b.x))
	below := new(big.Int).ModInverse(new(big.Int).Mod(new(big.Int).Sub(one, k), c.p), c.p)
	return point{
		c.mul(x, new(big.Int).ModInverse(new(big.Int).Add(one, k), c.p)),
		c.mul(y, below),
	}
}

func (c curve) times(n *big.Int, a point) point {
	r := point{big.NewInt(0), big.NewInt(1)}
	for i := n.BitLen() - 1; i >= 0; i-- {
		r = c.add(r, r)
		if n.Bit(i) == 1 {
			r = c.add(r, a)
		}
	}
	return r
}

// withY returns a point with this y, or false if the curve has none.
func (c curve) withY(y *big.Int) (point, bool) {
	one := big.NewInt(1)
	y2 := c.mul(y, y)
	v := new(big.Int).Add(c.mul(c.d, y2), one)
	x2 := c.mul(new(big.Int).Sub(y2, one), new(big.Int).ModInverse(v, c.p))
	x := new(big.Int).ModSqrt(x2, c.p)
	return point{x, y}, x != nil
}

// encode writes any y below 2^255, canonical or not.
func encodePoint(y *big.Int, sign byte) []byte {
	b := y.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	b[31] |= sign << 7
	return b
}

// smallOrderEncodings computes every encoding of every point with an order that divides 8, by
// multiplying points with the prime order.
func smallOrderEncodings(t testing.TB) [][]byte {
	c := edwards25519(t)
	ys := map[string]*big.Int{}
	for i := int64(2); len(ys) < 5 && i < 200; i++ {
		a, ok := c.withY(big.NewInt(i))
		if !ok {
			continue
		}
		torsion := c.times(c.order, a)
		for n := range int64(8) {
			q := c.times(big.NewInt(n), torsion)
			ys[q.y.String()] = q.y
		}
	}
	var encodings [][]byte
	limit := new(big.Int).Lsh(big.NewInt(1), 255)
	for _, y := range ys {
		for ; y.Cmp(limit) < 0; y = new(big.Int).Add(y, c.p) {
			encodings = append(encodings, encodePoint(y, 0), encodePoint(y, 1))
		}
	}
	if len(encodings) != 14 {
		t.Fatalf("%d encodings of points of small order, want 14", len(encodings))
	}
	return encodings
}

func TestSmallOrderListIsComplete(t *testing.T) {
	for _, e := range smallOrderEncodings(t) {
		if !smallOrder(e) {
			t.Errorf("%x is not in the list", e)
		}
	}
	for i := range 100 {
		key := testKey(t, KeyEd25519, byte(i)).Public()
		if smallOrder([]byte(key.Bytes)) || !key.valid() {
			t.Errorf("key of seed %d counts as weak", i)
		}
	}
}

func TestCanonicalAndOnCurve(t *testing.T) {
	c := edwards25519(t)
	for i := range int64(19) {
		y := new(big.Int).Add(c.p, big.NewInt(i))
		if canonical(encodePoint(y, 0)) || canonical(encodePoint(y, 1)) {
			t.Errorf("p+%d counts as canonical", i)
		}
	}
	if last := new(big.Int).Sub(c.p, big.NewInt(1)); !canonical(encodePoint(last, 1)) {
		t.Error("p-1 does not count as canonical")
	}
	count := 0
	for i := range int64(200) {
		_, want := c.withY(big.NewInt(i))
		testenv.Equal(t, onCurve(encodePoint(big.NewInt(i), byte(i%2))), want, "y = %d: on curve", i)
		if want {
			count++
		}
	}
	if count < 70 || count > 130 {
		t.Errorf("%d of 200 on the curve", count)
	}
}

// seal returns a micropayment's bytes. sign computes its one signature.
func seal(t testing.TB, p Payment, a authenticator, sign func(message []byte) []byte) *Micropayment {
	t.Helper()
	p.Sender = a.address()
	raw, signed := p.append(nil)
	kind := a.keys[0].Type
	a.signatures = []signature{{0, kind, sign(signingMessage(raw, signed))}}
	return testenv.Must(Parse(a.append(raw)))(t)
}

// With a key of small order one signature is valid for many messages. Verify must refuse it where
// the standard library accepts it.
func TestWeakEd25519KeyIsRefused(t *testing.T) {
	c := edwards25519(t)
	s := c.secret(make([]byte, 32))
	base := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey) // s times the base point
	forged := append(slices.Clone([]byte(base)), s...)

	accepted := 0
	for _, key := range smallOrderEncodings(t) {
		a := authenticator{scheme: SchemeEd25519, required: 1, keys: []PublicKey{{KeyEd25519, string(key)}}}
		for nonce := range uint64(100) {
			m := seal(t, Payment{Nonce: nonce}, a, func([]byte) []byte { return forged })
			if !ed25519.Verify(key, m.SigningMessage(), forged) {
				continue
			}
			accepted++
			if err := m.Verify(); reason(err) != ReasonWeakKey {
				t.Errorf("key %x: %v", key, err)
			}
			break
		}
	}
	if accepted < 8 {
		t.Errorf("the standard library accepted %d of the 14 forgeries, so this test shows little", accepted)
	}
}

// secret returns the secret scalar of an Ed25519 seed.
func (c curve) secret(seed []byte) []byte {
	digest := sha512.Sum512(seed)
	digest[0] &= 248
	digest[31] = digest[31]&127 | 64
	return scalar(c, digest[:32])
}

// scalar reduces a little-endian number by the group order.
func scalar(c curve, b []byte) []byte {
	n := fromLittle(b)
	return little(n.Mod(n, c.order))
}

func little(n *big.Int) []byte {
	b := n.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	return b
}

// A signer who chooses R = the neutral element computes S = k*a, which the standard library
// accepts.
func TestSmallOrderRIsRefused(t *testing.T) {
	c := edwards25519(t)
	seed := make([]byte, 32)
	secret := c.secret(seed)
	key := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)

	neutral := make([]byte, 32)
	neutral[0] = 1
	a := authenticator{scheme: SchemeEd25519, required: 1, keys: []PublicKey{{KeyEd25519, string(key)}}}
	var sig []byte
	m := seal(t, Payment{Amount: 1}, a, func(message []byte) []byte {
		k := sha512.Sum512(slices.Concat(neutral, key, message))
		product := new(big.Int).Mul(fromLittle(scalar(c, k[:])), fromLittle(secret))
		sig = slices.Concat(neutral, little(product.Mod(product, c.order)))
		return sig
	})
	if !ed25519.Verify(key, m.SigningMessage(), sig) {
		t.Fatal("the standard library refuses it already, so this test shows nothing")
	}
	if err := m.Verify(); reason(err) != ReasonBadSignature {
		t.Errorf("R of small order: %v", err)
	}
}

func fromLittle(b []byte) *big.Int {
	r := slices.Clone(b)
	slices.Reverse(r)
	return new(big.Int).SetBytes(r)
}

func TestSignaturePlusOrderIsRefused(t *testing.T) {
	c := edwards25519(t)
	m := testenv.Must(signers(t)[0].Sign(Payment{Amount: 1}))(t)
	a := m.auth
	s := fromLittle(a.signatures[0].bytes[32:])
	a.signatures = []signature{{bytes: slices.Concat(a.signatures[0].bytes[:32], little(s.Add(s, c.order)))}}
	raw, _ := m.append(nil)
	if err := verified(a.append(raw)); reason(err) != ReasonBadSignature {
		t.Errorf("S + L: %v", err)
	}
}

func TestSigningPrefix(t *testing.T) {
	domain := sha3.Sum256([]byte("APTOS::RawTransactionWithData"))
	if want := string(domain[:]) + "\x01"; signingPrefix != want {
		t.Errorf("prefix %x, want %x", signingPrefix, want)
	}
}
