package claycode_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/claycode"
	"sluice/test/testenv"
)

// parameters are codes with different shapes: the network's first, then more that its client
// accepts, and some in which d-k+1 is no power of two.
var parameters = [][3]int{{16, 10, 13}, {16, 12, 15}, {16, 11, 14}, {16, 9, 12}, {16, 8, 11}, {8, 6, 7}, {8, 5, 6}, {8, 4, 5}, {4, 2, 3}, {6, 3, 5}, {9, 6, 8}, {9, 5, 7}, {12, 9, 11}}

// product multiplies two field elements, bit by bit.
func product(a, b byte) (p byte) {
	for ; b != 0; b >>= 1 {
		if b&1 != 0 {
			p ^= a
		}
		carry := a & 0x80
		if a <<= 1; carry != 0 {
			a ^= 0x1d
		}
	}
	return p
}

// inverse returns a's inverse, which is a to the 254th power.
func inverse(a byte) byte {
	p := byte(1)
	for range 254 {
		p = product(p, a)
	}
	return p
}

// checkCodeword checks the definition in the package's documentation, byte by byte and without its
// code: in each plane, the coded bytes are values of one polynomial with k coefficients.
func checkCodeword(n, k, d int, chunks [][]byte) error {
	q := d - k + 1
	t := n / q
	planes := 1
	for range t {
		planes *= q
	}
	size := len(chunks[0]) / planes
	coded := make([]byte, n)
	for z := range planes {
		digits := make([]int, t)
		for y, rest := t-1, z; y >= 0; y, rest = y-1, rest/q {
			digits[y] = rest % q
		}
		for column := range size {
			for i := range n {
				x, y := i%q, i/q
				coded[i] = chunks[i][z*size+column]
				if digits[y] != x {
					other := slices.Clone(digits)
					other[y] = x
					partnerPlane := 0
					for _, digit := range other {
						partnerPlane = partnerPlane*q + digit
					}
					coded[i] ^= product(2, chunks[y*q+digits[y]][partnerPlane*size+column])
				}
			}
			for i := k; i < n; i++ {
				var value byte
				for j := range k {
					term := coded[j]
					for m := range k {
						if m != j {
							term = product(term, product(byte(i)^byte(m), inverse(byte(j)^byte(m))))
						}
					}
					value ^= term
				}
				if value != coded[i] {
					return fmt.Errorf("the coded byte of chunk %d in plane %d, column %d, is %d, want %d", i, z, column, coded[i], value)
				}
			}
		}
	}
	return nil
}

