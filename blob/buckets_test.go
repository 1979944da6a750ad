package blob_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/database"
	"sluice/metastore"
	"sluice/test/testenv"
)

// store stores an empty blob under a key of S3's interface.
func (f *fixture) store(t testing.TB, account, key string) {
	t.Helper()
	at := blob.Place(account, key)
	testenv.Must(f.Put(t.Context(), blob.PutOptions{Account: at.Account, Name: at.Name}, strings.NewReader(""), 0))(t)
}

// namesOf returns a page's entries in order.
func namesOf(page metastore.Page) (names []string) {
	for _, b := range page.Blobs {
		names = append(names, b.Name)
	}
	names = append(names, page.Prefixes...)
	slices.Sort(names)
	return names
}

// TestKeysInPages: pages of blobs and markers have each entry once, whatever their size in entries
// and bytes, and lists of blobs have no marker.
// Invariant 186.
func TestKeysInPages(t *testing.T) {
	f := newFixture(t, blob.Options{})
	testenv.OK(t, f.CreateBucket(t.Context(), "a", ""))
	random := rand.New(rand.NewPCG(5, 6))
	var keys []string
	for _, piece := range []string{"", "a", "a/", "b/", "c", "\x7f", "/"} {
		for i := range 20 {
			key := piece + strings.Repeat("x", i%3) + strings.Repeat("/", i%2) + fmt.Sprint(i%7) + strings.Repeat("/", i%4)
			f.store(t, "a", key)
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for range 200 {
		q := metastore.ListQuery{Account: "a", Limit: 1 + random.IntN(9), Prefix: []string{"", "a", "a/", "b/0/"}[random.IntN(4)], Delimiter: []string{"", "/", "//"}[random.IntN(3)]}
		if random.IntN(2) == 0 {
			q.Bytes = int64(1 + random.IntN(4*database.EntryCharge*q.Limit))
		}
		all := testenv.Must(f.ListKeys(t.Context(), metastore.ListQuery{Account: "a", Limit: 1000, Prefix: q.Prefix, Delimiter: q.Delimiter}))(t)
		var got []string
		for page := (metastore.Page{Next: "more"}); page.Next != ""; q.After = page.Next {
			page = testenv.Must(f.ListKeys(t.Context(), q))(t)
			if n := len(namesOf(page)); n > q.Limit || n == 0 && page.Next != "" {
				t.Fatalf("%+v: a page has %d entries, and then %q", q, n, page.Next)
			}
			got = append(got, namesOf(page)...)
		}
		testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(namesOf(all)), "%+v", q)
	}
	testenv.Equal(t, fmt.Sprint(namesOf(testenv.Must(f.ListKeys(t.Context(), metastore.ListQuery{Account: "a", Limit: 1000}))(t))), fmt.Sprint(keys), "the keys")
	native := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return blob.CheckName(key) != nil })
	testenv.Equal(t, fmt.Sprint(namesOf(testenv.Must(f.List(t.Context(), metastore.ListQuery{Account: "a", Limit: 1000}))(t))), fmt.Sprint(native), "the blobs")
	accounts := testenv.Must(f.Accounts(t.Context(), "", 10))(t)
	testenv.Equal(t, fmt.Sprint(accounts), fmt.Sprintf("[{a %d 0 0 0}]", len(native)), "the accounts")
}

// TestBuckets: a bucket is there once it was created, or while it has a blob or a marker.
// Invariant 186.
func TestBuckets(t *testing.T) {
	f := newFixture(t, blob.Options{})
	ctx := t.Context()
	has := func(account string, want bool) {
		t.Helper()
		testenv.Equal(t, testenv.Must(f.HasBucket(ctx, account))(t), want, "there is a bucket %s", account)
	}
	has("created", false)
	testenv.Is(t, f.DeleteBucket(ctx, "created"), blob.ErrNoBucket, "without a bucket")
	for range 2 {
		testenv.OK(t, f.CreateBucket(ctx, "created", "group"))
	}
	testenv.Equal(t, testenv.Must(f.meta.Usage(ctx, "group"))(t).Objects, int64(1), "blobs of who has created the bucket")
	f.store(t, "marked", "dir/")
	f.store(t, "stored", "a")
	f.store(t, "stored", "b/")
	for _, account := range []string{"created", "marked", "stored"} {
		has(account, true)
	}
	for _, limit := range []int{1, 2, 3, 9} {
		var got []string
		for more := true; more; {
			var page []string
			var err error
			page, more, err = f.Buckets(ctx, strings.Join(got[max(0, len(got)-1):], ""), limit)
			testenv.OK(t, err)
			got = append(got, page...)
		}
		testenv.Equal(t, fmt.Sprint(got), "[created marked stored]", "the buckets in pages of %d", limit)
	}
	testenv.Is(t, f.DeleteBucket(ctx, "marked"), blob.ErrBucketNotEmpty, "with a marker")
	testenv.Is(t, f.DeleteBucket(ctx, "stored"), blob.ErrBucketNotEmpty, "with a blob")
	testenv.OK(t, f.DeleteBucket(ctx, "created"))
	has("created", false)
	testenv.OK(t, f.Delete(ctx, metastore.MarkersOf("marked"), "dir/", nil))
	has("marked", false)
}

