package main

import (
	"math"
	"testing"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]size{
		"1": 1, "1024": 1 << 10, "1KiB": 1 << 10, "512MiB": 512 << 20, "3 GiB": 3 << 30, "5TiB": 5 << 40, "7PiB": 7 << 50,
		"1kB": 1000, "2MB": 2e6, "3GB": 3e9, "4TB": 4e12, "5PB": 5e15,
		"9223372036854775807": math.MaxInt64, "unlimited": unlimited, "-1": unlimited,
	} {
		var got size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
		var again size
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
			t.Errorf("%q is shown as %q, which is read as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "0", "1B", "0MiB", "-2", "-1MiB", "MiB", "1.5GiB", "1 XB", "1mib", "9223372036854775808", "8192PiB", "unlimitedB", "1e3"} {
		var got size
		if err := got.UnmarshalText([]byte(text)); err == nil || got != 0 {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]count{"1": 1, "1024": 1024, "unlimited": unlimited, "-1": unlimited} {
		var got count
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-2", "1KiB", "1.5", "many"} {
		var got count
		if err := got.UnmarshalText([]byte(text)); err == nil || got != 0 {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}