// random returns n chunks with random data.
func random(rng *rand.Rand, n, size int) [][]byte {
	chunks := make([][]byte, n)
	for i := range chunks {
		chunks[i] = make([]byte, size)
		for j := range chunks[i] {
			chunks[i][j] = byte(rng.Uint32())
		}
	}
	return chunks
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// encoded returns random chunks with their parity.
func encoded(t testing.TB, code *claycode.Code, rng *rand.Rand, n, plane int) [][]byte {
	t.Helper()
	chunks := random(rng, n, plane*code.Planes())
	testenv.OK(t, code.Encode(chunks))
	return chunks
}

// damaged returns a copy of chunks in which the lost ones are overwritten.
func damaged(chunks [][]byte, lost []int) [][]byte {
	copies := make([][]byte, len(chunks))
	for i, chunk := range chunks {
		copies[i] = slices.Clone(chunk)
		if slices.Contains(lost, i) {
			for j := range copies[i] {
				copies[i][j] ^= 0xa5
			}
		}
	}
	return copies
}

// TestParityIsDefined checks the parity of codes of all shapes against the definition.
func TestParityIsDefined(t *testing.T) {
	for seed, p := range parameters {
		code := testenv.Must(claycode.New(p[0], p[1], p[2]))(t)
		chunks := encoded(t, code, source(uint64(seed)), p[0], 1)
		testenv.OK(t, checkCodeword(p[0], p[1], p[2], chunks))
		chunks[0][0] ^= 1
		if checkCodeword(p[0], p[1], p[2], chunks) == nil {
			t.Errorf("%v: a changed byte is in a code word", p)
		}
	}
}

// TestDecodeOfEveryPattern loses every set of up to n-k chunks of small codes, and random sets of
// larger ones. Decode restores them, and leaves the rest alone.
// Invariant 220.
func TestDecodeOfEveryPattern(t *testing.T) {
	for seed, p := range parameters {
		n, k := p[0], p[1]
		rng := source(uint64(seed))
		code := testenv.Must(claycode.New(n, k, p[2]))(t)
		chunks := encoded(t, code, rng, n, 3)
		check := func(lost []int) {
			rng.Shuffle(len(lost), func(i, j int) { lost[i], lost[j] = lost[j], lost[i] })
			restored := damaged(chunks, lost)
			testenv.OK(t, code.Decode(restored, lost...))
			for i := range chunks {
				if !bytes.Equal(restored[i], chunks[i]) {
					t.Fatalf("%v without %v: chunk %d differs", p, lost, i)
				}
			}
		}
		if n > 9 {
			for range 40 {
				check(rng.Perm(n)[:1+rng.IntN(n-k)])
			}
			continue
		}
		for set := range 1 << n {
			var lost []int
			for i := range n {
				if set>>i&1 == 1 {
					lost = append(lost, i)
				}
			}
			if len(lost) <= n-k {
				check(lost)
			}
		}
	}
}

// repair computes a chunk from the planes that its helpers send, and returns how many bytes they
// were.
func repair(t testing.TB, code *claycode.Code, chunks [][]byte, lost int, helpers []int) (restored []byte, read int) {
	t.Helper()
	sent := make([][]byte, len(chunks))
	plane := len(chunks[0]) / code.Planes()
	for _, i := range helpers {
		sent[i] = []byte{}
		for _, z := range code.RepairPlanes(lost) {
			sent[i] = append(sent[i], chunks[i][z*plane:(z+1)*plane]...)
		}
		read += len(sent[i])
	}
	restored = bytes.Repeat([]byte{0xa5}, len(chunks[0]))
	testenv.OK(t, code.Repair(lost, sent, restored))
	return restored, read
}

// TestRepair repairs each chunk from random helpers. They send d/(d-k+1) chunks in all, which is
// 3.25 in place of 10 with the network's code.
// Invariant 220.
func TestRepair(t *testing.T) {
	for seed, p := range parameters {
		n, k, d := p[0], p[1], p[2]
		rng := source(uint64(seed))
		code := testenv.Must(claycode.New(n, k, d))(t)
		chunks := encoded(t, code, rng, n, 2)
		for lost := range n {
			q := d - k + 1
			var column, others []int
			for _, i := range rng.Perm(n) {
				switch {
				case i == lost:
				case i/q == lost/q:
					column = append(column, i)
				default:
					others = append(others, i)
				}
			}
			restored, read := repair(t, code, chunks, lost, append(column, others[:d-len(column)]...))
			if !bytes.Equal(restored, chunks[lost]) {
				t.Fatalf("%v: chunk %d differs", p, lost)
			}
			testenv.Equal(t, read*q, d*len(chunks[0]), "bytes read for chunk %d of %v, by d-k+1", lost, p)
		}
	}
}

// TestPlaneSizes encodes and decodes planes of sizes around the borders of vectors and strips.
func TestPlaneSizes(t *testing.T) {
	rng := source(1)
	code := testenv.Must(claycode.New(4, 2, 3))(t)
	for _, size := range []int{1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 2047, 2048, 2049, 4095, 4096, 4097, 65536 + 5} {
		chunks := encoded(t, code, rng, 4, size)
		if size < 300 {
			testenv.OK(t, checkCodeword(4, 2, 3, chunks))
		}
		for _, lost := range [][]int{{0, 1}, {0, 2}, {2, 3}, {1}} {
			restored := damaged(chunks, lost)
			testenv.OK(t, code.Decode(restored, lost...))
			for _, i := range lost {
				if !bytes.Equal(restored[i], chunks[i]) {
					t.Errorf("planes of %d bytes without %v: chunk %d differs", size, lost, i)
				}
			}
		}
		if restored, _ := repair(t, code, chunks, 2, []int{0, 1, 3}); !bytes.Equal(restored, chunks[2]) {
			t.Errorf("planes of %d bytes: the repaired chunk differs", size)
		}
	}
}

// TestColumnsAreIndependent checks that a data byte changes the parity only at its own column in
// the planes.
func TestColumnsAreIndependent(t *testing.T) {
	const plane, column = 100, 71
	code := testenv.Must(claycode.New(8, 6, 7))(t)
	chunks := encoded(t, code, source(2), 8, plane)
	changed := damaged(chunks, nil)
	changed[3][5*plane+column] ^= 0x40
	testenv.OK(t, code.Encode(changed))
	for i := 6; i < 8; i++ {
		for at := range chunks[i] {
			if chunks[i][at] != changed[i][at] && at%plane != column {
				t.Errorf("byte %d of chunk %d differs", at, i)
			}
		}
	}
}

// TestParametersAreValidated checks the errors for codes that do not exist.
func TestParametersAreValidated(t *testing.T) {
	for p, want := range map[[3]int]string{
		{0, 0, 0}:       "not possible",
		{16, 0, 3}:      "not possible",
		{16, 13, 13}:    "not possible",
		{16, 10, 16}:    "not possible",
		{260, 256, 257}: "not possible",
		{-4, -2, -1}:    "not possible",
		{16, 10, 14}:    "not a multiple of d-k+1=5",
		{40, 20, 21}:    "more than 65536 planes",
	} {
		if _, err := claycode.New(p[0], p[1], p[2]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", p, err, want)
		}
	}
}

// TestArgumentsAreValidated checks that chunks that cannot be coded are refused, with the reason.
func TestArgumentsAreValidated(t *testing.T) {
	code := testenv.Must(claycode.New(8, 5, 6))(t) // 16 planes
	chunks := func(size int) [][]byte { return random(source(3), 8, size) }
	uneven := chunks(32)
	uneven[5] = uneven[5][:16]
	helpers := func(size int, which ...int) [][]byte {
		sent := make([][]byte, 8)
		for _, i := range which {
			sent[i] = make([]byte, size)
		}
		return sent
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"too few chunks":    {code.Encode(chunks(32)[:7]), "7 chunks were given, want 8"},
		"uneven chunks":     {code.Encode(uneven), "chunk 5 has 16 bytes, and chunk 0 has 32"},
		"empty chunks":      {code.Encode(chunks(0)), "0 bytes are no multiple of 16 planes"},
		"a part of a plane": {code.Encode(chunks(33)), "33 bytes are no multiple of 16 planes"},
		"uneven to decode":  {code.Decode(uneven, 1), "chunk 5 has 16 bytes"},
		"too many lost":     {code.Decode(chunks(32), 0, 1, 2, 3), "4 chunks are lost, and at most 3 can be restored"},
		"lost twice":        {code.Decode(chunks(32), 1, 1), "named twice"},
		"out of range":      {code.Decode(chunks(32), 8), "lost chunk 8 of 8 is out of range"},
		"below the range":   {code.Decode(chunks(32), -1), "lost chunk -1 of 8 is out of range"},
		"no such chunk":     {code.Repair(8, helpers(16), make([]byte, 32)), "chunk 8 of 8 does not exist"},
		"too few elements":  {code.Repair(0, helpers(16)[:7], make([]byte, 32)), "7 elements are given for helpers, want 8"},
		"an uneven chunk":   {code.Repair(0, helpers(16), make([]byte, 33)), "33 bytes are no multiple of 16 planes"},
		"it helps itself":   {code.Repair(0, helpers(16, 0), make([]byte, 32)), "the lost chunk 0 cannot be a helper"},
		"a short helper":    {code.Repair(0, helpers(15, 1, 2, 3, 4, 5, 6), make([]byte, 32)), "helper 1 has 15 bytes, want 16"},
		"not its column":    {code.Repair(0, helpers(16, 2, 3, 4, 5, 6, 7), make([]byte, 32)), "chunk 1 must be a helper of chunk 0"},
		"too few helpers":   {code.Repair(0, helpers(16, 1, 2, 3, 4, 5), make([]byte, 32)), "there are 5 helpers, want 6"},
		"too many helpers":  {code.Repair(0, helpers(16, 1, 2, 3, 4, 5, 6, 7), make([]byte, 32)), "there are 7 helpers, want 6"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", name, tc.err, tc.want)
		}
	}
	testenv.OK(t, code.Decode(chunks(32)))
}
