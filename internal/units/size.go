// Package units parses and formats sizes, durations and times as people write them.
package units

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale is a unit of sizes. The names of decimal units may be written with or without B.
type scale struct {
	name  string
	bytes int64
}

var (
	binary  = []scale{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50}, {"EiB", 1 << 60}}
	decimal = []scale{{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}}
)

// errSize is the reason why a text is not a size.
var errSize = errors.New("want a number of bytes, such as 512MiB (2^20 bytes each) or 10G (10^9 bytes each)")

// ParseSize parses a number of bytes of at least 0: digits, optionally a space, and optionally a
// unit. Units are KiB, MiB, GiB, TiB, PiB and EiB, which are powers of 1024, and k, M, G, T, P and
// E, which are powers of 1000 and may be followed by B. K is k.
func ParseSize(text string) (int64, error) {
	number, unit := text, int64(1)
	if digits := strings.TrimRight(text, "kKMGTPEiB"); digits != text {
		bytes, known := scaleOf(text[len(digits):])
		if !known {
			return 0, errSize
		}
		number, unit = strings.TrimSuffix(digits, " "), bytes
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/unit) {
		return 0, errSize
	}
	return int64(n) * unit, nil
}

// scaleOf returns how many bytes a unit has.
func scaleOf(unit string) (bytes int64, known bool) {
	for _, s := range binary {
		if unit == s.name {
			return s.bytes, true
		}
	}
	unit = strings.Replace(strings.TrimSuffix(unit, "B"), "K", "k", 1)
	for _, s := range decimal {
		if unit == s.name {
			return s.bytes, true
		}
	}
	return 0, false
}

// FormatSize returns a size of at least 0 as ParseSize parses it, in the largest unit that divides
// it.
func FormatSize(n int64) string {
	largest := scale{"", 1}
	for _, s := range slices.Concat(binary, decimal) {
		if n != 0 && n%s.bytes == 0 && s.bytes > largest.bytes {
			largest = s
		}
	}
	return strconv.FormatInt(n/largest.bytes, 10) + largest.name
}

// Bytes returns a rounded number of bytes for people, in at most 7 characters, such as 1.5 GiB.
func Bytes(n int64) string {
	if n < 0 {
		return "-" + Bytes(-max(n, -math.MaxInt64))
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	for _, s := range binary {
		value := float64(n) / float64(s.bytes)
		switch {
		case value < 9.95:
			return fmt.Sprintf("%.1f %s", value, s.name)
		case value < 999.5:
			return fmt.Sprintf("%.0f %s", value, s.name)
		}
	}
	return "" // not reached: an int64 is at most 8 EiB
}

// Count returns a number with its noun, such as "1 blob" or "2 blobs".
func Count[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
