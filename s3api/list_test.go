package s3api

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/metastore"
	"sluice/test/testenv"
)

// sentPage is a page of either version.
type sentPage struct {
	Name, Prefix, Marker, NextMarker, StartAfter string
	ContinuationToken, NextContinuationToken     string
	KeyCount, MaxKeys                            int
	Delimiter, EncodingType                      string
	IsTruncated                                  bool
	Contents                                     []sentObject
	CommonPrefixes                               []struct{ Prefix string }
}

type sentObject struct {
	Key, LastModified, ETag, StorageClass string
	Size                                  int64
	Owner                                 *struct{ ID string }
}

// entries returns a page's keys and groups, in the order of their names.
func (p *sentPage) entries() []string {
	var names []string
	for _, o := range p.Contents {
		names = append(names, o.Key)
	}
	for _, group := range p.CommonPrefixes {
		names = append(names, group.Prefix+" (group)")
	}
	slices.Sort(names)
	return names
}

// listed returns S3's listing of these keys: the keys after a start, in groups.
func listed(keys []string, prefix, delimiter, after string) []string {
	var names []string
	for _, key := range keys {
		rest, selected := strings.CutPrefix(key, prefix)
		if !selected || key <= after {
			continue
		}
		if i := strings.Index(rest, delimiter); delimiter != "" && i >= 0 {
			group := prefix + rest[:i+len(delimiter)]
			if group == after { // the client has seen it
				continue
			}
			key = group + " (group)"
		}
		if !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// TestListsAreComplete walks through the pages of random listings by both versions, and compares
// them with the keys.
// Invariant 185.
func TestListsAreComplete(t *testing.T) {
	s := newService(t)
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "/", "//", "-", "é", "+", " ", "a/", "z", "&", "\U0001F600"}
	var keys []string
	for len(keys) < 60 {
		var key strings.Builder
		for range 1 + random.IntN(5) {
			key.WriteString(pieces[random.IntN(len(pieces))])
		}
		if k := key.String(); checkKey(k) == nil && !slices.Contains(keys, k) {
			keys = append(keys, k)
			s.want(t, 200, "PUT", "/bucket/"+url.PathEscape(k), "x")
		}
	}
	slices.Sort(keys)
	choose := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 300 {
		prefix, delimiter := choose("", "", "a", "a/", "b", "/", keys[random.IntN(len(keys))]), choose("", "/", "/", "a", "//", "a/")
		after := choose("", "", "a", "a/", "a/a", keys[random.IntN(len(keys))])
		limit := 1 + random.IntN(2)*random.IntN(7) // often one, behind which a group may follow
		want := listed(keys, prefix, delimiter, after)
		for _, version := range []int{1, 2} {
			got := s.walk(t, version, prefix, delimiter, after, limit)
			if !slices.Equal(got, want) {
				t.Fatalf("version %d, prefix %q, delimiter %q, after %q, pages of %d:\n%q, want\n%q", version, prefix, delimiter, after, limit, got, want)
			}
		}
	}
}

// walk returns the names on all pages of a listing.
func (s *service) walk(t *testing.T, version int, prefix, delimiter, after string, limit int) (names []string) {
	t.Helper()
	query := url.Values{"prefix": {prefix}, "delimiter": {delimiter}, "max-keys": {fmt.Sprint(limit)}}
	start := "marker"
	if version == 2 {
		query.Set("list-type", "2")
		start = "start-after"
	}
	query.Set(start, after)
	for {
		page := decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?"+query.Encode(), "").body)
		got := page.entries()
		names = append(names, got...)
		switch {
		case len(got) > limit, version == 2 && page.KeyCount != len(got), page.MaxKeys != limit:
			t.Fatalf("a page has %d entries, KeyCount %d and MaxKeys %d, want at most %d", len(got), page.KeyCount, page.MaxKeys, limit)
		case !page.IsTruncated:
			return names
		case len(got) == 0:
			t.Fatal("a page without entries is truncated")
		case version == 2:
			query.Set("continuation-token", page.NextContinuationToken)
		case page.NextMarker != "":
			query.Set("marker", page.NextMarker)
		default:
			query.Set("marker", page.Contents[len(page.Contents)-1].Key)
		}
	}
}

func TestListing(t *testing.T) {
	s := newService(t)
	for _, key := range []string{"a b", "a+c", "dir/é"} {
		s.want(t, 200, "PUT", "/bucket/"+url.PathEscape(key), "123")
	}
	page := decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?list-type=2&fetch-owner=true&encoding-type=url&delimiter=%2F", "").body)
	if len(page.Contents) != 2 || len(page.CommonPrefixes) != 1 {
		t.Fatalf("the page is %+v", page)
	}
	first := page.Contents[0]
	if first.Owner == nil || first.Owner.ID != "bucket" || first.LastModified == "" {
		t.Errorf("an object is %+v", first)
	}
	first.Owner, first.LastModified = nil, ""
	if want := (sentObject{Key: "a%20b", ETag: etagOf("123"), StorageClass: "STANDARD", Size: 3}); !reflect.DeepEqual(first, want) {
		t.Errorf("an object is %+v, want %+v", first, want)
	}
	testenv.Equal(t, page.Contents[1].Key, "a%2Bc", "a key as in a URL")
	testenv.Equal(t, page.CommonPrefixes[0].Prefix, "dir/", "a group")
	testenv.Equal(t, page.EncodingType, "url", "the encoding")
	page = decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?list-type=2&max-keys=0", "").body)
	testenv.Equal(t, len(page.Contents), 0, "entries on a page of none")
	testenv.Equal(t, page.IsTruncated, false, "a page of none is truncated")
	page = decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?max-keys=5000", "").body)
	testenv.Equal(t, page.MaxKeys, 1000, "the greatest page")
	testenv.Equal(t, page.Contents[0].Owner != nil, true, "version 1 has owners")
	for _, query := range []string{"max-keys=-1", "max-keys=x", "encoding-type=base64", "list-type=3", "list-type=2&continuation-token=%21", "list-type=2&continuation-token="} {
		s.refused(t, 400, "InvalidArgument", "GET", "/bucket?"+query, "")
	}
}

// bucketNames returns the names in a list of buckets.
func (s *service) bucketNames(t *testing.T) (names []string) {
	t.Helper()
	for _, b := range decodedAs[struct {
		Buckets []struct{ Name string } `xml:"Buckets>Bucket"`
	}](t, s.want(t, 200, "GET", "/", "").body).Buckets {
		names = append(names, b.Name)
	}
	return names
}

// TestBuckets: a bucket is there once it was created, also for another process, or while it has an
// object.
// Invariant 186.
func TestBuckets(t *testing.T) {
	s := newService(t)
	s.want(t, 404, "HEAD", "/empty-bucket", "")
	for _, path := range []string{"/empty-bucket", "/empty-bucket?list-type=2", "/empty-bucket?versions", "/empty-bucket?uploads", "/empty-bucket?location", "/empty-bucket/a"} {
		s.refused(t, 404, "NoSuchBucket", "GET", path, "")
	}
	s.refused(t, 404, "NoSuchBucket", "DELETE", "/empty-bucket", "")
	s.refused(t, 404, "NoSuchBucket", "DELETE", "/empty-bucket/a", "")
	s.refused(t, 404, "NoSuchBucket", "DELETE", "/empty-bucket/dir/", "")
	s.refused(t, 404, "NoSuchBucket", "POST", "/empty-bucket?delete", "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>")
	for _, most := range []string{"-3", "0", "10001", "2000000", "x"} {
		s.refused(t, 400, "InvalidArgument", "GET", "/?max-buckets="+most, "")
	}
	s.want(t, 200, "GET", "/?max-buckets=10000", "")
	s.refused(t, 404, "NoSuchBucket", "PUT", "/first-bucket/a", "", "X-Amz-Copy-Source", "empty-bucket/a")
	s.refused(t, 400, "MalformedXML", "PUT", "/empty-bucket", "<a>")
	for _, name := range []string{"a", "aa", "192.168.5.123", "foo-", "foo..bar", "foo.-bar", "foo-.bar"} {
		s.refused(t, 400, "InvalidBucketName", "PUT", "/"+name, "")
	}
	s.want(t, 200, "PUT", "/a/a", "x")
	s.want(t, 200, "PUT", "/a", "") // it exists
	s.want(t, 204, "DELETE", "/a/a", "")
	s.want(t, 204, "DELETE", "/a", "")
	s.want(t, 404, "HEAD", "/empty-bucket", "")
	s.want(t, 200, "PUT", "/empty-bucket", "")
	s.want(t, 200, "PUT", "/empty-bucket", `<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>`)
	s.want(t, 200, "PUT", "/first-bucket/a", "x")
	s.want(t, 200, "PUT", "/second-bucket/a", "x")
	for _, one := range []*service{s, start(t, setup{database: s.database})} {
		testenv.Equal(t, strings.Join(one.bucketNames(t), " "), "empty-bucket first-bucket second-bucket", "the buckets")
		one.want(t, 200, "HEAD", "/empty-bucket", "")
		one.refused(t, 404, "NoSuchKey", "GET", "/empty-bucket/a", "")
		testenv.Equal(t, decodedAs[sentPage](t, one.want(t, 200, "GET", "/empty-bucket?list-type=2", "").body).KeyCount, 0, "objects")
	}
	s.want(t, 200, "HEAD", "/first-bucket", "")
	s.want(t, 200, "PUT", "/third-bucket/a", "x")
	s.want(t, 204, "DELETE", "/third-bucket/a", "")
	s.refused(t, 404, "NoSuchKey", "GET", "/third-bucket/a", "") // the bucket stays
	s.want(t, 204, "DELETE", "/third-bucket", "")
	s.want(t, 200, "PUT", "/third-bucket/a", "x")
	s.want(t, 204, "DELETE", "/third-bucket/a", "")
	s.want(t, 200, "HEAD", "/third-bucket", "") // it was created again
	s.want(t, 204, "DELETE", "/third-bucket", "")
	s.refused(t, 409, "BucketNotEmpty", "DELETE", "/first-bucket", "")
	s.want(t, 204, "DELETE", "/empty-bucket", "")
	s.want(t, 404, "HEAD", "/empty-bucket", "")
	testenv.Equal(t, strings.Join(s.bucketNames(t), " "), "first-bucket second-bucket", "the buckets")
	for _, query := range []string{"location", "versioning", "acl"} {
		s.want(t, 200, "GET", "/first-bucket?"+query, "")
	}
	s.want(t, 200, "PUT", "/first-bucket?acl", "", "X-Amz-Acl", "private")
	for _, path := range []string{"/first-bucket?acl", "/first-bucket/a?acl"} {
		s.refused(t, 400, "UnexpectedContent", "PUT", path, "<AccessControlPolicy/>", "X-Amz-Acl", "private")
	}
	s.want(t, 200, "GET", "/first-bucket/a?acl", "")
	s.refused(t, 404, "NoSuchKey", "GET", "/first-bucket/b?acl", "")
}

// TestBucketsOfAliases: a bucket that is an alias is there, with an object and without.
func TestBucketsOfAliases(t *testing.T) {
	database := openDatabase(t)
	testenv.OK(t, database.SetAlias(t.Context(), metastore.Alias{Name: "photos", Account: "0x1"}, nil))
	aliases := testenv.Must(blob.LoadAliases(t.Context(), database))(t)
	s := start(t, setup{database: database, config: func(c *Config) { c.Aliases = aliases }})
	s.want(t, 200, "HEAD", "/photos", "")
	testenv.Equal(t, strings.Join(s.bucketNames(t), " "), "0x1 photos", "the buckets")
	s.want(t, 200, "PUT", "/photos", "")
	s.want(t, 204, "DELETE", "/photos", "")
	s.want(t, 204, "DELETE", "/photos", "")
	s.want(t, 200, "HEAD", "/photos", "")
}

// TestBucketQuestions: a bucket without a setting has Amazon's response for it. The codes are those
// with which terraform, s3cmd and mc go on, from "Error responses" in the Amazon S3 API Reference.
func TestBucketQuestions(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket", "")
	for parameter, code := range map[string]string{
		"cors": "NoSuchCORSConfiguration", "encryption": "ServerSideEncryptionConfigurationNotFoundError", "lifecycle": "NoSuchLifecycleConfiguration",
		"object-lock": "ObjectLockConfigurationNotFoundError", "ownershipControls": "OwnershipControlsNotFoundError", "policy": "NoSuchBucketPolicy",
		"policyStatus": "NoSuchBucketPolicy", "publicAccessBlock": "NoSuchPublicAccessBlockConfiguration", "replication": "ReplicationConfigurationNotFoundError",
		"tagging": "NoSuchTagSet", "website": "NoSuchWebsiteConfiguration", "analytics&id=a": "NoSuchConfiguration", "inventory&id=a": "NoSuchConfiguration",
		"metrics&id=a": "NoSuchConfiguration", "intelligent-tiering&id=a": "NoSuchConfiguration",
	} {
		s.refused(t, 404, code, "GET", "/bucket?"+parameter, "")
		s.refused(t, 404, "NoSuchBucket", "GET", "/other?"+parameter, "")
	}
	for parameter, want := range map[string]string{
		"abac": "<Status>Disabled</Status></AbacStatus>", "accelerate": "</AccelerateConfiguration>", "logging": "</BucketLoggingStatus>", "notification": "</NotificationConfiguration>",
		"requestPayment": "<Payer>BucketOwner</Payer></RequestPaymentConfiguration>", "versioning": "</VersioningConfiguration>",
		"analytics": "<IsTruncated>false<", "inventory": "<IsTruncated>false<", "metrics": "<IsTruncated>false<", "intelligent-tiering": "<IsTruncated>false<",
	} {
		if got := s.want(t, 200, "GET", "/bucket?"+parameter, "").body; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", parameter, got, want)
		}
	}
	s.want(t, 204, "DELETE", "/bucket?lifecycle", "")
	for _, parameter := range []string{"encryption", "ownershipControls", "replication", "website"} {
		s.want(t, 204, "DELETE", "/bucket?"+parameter, "")
		s.refused(t, 501, "NotImplemented", "PUT", "/bucket?"+parameter, "<a/>")
	}
	s.want(t, 200, "HEAD", "/bucket", "")
}

