package bytestore_test

import (
	"strings"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/test/testenv"
)

func TestNewName(t *testing.T) {
	times := []time.Time{
		time.UnixMilli(0), time.UnixMilli(1), time.UnixMilli(1_700_000_000_123), time.UnixMilli(1<<48 - 1),
		time.Date(2026, 3, 1, 12, 0, 0, 999_999, time.UTC),
	}
	seen := map[bytestore.Name]bool{}
	for _, made := range times {
		for range 100 {
			name := bytestore.NewName(made)
			if !name.Valid() || seen[name] {
				t.Fatalf("%q: valid %t, seen before %t", name, name.Valid(), seen[name])
			}
			seen[name] = true
			if got, ok := name.Created(); !ok || !got.Equal(made.Truncate(time.Millisecond)) {
				t.Fatalf("%q: made %v, Created returns %v, %t", name, made, got, ok)
			}
		}
	}
}

func TestNewNameSpreads(t *testing.T) {
	shards := map[bytestore.Name]int{}
	for range 20_000 {
		shards[bytestore.NewName(time.UnixMilli(1))[:2]]++
	}
	// 78 are expected in each of 256; 20 or 200 would be 6 or 13 deviations off.
	if len(shards) != 256 {
		t.Fatalf("%d first pairs of digits, want 256", len(shards))
	}
	for shard, n := range shards {
		if n < 20 || n > 200 {
			t.Errorf("%d of 20000 names begin with %s", n, shard)
		}
	}
}

func TestNameForms(t *testing.T) {
	made := string(bytestore.NewName(time.UnixMilli(1_700_000_000_000)))
	for _, tc := range []struct {
		name           string
		valid, created bool
	}{
		{made, true, true},
		{"", false, false},
		{"ab", false, false},
		{"abc", true, false},
		{"sluice-instance", true, false},
		{"---", true, false},
		{strings.Repeat("a", 64), true, false},
		{strings.Repeat("a", 65), false, false},
		{"a.b", false, false},
		{"a/b", false, false},
		{"..x", false, false},
		{"a_b", false, false},
		{"aBc", false, false},
		{"abc\x00", false, false},
		{"abcé", false, false},
		{made[:len(made)-1], true, false},
		{made + "0", true, false},
		{"g" + made[1:], true, false},
		{made[:2] + "0" + made[3:], true, false},
		{made[:15] + "0" + made[16:], true, false},
		{made[:10] + "-" + made[11:], true, false},
		{made[:len(made)-1] + "z", true, false},
		{strings.ToUpper(made[:len(made)-1]) + "F", false, false},
	} {
		name := bytestore.Name(tc.name)
		testenv.Equal(t, name.Valid(), tc.valid, "Valid(%q)", tc.name)
		if _, ok := name.Created(); ok != tc.created {
			t.Errorf("Created(%q) = %t", tc.name, ok)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add(string(bytestore.NewName(time.UnixMilli(1))))
	f.Add("sluice-instance")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, s string) {
		name := bytestore.Name(s)
		made, created := name.Created()
		if created && !name.Valid() {
			t.Fatalf("%q was made by NewName and is not valid", s)
		}
		if created && (made.UnixMilli() < 0 || made.UnixMilli() >= 1<<48) {
			t.Fatalf("%q was made at %v", s, made)
		}
		if name.Valid() && strings.ContainsAny(s, "./\\\x00 %") {
			t.Fatalf("%q is valid", s)
		}
	})
}
