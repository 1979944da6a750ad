package settings

import (
	"math"
	"testing"
)

// TestCounts checks which numbers are limits. An unset limit is 0, so want is 0 for a refused one.
func TestCounts(t *testing.T) {
	for text, want := range map[string]count{
		"1": 1, "1024": 1024, "unlimited": unlimited, "-1": unlimited,
		"": 0, "0": 0, "-2": 0, "1KiB": 0, "1.5": 0, "many": 0,
	} {
		var got count
		if err := got.UnmarshalText([]byte(text)); (err == nil) != (want != 0) || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

// TestSizes is like TestCounts. Package units tests the forms of sizes.
func TestSizes(t *testing.T) {
	for text, want := range map[string]size{
		"1024": 1 << 10, "3 GiB": 3 << 30, "4TB": 4e12, "9223372036854775807": math.MaxInt64,
		"unlimited": unlimited, "-1": unlimited,
		"": 0, "0": 0, "0MiB": 0, "-2": 0, "-1MiB": 0, "unlimitedB": 0, "1e3": 0,
	} {
		var got, again size
		if err := got.UnmarshalText([]byte(text)); (err == nil) != (want != 0) || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
		if err := again.UnmarshalText([]byte(got.String())); want != 0 && (err != nil || again != want) {
			t.Errorf("%q is shown as %q, which is read as %d, %v", text, got, again, err)
		}
	}
}