// TestVersions: where none are kept each object is its only version, and is deleted by that id, as
// ceph's s3-tests and mc empty a bucket.
func TestVersions(t *testing.T) {
	s := newService(t)
	keys := []string{"a", "b b", "dir/a", "dir/b", "é"}
	for _, key := range keys {
		s.want(t, 200, "PUT", "/bucket/"+url.PathEscape(key), key)
	}
	query := url.Values{"versions": {""}, "max-keys": {"2"}}
	var objects, listed string
	for page := (sentVersions{IsTruncated: true}); page.IsTruncated; {
		page = decodedAs[sentVersions](t, s.want(t, 200, "GET", "/bucket?"+query.Encode(), "").body)
		for _, v := range page.versions() {
			testenv.Equal(t, fmt.Sprint(v.VersionID, v.IsLatest, v.ETag), fmt.Sprint("null", true, etagOf(v.Key)), "%s", v.Key)
			objects += "<Object><Key>" + v.Key + "</Key><VersionId>" + v.VersionID + "</VersionId></Object>"
			listed += v.Key + ", "
		}
		query.Set("key-marker", page.NextKeyMarker)
		query.Set("version-id-marker", page.NextVersionIDMarker)
		if strings.Count(listed, ", ") > len(keys) {
			t.Fatalf("the pages have %s", listed)
		}
	}
	testenv.Equal(t, listed, strings.Join(keys, ", ")+", ", "the keys")
	page := decodedAs[sentVersions](t, s.want(t, 200, "GET", "/bucket?versions&delimiter=/", "").body)
	testenv.Equal(t, fmt.Sprint(len(page.versions()), page.CommonPrefixes), "3 [{dir/}]", "with a delimiter")
	for _, query := range []string{"version-id-marker=null", "key-marker=a&version-id-marker=x"} {
		s.refused(t, 400, "InvalidArgument", "GET", "/bucket?versions&"+query, "")
	}
	testenv.Equal(t, len(s.deleted(t, objects).Deleted), len(keys), "what was deleted")
	s.want(t, 204, "DELETE", "/bucket", "")
	s.refused(t, 404, "NoSuchBucket", "GET", "/bucket?versions", "")
}

// TestListFromWithinAGroup: a group that the client has begun with is an entry, and the groups
// after it follow. Invariant 185.
func TestListFromWithinAGroup(t *testing.T) {
	s := newService(t)
	for _, key := range []string{"a/1", "a/2", "b/1", "c/1"} {
		s.want(t, 200, "PUT", "/bucket/"+key, "x")
	}
	for limit := 1; limit < 4; limit++ {
		for _, version := range []int{1, 2} {
			got := s.walk(t, version, "", "/", "a/1", limit)
			testenv.Equal(t, strings.Join(got, ", "), "a/ (group), b/ (group), c/ (group)", "version %d in pages of %d", version, limit)
		}
	}
}
