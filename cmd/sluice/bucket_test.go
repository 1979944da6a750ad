package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestBucketAliases makes, lists and removes aliases, and checks which names are refused.
func TestBucketAliases(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	bucket := func(args ...string) []string { return append([]string{"bucket", args[0], "--data", data}, args[1:]...) }
	must(t, bucket("alias", "photos", "0x01")...)
	must(t, bucket("alias", "photos", "0x1")...) // the same account
	must(t, bucket("alias", "--json", "docs", "eve")...)
	testenv.Equal(t, must(t, bucket("ls")...).stdout, "BUCKET  ACCOUNT\ndocs    eve\nphotos  0x1\n", "the aliases")
	testenv.Equal(t, must(t, bucket("list", "--json")...).stdout, `{"bucket":"docs","account":"eve"}`+"\n"+`{"bucket":"photos","account":"0x1"}`+"\n", "the aliases in JSON")
	s := opened(t, data)
	testenv.Must(s.Meta.BeginUpload(t.Context(), metastore.Upload{ID: "u", Account: "team", Name: "n", Content: metastore.NewContentID(s.Meta.Now()), PartSize: 5}))(t)
	testenv.OK(t, s.Meta.PutPart(t.Context(), "u", metastore.Part{Size: 1}, []metastore.Extent{{Size: 1, Body: []byte("x")}}))
	u := testenv.Must(s.Meta.Upload(t.Context(), "u"))(t)
	testenv.Must(s.Meta.CompleteUpload(t.Context(), "u", u.Revision, 1, 0, nil))(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{bucket("alias", "photos", "eve"), cli.ExitRefused, "an alias for another account"},
		{bucket("alias", "team", "eve"), cli.ExitRefused, "has blobs"},
		{bucket("alias", "No", "eve"), cli.ExitUsage, "a bucket's name has 3 to 63"},
		{bucket("alias", "photos", "a/b"), cli.ExitUsage, "account"},
		{bucket("rm", "none"), cli.ExitNotFound, "there is no alias none"},
	} {
		r := sluice(test.args...)
		if r.code != test.code || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%q: exit code %d, %q, want %d and %q", test.args, r.code, r.stderr, test.code, test.want)
		}
	}
	must(t, bucket("remove", "photos")...)
	testenv.Equal(t, must(t, bucket("ls")...).stdout, "BUCKET  ACCOUNT\ndocs    eve\n", "the aliases")
}
