package headers

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCacheControlIsParsed(t *testing.T) {
	for value, want := range map[string]string{
		"public":                        "public",
		" public ,, MAX-AGE=60 ,":       "public|MAX-AGE=60",
		`no-cache="a, b", private`:      `no-cache="a, b"|private`,
		`x="\"=,",y=z, immutable`:       `x="\"=,"|y=z|immutable`,
		"max-age=99999999999999999999":  "max-age=99999999999999999999",
		"stale-if-error=1, s-maxage=00": "stale-if-error=1|s-maxage=00",
		"":                              "",
	} {
		list, err := parseCacheControl(value)
		var texts []string
		for _, d := range list {
			texts = append(texts, d.text)
		}
		if got := strings.Join(texts, "|"); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
	for _, value := range []string{
		"public private", "=1", "max-age = 60", "max-age=", "max-age", `max-age="60"`, "max-age=-1", "max-age=1.5", "max-age=1, max-age=1", "MAX-AGE=1, max-age=2",
		"s-maxage=x", "stale-while-revalidate", `a="`, `a="\"`, `a=""b`, "a;b", "a\"b", "(a)", "max-age=60;", "a==b",
	} {
		if err := CheckCacheControl(value); !errors.Is(err, ErrMalformedMetadata) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestCacheControlEndsWithTheBlob(t *testing.T) {
	const life, age = 100*time.Second + 999*time.Millisecond, 500 * time.Second
	for value, want := range map[string]string{
		"public, max-age=60":                         "public, max-age=60",
		"public, Max-Age=100":                        "public, Max-Age=100",
		"Max-Age=101, immutable":                     "max-age=100, immutable",
		"max-age=99999999999999999999":               "max-age=100",
		"s-maxage=1000, max-age=10":                  "s-maxage=100, max-age=10",
		"max-age=60, stale-while-revalidate=30":      "max-age=60, stale-while-revalidate=30",
		"stale-while-revalidate=300, max-age=60":     "stale-while-revalidate=40, max-age=60",
		"max-age=60, s-maxage=90, stale-if-error=60": "max-age=60, s-maxage=90, stale-if-error=10",
		"max-age=600, stale-if-error=60":             "max-age=100, stale-if-error=0",
		"no-store":                                   "no-store",
		"No-Cache":                                   "No-Cache",
		"public":                                     "public, max-age=50",
		"s-maxage=70":                                "s-maxage=70, max-age=50",
		`no-cache="a"`:                               `no-cache="a", max-age=50`,
		"private, must-revalidate":                   "private, must-revalidate, max-age=50",
		"public, stale-while-revalidate=3000":        "public, stale-while-revalidate=50, max-age=50",
	} {
		if got := LimitCacheControl(value, life, age); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	for _, remaining := range []time.Duration{0, -time.Hour, time.Second - 1} {
		if got := LimitCacheControl("max-age=60, s-maxage=60, stale-if-error=60", remaining, age); got != "max-age=0, s-maxage=0, stale-if-error=0" {
			t.Errorf("%v remain: %q", remaining, got)
		}
	}
	if got := LimitCacheControl("public", time.Hour, -time.Hour); got != "public, max-age=0" {
		t.Errorf("modified later: %q", got)
	}
}

// FuzzCacheControl checks that a limited value allows no cache to keep a response for longer than
// the limit, and is valid.
// Invariant 72.
func FuzzCacheControl(f *testing.F) {
	for _, value := range []string{"public, max-age=60", "s-maxage=1,stale-if-error=5", `no-cache="a, b", private`, "max-age=1, MAX-AGE=2", "", "immutable"} {
		f.Add(value, uint16(30))
	}
	f.Fuzz(func(t *testing.T, value string, life uint16) {
		if CheckCacheControl(value) != nil {
			return
		}
		got := LimitCacheControl(value, time.Duration(life)*time.Second, time.Hour)
		list, err := parseCacheControl(got)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", value, got, err)
		}
		fresh, stale, explicit := int64(0), int64(0), false
		for _, d := range list {
			switch d.name {
			case "max-age", "s-maxage":
				fresh, explicit = max(fresh, d.seconds), explicit || d.name == "max-age"
			case "stale-while-revalidate", "stale-if-error":
				stale = max(stale, d.seconds)
			case "no-cache", "no-store":
				explicit = true
			}
		}
		if fresh > int64(life) || stale > 0 && fresh+stale > int64(life) || !explicit {
			t.Fatalf("%q becomes %q, with %d seconds left", value, got, life)
		}
	})
}

// TestSentCacheControl checks which directives in a stored value are sent, and that a cache that
// searches the value for a directive's text finds none that is not one.
// Invariant 72.
func TestSentCacheControl(t *testing.T) {
	for value, want := range map[string]string{
		"":                   "",
		"public, max-age=60": "public, max-age=60",
		"Public,MAX-AGE=60":  "Public, MAX-AGE=60",
		"public, immutable, max-age=60, stale-while-revalidate=5, stale-if-error=6, s-maxage=7": "public, immutable, max-age=60, stale-while-revalidate=5, stale-if-error=6, s-maxage=7",
		"public, x-max-age=86400":     "public",
		"x-s-maxage=86400":            "",
		`x="max-age=1", no-transform`: "no-transform",
		`no-cache="a, b"`:             `no-cache="a, b"`,
		`no-cache="max-age=5"`:        "no-cache",
		`private="x\"max-age=5"`:      "private",
		"public=x":                    "public=x",
		"must-understand, no-store":   "must-understand, no-store",
		"max-age=\"5\"":               "no-cache", // stored by an earlier version, which did not check it
	} {
		if got := SentCacheControl(value); got != want {
			t.Errorf("%q is sent as %q, want %q", value, got, want)
		}
	}
	for _, value := range []string{"x-max-age=86400", `x="max-age=86400"`, `no-cache="s-maxage=86400"`} {
		if got := LimitCacheControl(value, 10*time.Second, 0); strings.Contains(got, "86400") {
			t.Errorf("%q of a blob that expires in 10 s is sent as %q", value, got)
		}
	}
}
