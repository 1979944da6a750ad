package main

import (
	"math"
	"slices"
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

// TestConnectionsFitIntoTheOpenFiles: with as many requests at work as may be,
// there is a file for each connection and each request.
func TestConnectionsFitIntoTheOpenFiles(t *testing.T) {
	for _, files := range []uint64{512, 1024, 4096, 8192, 20_000, 65_536, 1 << 20, math.MaxUint64} {
		for _, requests := range []int{1, 100, 4096, 1 << 30} {
			n := connectionsFor(files, requests)
			if n < 1 || n > mostConnections {
				t.Errorf("%d files, %d requests: %d connections", files, requests, n)
			}
			if taken := uint64(n + n/16 + min(n, requests) + spareFiles); taken > files {
				t.Errorf("%d files, %d requests: %d connections take %d files", files, requests, n, taken)
			}
		}
	}
	if got := connectionsFor(20_000, 4096); got < 12_000 {
		t.Errorf("20,000 files have room for %d connections, want 12,000", got)
	}
	if got := connectionsFor(64, 4096); got < 1 {
		t.Errorf("64 files: %d connections", got)
	}
}

func TestChosenConnectionsAreTaken(t *testing.T) {
	for chosen, want := range map[int]int{7: 7, 50_000: 50_000} {
		c := config{MaxConnections: chosen, MaxRequests: 1}
		if got, err := c.maxConnections(); err != nil || got != want {
			t.Errorf("--max-connections %d: %d, %v", chosen, got, err)
		}
	}
	c := config{MaxRequests: 4096}
	if got, err := c.maxConnections(); err != nil || got < 1 || got > mostConnections {
		t.Errorf("derived: %d, %v", got, err)
	}
}

func TestConnectionsPerAddress(t *testing.T) {
	hostedFlags := []string{"--profile", "hosted", "--base-path", "/s", "--external-url", "https://h/s", "--reads", "key", "--receiver", "0x1"}
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 0},
		{[]string{"--max-connections-per-address", "7"}, 7},
		{hostedFlags, 250},
		{append(slices.Clone(hostedFlags), "--max-connections-per-address", "7"), 7},
		{append(slices.Clone(hostedFlags), "--max-connections-per-address", "unlimited"), 0},
	} {
		parsed, err := parse(t, append(c.args, "--max-connections", "1000")...)
		if err != nil {
			t.Fatal(err)
		}
		if connections, err := parsed.newConnections(); err != nil || connections.PerAddress != c.want {
			t.Errorf("%q: %d, %v, want %d", c.args, connections.PerAddress, err, c.want)
		}
	}
}
