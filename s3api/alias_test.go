package s3api

import (
	"fmt"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestAliases: a bucket that is an alias has its account's objects, and hides an account of its
// name.
func TestAliases(t *testing.T) {
	database := openDatabase(t)
	long := "0x" + strings.Repeat("ab", 32)
	for _, a := range []metastore.Alias{{Name: "photos", Account: long}, {Name: "pictures", Account: long}} {
		testenv.OK(t, database.SetAlias(t.Context(), a, nil))
	}
	aliases := testenv.Must(blob.LoadAliases(t.Context(), database))(t)
	s := start(t, setup{database: database, config: func(c *Config) { c.Aliases = aliases }})
	s.want(t, 200, "PUT", "/photos/a", "aliased")
	b := testenv.Must(database.Blob(t.Context(), long, "a"))(t)
	testenv.Equal(t, b.Size, 7, "the account's blob")
	testenv.Equal(t, s.want(t, 200, "GET", "/pictures/a", "").body, "aliased", "another alias")
	testenv.Equal(t, s.want(t, 200, "GET", "/"+long+"/a", "").body, "aliased", "the account's own name")
	s.want(t, 200, "PUT", "/pictures/b", "", "X-Amz-Copy-Source", "/photos/a")
	var names []string
	for _, bucket := range decodedAs[struct {
		Buckets []struct{ Name string } `xml:"Buckets>Bucket"`
	}](t, s.want(t, 200, "GET", "/", "").body).Buckets {
		names = append(names, bucket.Name)
	}
	testenv.Equal(t, fmt.Sprint(names), "["+long+" photos pictures]", "the buckets")
}

func TestBucketNames(t *testing.T) {
	for _, name := range []string{"abc", "a-b", "a.b", "0x1", strings.Repeat("a", 63)} {
		testenv.Check(t, blob.CheckBucket(name))
	}
	for _, name := range []string{"", "ab", strings.Repeat("a", 64), "Abc", "a_b", "-ab", "ab-", ".ab", "ab.", "a..b", "192.0.2.1", "a/b", "ä-b", "a\nb"} {
		if blob.CheckBucket(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
