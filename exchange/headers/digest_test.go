package headers

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestParseDigest(t *testing.T) {
	sum := sha256.Sum256([]byte("hello"))
	other := sha256.Sum256([]byte("other"))
	good, wrong := FormatDigest(sum[:]), FormatDigest(other[:])
	if good != "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:" {
		t.Fatalf("FormatDigest returns %s", good)
	}
	for _, lines := range [][]string{
		{good},
		{"  " + good + "  "},
		{strings.TrimSuffix(good, "=:") + ":"}, // padding left out
		{"sha-512=:YQ==:, " + good},
		{"md5=:YQ==:,\t" + good + " ,\t crc32c=:AAAAAA==:"},
		{"sha-512=:YQ==:", good},
		{wrong, good},
		{wrong + ", " + good},
		{"sha-256=:YQ==:, " + good}, // only the last value counts
		{"sha-256, " + good},
		{good + ";q=1; x;y=:YQ:"},
		{"a, b=?1, *c=?0;d, " + good},
		{`x="a, \"b\" \\", ` + good},
		{`x=%"f%c3%bc", ` + good},
		{"x=(1 2.5 \"a\";q tok);p=1, y=(), z=(  ), " + good},
		{"x=-1, y=123456789012345, z=-123456789012.123, d=@-1659578233, " + good},
		{"x=tok/en:1, y=*, " + good},
	} {
		for _, name := range []string{"Content-Digest", "Repr-Digest"} {
			got, err := ParseDigest(http.Header{name: lines}, name)
			if err != nil || !bytes.Equal(got, sum[:]) {
				t.Errorf("%s %q: %x, %v", name, lines, got, err)
			}
		}
	}
	for _, lines := range [][]string{
		nil, {""}, {"   "}, {"sha-512=:YQ==:"}, {"md5=(:YQ==:)"}, {"sha-2566=:YQ==:"}, {"unixsum=1, crc=2"}, {"sha256=abc"},
	} {
		got, err := ParseDigest(http.Header{"Repr-Digest": lines}, "Repr-Digest")
		if err != nil || got != nil {
			t.Errorf("%q: %x, %v, want none", lines, got, err)
		}
	}
	b64 := base64.StdEncoding.EncodeToString(sum[:])
	for _, line := range []string{
		"sha-256", "sha-256=", "sha-256=::", "sha-256=:YQ==:", "sha-256=:" + b64, "sha-256=" + b64, "sha-256=\"" + b64 + "\"",
		"sha-256=(" + strings.TrimPrefix(good, "sha-256=") + ")", "sha-256=1", "sha-256=?1",
		"sha-256=:" + b64[:8] + "=" + b64[8:] + ":", "sha-256=:" + b64[:8] + " " + b64[8:] + ":", "sha-256=:" + b64[:8] + "\n" + b64[8:] + ":",
		"sha-256=:" + strings.ReplaceAll(b64, "+", "-") + ":", "sha-256=:" + b64 + b64 + ":",
		good + ",", "," + good, good + ",," + good, good + " " + good, good + ";", good + ";Q", good + "; =1", good + "x", good + ", sha-256=:YQ==:",
		"Sha-256=:" + b64 + ":", "SHA-256=:" + b64 + ":", "sha-256 =:" + b64 + ":", "sha-256= :" + b64 + ":", "-a=1, " + good, "1a, " + good,
		"x=, " + good, "x=\"a, " + good, `x="\a", ` + good, "x=\"\x7f\", " + good, "x=\"é\", " + good, "x=?2, " + good, "x=1234567890123456, " + good,
		"x=1., " + good, "x=1.1234, " + good, "x=1234567890123.1, " + good, "x=-, " + good, "x=--1, " + good, "x=@1.5, " + good, "x=@, " + good, "x=(1, " + good, "x=(1\"a\"), " + good,
		"x=(1,2), " + good, "x=%\"%C3\", " + good, "x=%\"%c\", " + good, "x=%a, " + good, "x=é, " + good, "\t" + good, good + "; q=(1)", "x=:a:, " + good, "x=\xe1, " + good,
	} {
		got, err := ParseDigest(http.Header{"Content-Digest": {line}}, "Content-Digest")
		if !errors.Is(err, ErrMalformedDigest) || got != nil {
			t.Errorf("%q: %x, %v, want an error", line, got, err)
		}
	}
}

func FuzzDigest(f *testing.F) {
	sum := sha256.Sum256(nil)
	for _, s := range []string{FormatDigest(sum[:]), "a=(1 2);b, sha-256=:YQ:", `x="\"",y=%"%c3",z=@1`, "sha-256", "x=-1.5, y=?0", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sum, err := ParseDigest(http.Header{"Repr-Digest": {s}}, "Repr-Digest")
		if (err != nil) != errors.Is(err, ErrMalformedDigest) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil || sum == nil {
			return
		}
		if len(sum) != sha256.Size {
			t.Fatalf("%q: %d bytes", s, len(sum))
		}
		// A valid digest stays valid after another digest, which it overrides.
		again, err := ParseDigest(http.Header{"Repr-Digest": {FormatDigest(make([]byte, 32)) + ";a", s}}, "Repr-Digest")
		if err != nil || !bytes.Equal(again, sum) {
			t.Fatalf("%q: %x, then %x, %v", s, sum, again, err)
		}
		if back, err := ParseDigest(http.Header{"Repr-Digest": {FormatDigest(sum)}}, "Repr-Digest"); err != nil || !bytes.Equal(back, sum) {
			t.Fatalf("%x: formatted and parsed it is %x, %v", sum, back, err)
		}
	})
}
