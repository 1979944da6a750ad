package s3

import (
	"strings"
	"testing"
)

func TestParseDSN(t *testing.T) {
	auto := Config{Bucket: "bucket", PathStyle: PathStyleAuto, Credentials: CredentialsAuto}
	with := func(change func(*Config)) Config {
		c := auto
		change(&c)
		return c
	}
	for dsn, want := range map[string]Config{
		"s3://bucket":        auto,
		"s3://bucket/":       auto,
		"s3://bucket/a":      with(func(c *Config) { c.Prefix = "a/" }),
		"s3://bucket/a/b.c/": with(func(c *Config) { c.Prefix = "a/b.c/" }),
		"s3://bucket?endpoint=https://h.example:9000/": with(func(c *Config) { c.Endpoint = "https://h.example:9000" }),
		"s3://bucket?endpoint=http%3A%2F%2F[::1]:9000": with(func(c *Config) { c.Endpoint = "http://[::1]:9000" }),
		"s3://my.bucket-1/p?endpoint=https://h&region=eu-west-1&path-style=off&credentials=file&profile=me&ca=/etc/ca.pem": {
			Bucket: "my.bucket-1", Prefix: "p/", Endpoint: "https://h", Region: "eu-west-1",
			PathStyle: PathStyleOff, Credentials: CredentialsFile, Profile: "me", CAFile: "/etc/ca.pem",
		},
		"s3://bucket?region=auto&path-style=on&credentials=iam": with(func(c *Config) {
			c.Region, c.PathStyle, c.Credentials = "auto", PathStyleOn, CredentialsIAM
		}),
	} {
		got, err := ParseDSN(dsn)
		if err != nil || got != want {
			t.Errorf("%s:\n got  %+v, %v\n want %+v", dsn, got, err, want)
		}
	}
}

// secret is contained in every DSN that is rejected, where a key could be.
const secret = "wJalrXUtnFEMI"

func TestParseDSNRefuses(t *testing.T) {
	for _, dsn := range []string{
		"", "s3", "s3:", "s3:bucket", "s3://", "s3:///prefix", "https://bucket/" + secret, "bucket/" + secret,
		"s3://AKIA:" + secret + "@bucket", "s3://" + secret + "@bucket/p", "s3://AKIA:" + secret + "%zz@bucket",
		"s3://bucket:" + secret, "s3://bucket:80/", "s3://BUCKET" + secret, "s3://ab", "s3://192.168.1.1", "s3://a..b",
		"s3://" + strings.Repeat("a", 64), "s3://bucket_1",
		"s3://bucket#" + secret, "s3://bucket#", "s3://bucket/p?region=eu#" + secret,
		"s3://bucket/a//b", "s3://bucket/../" + secret, "s3://bucket/a/./b", "s3://bucket//", "s3://bucket/a b",
		"s3://bucket/ä", "s3://bucket/a%2f%2fb", "s3://bucket/" + strings.Repeat("a", 513),
		"s3://AKIA?" + secret + "@bucket", "s3://AKIA:/" + secret + "@bucket",
		"s3://bucket?secret-key=" + secret, "s3://bucket?access=" + secret, "s3://bucket?Region=eu" + secret,
		"s3://bucket?region=", "s3://bucket?region", "s3://bucket?region=a&region=b", "s3://bucket?region=" + secret + "/",
		"s3://bucket?a;b=" + secret, "s3://bucket?region=%zz" + secret,
		"s3://bucket?path-style=" + secret, "s3://bucket?credentials=" + secret, "s3://bucket?profile=" + secret + "[x]",
		"s3://bucket?endpoint=h.example:9000", "s3://bucket?endpoint=ftp://h", "s3://bucket?endpoint=https://",
		"s3://bucket?endpoint=https://AKIA:" + secret + "@h", "s3://bucket?endpoint=https://h/" + secret,
		"s3://bucket?endpoint=https://h%3Fkey=" + secret, "s3://bucket?endpoint=https://h%23" + secret,
		"s3://bucket?endpoint=http://h&ca=/etc/" + secret, "s3://bucket?profile=a&credentials=env", "s3://bucket?profile=a&credentials=iam",
	} {
		c, err := ParseDSN(dsn)
		if err == nil {
			t.Errorf("%s was taken for %+v", dsn, c)
			continue
		}
		if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(secret)) {
			t.Errorf("%s: the error repeats the secret: %v", dsn, err)
		}
	}
}

func FuzzParseDSN(f *testing.F) {
	f.Add("s3://bucket/prefix?endpoint=https://h:9000&region=eu&path-style=on&credentials=env&ca=x", "key", "value")
	f.Add("s3://bucket", "", "")
	f.Add("s3://bucket?profile=a", "a%20b", "%")
	f.Add("s3://bucket#", "?", "00000000") // the password becomes a parameter's name
	f.Fuzz(func(t *testing.T, dsn, user, password string) {
		c, err := ParseDSN(dsn)
		if err == nil {
			again, err := ParseDSN(c.String())
			if err != nil || again != c {
				t.Errorf("%q is %+v, and its %q is %+v, %v", dsn, c, c.String(), again, err)
			}
			if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") || strings.Contains("/"+c.Prefix, "/../") {
				t.Errorf("%q has the prefix %q", dsn, c.Prefix)
			}
		}
		// A string that no error message contains by itself.
		password += secret
		_, err = ParseDSN("s3://" + user + ":" + password + "@bucket/prefix")
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the password %q: %v", password, err)
		}
	})
}
