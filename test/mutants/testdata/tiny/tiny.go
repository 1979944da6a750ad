// Package tiny has mutations of each kind, and of each verdict. TestMutateAll knows them.
package tiny

import "cmp"

const width = 2 * 4 // has no mutation

// Sign has a comparison's two mutations.
func Sign(n int) int {
	if n < 0 {
		return -1
	}
	if n > 0 {
		return 1
	}
	return 0
}

// Longer reports whether a is longer than b. No test has two of one length.
func Longer(a, b string) bool {
	return len(a) > len(b)
}

// Clamp returns the same at the bound for < and <=.
func Clamp(n int) int {
	if n < width {
		return n
	}
	return width
}

// Max is generic.
func Max[T cmp.Ordered](a, b T) T {
	if a >= b {
		return a
	}
	return b
}

// Sum has an assignment with an operator. Its index leaves the slice if the step is mutated.
func Sum(numbers []uint8) (sum uint8) {
	for i := 0; i < len(numbers); i++ {
		sum += numbers[i]
	}
	return sum
}

// Countdown does not end if its step is mutated.
func Countdown(n uint64) (steps int) {
	for n != 0 {
		n--
		steps++
	}
	return steps
}

// Either has logical mutations, and none for the ! of a comparison.
func Either(a, b bool, m map[string]int) bool {
	if a && !b || !(len(m) == 0) {
		return true
	}
	m["x"] += 3 * len(m)
	return false
}

// Bits has a shift whose constant takes its type from the variable: only the comparison is mutated.
func Bits(n int) uint64 {
	var mask uint64 = 1<<n - 1
	if mask == 7 {
		mask = mask % 4
	}
	return mask / 1
}

// Join has the + of strings, which is not mutated.
func Join(a, b string) string { return a + b }

// Unused is not called.
func Unused(n float64) float64 {
	return n * 2
}