// TestBucketsAreDeletedBesideWrites: a blob that is stored while its bucket is deleted stays.
// Invariant 186.
func TestBucketsAreDeletedBesideWrites(t *testing.T) {
	f := newFixture(t, blob.Options{})
	for i := range 50 {
		account := fmt.Sprint("account", i)
		testenv.OK(t, f.CreateBucket(t.Context(), account, ""))
		var both sync.WaitGroup
		both.Go(func() { f.store(t, account, []string{"a", "dir/"}[i%2]) })
		var err error
		both.Go(func() { err = f.DeleteBucket(t.Context(), account) })
		both.Wait()
		if err != nil {
			testenv.Is(t, err, blob.ErrBucketNotEmpty, "a deletion beside a write")
		}
		testenv.Equal(t, testenv.Must(f.HasBucket(t.Context(), account))(t), true, "the bucket is there")
	}
}

// TestBucketsWithVersionsStay: a bucket is not deleted while a blob or a marker has a version that
// is kept, locked or not, or a mark alone, whatever is written meanwhile. Its versions, locks and
// rules stay.
// Invariants 208, 216.
func TestBucketsWithVersionsStay(t *testing.T) {
	f := newFixture(t, blob.Options{})
	f.keep(t)
	testenv.OK(t, f.CreateBucket(t.Context(), "a", ""))
	f.setRules(t, "a", metastore.Rule{ID: "a", ExpireDays: 1})
	refused := func(with string) {
		t.Helper()
		testenv.Is(t, f.DeleteBucket(t.Context(), "a"), blob.ErrBucketNotEmpty, "the deletion of a bucket with %s", with)
		testenv.Equal(t, len(testenv.Must(f.meta.Rules(t.Context(), "a"))(t).Rules), 1, "rules of a bucket with %s", with)
	}
	for _, key := range []string{"name", "dir/"} {
		for _, lock := range []metastore.Lock{{}, {Hold: true}, {Mode: metastore.LockGovernance, Until: f.clock.Now().Add(time.Hour)}} {
			at := blob.Place("a", key)
			b := testenv.Must(f.Put(t.Context(), blob.PutOptions{Account: at.Account, Name: at.Name, Lock: lock}, strings.NewReader("x"), 1))(t)
			refused("a blob")
			var both sync.WaitGroup
			both.Go(func() { testenv.Check(t, f.Delete(t.Context(), at.Account, at.Name, nil)) })
			refused("a blob that is deleted meanwhile")
			both.Wait()
			refused("a kept version")
			v := metastore.VersionName{BlobName: at, Version: metastore.VersionOf(&b)}
			if lock != (metastore.Lock{}) {
				testenv.Is(t, testenv.Error(f.DeleteVersion(t.Context(), metastore.Deletion{VersionName: v})), metastore.ErrLocked, "the deletion of a locked version")
				no, bypass := false, func(*metastore.Blob, metastore.Lock) (*actions.Act, error) { return nil, nil }
				testenv.Must(f.SetLock(t.Context(), metastore.LockChange{VersionName: v, Retention: &metastore.Lock{}, Hold: &no, Bypass: bypass}))(t)
			}
			testenv.Must(f.DeleteVersion(t.Context(), metastore.Deletion{VersionName: v}))(t)
			refused("a mark alone")
			mark := testenv.Must(f.ListKeyVersions(t.Context(), metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "a", Limit: 2}}))(t).Versions
			testenv.Equal(t, len(mark), 1, "marks")
			testenv.Must(f.DeleteVersion(t.Context(), metastore.Deletion{VersionName: metastore.VersionName{BlobName: at, Version: metastore.VersionOf(&mark[0])}}))(t)
		}
	}
	testenv.OK(t, f.DeleteBucket(t.Context(), "a"))
}
