package units_test

import (
	"math"
	"testing"
	"time"

	"sluice/internal/units"
	"sluice/test/testenv"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1024": 1 << 10, "1KiB": 1 << 10, "512MiB": 512 << 20, "3 GiB": 3 << 30, "5TiB": 5 << 40, "7PiB": 7 << 50, "1EiB": 1 << 60,
		"1k": 1e3, "1K": 1e3, "1kB": 1e3, "1KB": 1e3, "2M": 2e6, "2MB": 2e6, "10G": 1e10, "10GB": 1e10, "10GiB": 10 << 30, "4T": 4e12, "5 PB": 5e15, "9E": 9e18,
		"9223372036854775807": math.MaxInt64, "007": 7,
	} {
		if got, err := units.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "-1", "+1", "1B", "MiB", "1.5GiB", "1 XB", "1mib", "1m", "1g", "1Ki", "1iB", "1KKB", "9223372036854775808", "8192PiB", "8EiB", "10E", "1e3", "0x10", "1  k", "1k ", " 1", "1_000"} {
		if got, err := units.ParseSize(text); err == nil {
			t.Errorf("%q is parsed as %d", text, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "1", 1000: "1k", 1001: "1001", 10e9: "10G", 1 << 10: "1KiB", 1536: "1536", 3 << 30: "3GiB", 2048 << 40: "2PiB", 1 << 60: "1EiB", math.MaxInt64: "9223372036854775807"} {
		testenv.Equal(t, units.FormatSize(n), want, "FormatSize(%d)", n)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 KiB", 1024: "1.0 KiB", 1234: "1.2 KiB", 10_188: "9.9 KiB", 10_189: "10 KiB", 1_023_487: "999 KiB", 1_023_488: "1.0 MiB",
		3 << 29: "1.5 GiB", 5 << 40: "5.0 TiB", 10 << 20: "10 MiB", math.MaxInt64: "8.0 EiB", -1536: "-1.5 KiB", math.MinInt64: "-8.0 EiB",
	} {
		testenv.Equal(t, units.Bytes(n), want, "Bytes(%d)", n)
	}
}

func TestCount(t *testing.T) {
	testenv.Equal(t, units.Count(0, "blob")+units.Count(1, "blob")+units.Count(int64(2), "blob"), "0 blobs1 blob2 blobs", "counts")
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"1", "10G", "3 GiB", "8EiB", "kB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := units.ParseSize(text)
		if err != nil {
			return
		}
		if again, err := units.ParseSize(units.FormatSize(n)); n < 0 || err != nil || again != n {
			t.Fatalf("%q is %d, shown as %s, which is %d, %v", text, n, units.FormatSize(n), again, err)
		}
	})
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "30d": 30 * day, "7d": 7 * day, "1d12h": 36 * time.Hour, "2w": 14 * day, "1w1d1h1m1s": 8*day + time.Hour + time.Minute + time.Second,
		"720h": 720 * time.Hour, "1.5h": 90 * time.Minute, "100ms": 100 * time.Millisecond, "-30d": -30 * day, "-1h": -time.Hour, "+1h": time.Hour, "106751d": 106751 * day,
	} {
		if got, err := units.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "w", "1", "1.5d", "1d1d", "1h1d", "1d1w", "1d-1h", "1d+1h", "--1d", "--1h", "-1d-1h", "106752d", "106751d24h", "15251w", "+1d", "1 d", "1D", "tomorrow"} {
		if got, err := units.ParseDuration(text); err == nil {
			t.Errorf("%q is parsed as %v", text, got)
		}
	}
}

// TestFormatDuration compares durations with their texts, which ParseDuration parses.
func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "10s": 10 * time.Second, "10m": 10 * time.Minute, "1h10m": 70 * time.Minute, "20h": 20 * time.Hour, "24h0m1s": 24*time.Hour + time.Second,
		"36h": 36 * time.Hour, "1d": 24 * time.Hour, "3650d": 87600 * time.Hour, "-30d": -720 * time.Hour, "1.5s": 1500 * time.Millisecond,
	} {
		got := units.FormatDuration(d)
		if again, err := units.ParseDuration(got); got != want || err != nil || again != d {
			t.Errorf("%v: %q is parsed as %v, %v, want %q", d, got, again, err, want)
		}
	}
}

// FuzzParseDuration checks that a text that time.ParseDuration accepts keeps its meaning.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h", "30d", "1w2d3h", "-1.5s", "106751d23h", "µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := units.ParseDuration(text)
		want, standardErr := time.ParseDuration(text)
		if standardErr == nil && (err != nil || got != want) && want != math.MinInt64 {
			t.Fatalf("%q: %v, %v, want %v", text, got, err, want)
		}
	})
}

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"7d":                        now.AddDate(0, 0, 7),
		"in 7 days":                 now.AddDate(0, 0, 7),
		"in 1 day":                  now.AddDate(0, 0, 1),
		"in a week":                 now.AddDate(0, 0, 7),
		"in an hour":                now.Add(time.Hour),
		"in  2  minutes":            now.Add(2 * time.Minute),
		"in 90 seconds":             now.Add(90 * time.Second),
		"1d12h":                     now.Add(36 * time.Hour),
		"720h":                      now.Add(720 * time.Hour),
		"2030-01-31":                time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC),
		"2030-01-31T12:00:00Z":      time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC),
		"2030-01-31T12:00:00+02:00": time.Date(2030, 1, 31, 10, 0, 0, 0, time.UTC),
		"1893456000":                time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59Z":      time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		when, err := units.ParseWhen(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := when.From(now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	const want = `want a duration from now, such as 30d or 720h, or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z, not `
	for text, message := range map[string]string{
		"":                          want + `""`,
		"tomorrow":                  want + `"tomorrow"`,
		"7 days":                    want + `"7 days"`,
		"in 7 years":                want + `"in 7 years"`,
		"in -7 days":                want + `"in -7 days"`,
		"in 1.5 days":               want + `"in 1.5 days"`,
		"2030-02-30":                want + `"2030-02-30"`,
		"-5":                        want + `"-5"`,
		"in 99999999999999999 day":  want + `"in 99999999999999999 day"`,
		"7":                         "7 has no unit: want a duration, such as 7d for days, or Unix seconds",
		"0":                         "0 has no unit: want a duration, such as 0d for days, or Unix seconds",
		"1893456000000":             "1893456000000 is after the year 9999: want Unix seconds, not milliseconds or microseconds",
		"-1h":                       "-1h is in the past",
		"0d":                        "0d is in the past",
		"in 0 days":                 "in 0 days is in the past",
		"0001-01-01":                "0001-01-01 is in the past",
		"0001-01-01T01:00:00+01:00": "0001-01-01T01:00:00+01:00 is in the past",
		"9999-12-31T23:59:59-00:01": "9999-12-31T23:59:59-00:01 is after the year 9999 in UTC",
	} {
		if when, err := units.ParseWhen(text); err == nil || err.Error() != message {
			t.Errorf("%q: %+v, %v, want %s", text, when, err, message)
		}
	}
	for _, past := range []string{"2026-11-22", "2026-11-22T12:00:00Z", "1700000000"} {
		when, err := units.ParseWhen(past)
		testenv.Is(t, err, nil, "%q", past)
		if got, err := when.From(now); err == nil {
			t.Errorf("%q: %v, want an error: it is in the past", past, got)
		}
	}
	if got, err := (units.When{}).From(now); err != nil || !got.IsZero() {
		t.Errorf("never is %v, %v", got, err)
	}
}
