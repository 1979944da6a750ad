package storage

import (
	"strings"
	"testing"

	"sluice/test/testenv"
)

func TestLocationValidate(t *testing.T) {
	const secret = "secret-canary"
	for _, l := range []Location{
		{Data: "data"},
		{Data: "data", Meta: "postgres://host/name"},
		{Meta: "postgresql://host/name", Bytes: "s3://bucket/prefix"},
	} {
		testenv.Is(t, l.Validate("--"), nil, "%+v", l)
	}
	for want, l := range map[string]Location{
		"--from-meta: ":  {Meta: "mysql://u:" + secret + "@host"},
		"--from-bytes: ": {Bytes: "http://" + secret},
	} {
		if err := l.Validate("--from-"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: error %v, want one that names %s and repeats no DSN", l, err, want)
		}
	}
}

func TestRedacted(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                     "",
		"postgres://host/name": "postgres://host/name",
		"postgres://user:canary@a,b/name?sslmode=no": "postgres://user:xxxxx@a,b/name?sslmode=no",
		"postgres://h/n?password=canary&a=b":         "postgres://h/n?a=b&password=xxxxx",
		"postgres://h/n?sslpassword=canary":          "postgres://h/n?sslpassword=xxxxx",
		"s3://bucket/p?endpoint=https://h":           "s3://bucket/p?endpoint=https://h",
		"s3://id:canary@bucket?secret_key=canary":    "s3://id:xxxxx@bucket?secret_key=xxxxx",
		"postgres://u:canary@h:port%zz/":             "xxxxx",
	} {
		testenv.Equal(t, Redacted(dsn), want, "Redacted(%q)", dsn)
	}
}
