package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/units"
)

// Mix is the weight of each kind of operation.
type Mix [kinds]int

// ParseMix parses weights such as "get=80,put=20".
func ParseMix(text string) (m Mix, err error) {
	total := 0
	for _, pair := range strings.Split(text, ",") {
		name, number, _ := strings.Cut(pair, "=")
		k := slices.Index(kindNames[:], name)
		weight, err := strconv.Atoi(number)
		if k < 0 || err != nil || weight < 1 || weight > maxWeight || m[k] != 0 {
			return Mix{}, fmt.Errorf("want kinds of operations with weights from 1 to %d, such as get=80,put=20, of %s, not %q", maxWeight, strings.Join(kindNames[:], ", "), text)
		}
		m[k] = weight
		total += weight
	}
	return m, nil
}

const maxWeight = 1_000_000

// Only returns a mix of one kind.
func Only(k Kind) (m Mix) {
	m[k] = 1
	return m
}

func (m Mix) kind(n int64) Kind { return Kind(weighted(m[:], mix(n, saltKind))) }

// weighted returns a weight's index, chosen by a random number in proportion to the weights.
func weighted(weights []int, random uint64) int {
	total := uint64(0)
	for _, w := range weights {
		total += uint64(w)
	}
	random %= total
	for i, w := range weights {
		if random < uint64(w) {
			return i
		}
		random -= uint64(w)
	}
	return 0 // not reached
}

// Sizes are sizes of blobs with their weights. The zero value is one size of 0 bytes.
type Sizes struct {
	bytes   []int64
	weights []int
}

// maxSize is a blob's largest size.
const maxSize = 5 << 40

// UnmarshalText parses a size such as "4KiB", or several with weights such as "4KiB=90,1MiB=10".
func (s *Sizes) UnmarshalText(text []byte) error {
	*s = Sizes{}
	for _, one := range strings.Split(string(text), ",") {
		size, number, weighs := strings.Cut(one, "=")
		bytes, err := units.ParseSize(size)
		weight := 1
		if err == nil && weighs {
			weight, err = strconv.Atoi(number)
		}
		if err != nil || bytes > maxSize || weight < 1 || weight > maxWeight {
			return fmt.Errorf("want a size up to 5TiB such as 4KiB, or sizes with weights such as 4KiB=90,1MiB=10, not %q", text)
		}
		s.bytes, s.weights = append(s.bytes, bytes), append(s.weights, weight)
	}
	return nil
}

func (s *Sizes) size(i int64) int64 {
	switch len(s.bytes) {
	case 0:
		return 0
	case 1:
		return s.bytes[0]
	default:
		return s.bytes[weighted(s.weights, mix(i, saltSize))]
	}
}

// The salts of random numbers for different purposes.
const (
	saltKind = iota
	saltBlob
	saltOffset
	saltSize
)

// mix returns a number that looks random, always the same for n and salt: SplitMix64 (Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", 2014).
func mix(n, salt int64) uint64 {
	z := (uint64(n)*(saltSize+1) + uint64(salt) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
