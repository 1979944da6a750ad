package client_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestVersions keeps versions, and lists, reads, restores and deletes them in every way.
func TestVersions(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	ctx, name := t.Context(), "p/ä b"
	put := func(body string) string {
		return testenv.Must(c.Put(ctx, "team", name, strings.NewReader(body), client.PutOptions{PartSize: 4}))(t).Version
	}
	listed := func(o client.ListOptions) string {
		var list []string
		for v, err := range c.Versions(ctx, "team", o) {
			testenv.OK(t, err)
			list = append(list, fmt.Sprint(v.Name, v.Prefix, " ", v.Version, " ", v.Size, v.Current, v.Deleted))
		}
		return strings.Join(list, "\n")
	}
	testenv.Equal(t, put("x"), "", "the version in an account that keeps none")
	kept := testenv.Must(c.Admin().SetVersions(ctx, "team", wire.SetKeeping{Keep: wire.KeepOn, Most: 9}, client.UpdateOptions{}))(t)
	_, err := c.Admin().SetVersions(ctx, "team", wire.SetKeeping{Keep: wire.KeepOn}, client.UpdateOptions{IfMatch: `"other"`})
	testenv.Is(t, err, client.ErrPreconditionFailed, "a change on condition")
	for k, err := range c.Admin().Versions(ctx) {
		testenv.OK(t, err)
		testenv.Equal(t, k.SetKeeping, kept.SetKeeping, "the listed setting")
	}
	testenv.Equal(t, testenv.Must(c.Admin().AccountVersions(ctx, "team"))(t).ETag, kept.ETag, "the setting's ETag")
	first, second := put("one"), put("in two parts")
	if first == "" || first == second {
		t.Fatalf("the versions are %q and %q", first, second)
	}

	old := client.GetOptions{Version: first}
	testenv.Equal(t, testenv.Must(c.HeadVersion(ctx, "team", name, first))(t).Size, 3, "the size of a version")
	r := testenv.Must(c.GetLast(ctx, "team", name, 2, old))(t)
	testenv.Equal(t, string(testenv.Must(io.ReadAll(r))(t)), "ne", "the end of a version")
	testenv.OK(t, r.Close())
	o := testenv.Must(c.Open(ctx, "team", name, old))(t)
	testenv.Equal(t, string(testenv.Must(io.ReadAll(o))(t)), "one", "an opened version")
	testenv.OK(t, o.Close())
	file := filepath.Join(t.TempDir(), "file")
	b := testenv.Must(c.DownloadFile(ctx, "team", name, file, client.DownloadOptions{GetOptions: old, RangeSize: 2}))(t)
	testenv.Equal(t, b.Version, first, "the downloaded version")
	checkContent(t, file, []byte("one"))

	from := client.BlobName{Account: "team", Name: name}
	copied := testenv.Must(c.Copy(ctx, from, from, client.CopyOptions{Version: first}))(t)
	testenv.OK(t, c.Delete(ctx, "team", name, client.DeleteOptions{}))
	testenv.OK(t, c.Delete(ctx, "team", name, client.DeleteOptions{Version: second}))
	testenv.OK(t, c.Delete(ctx, "team", name, client.DeleteOptions{Version: second}))
	testenv.Is(t, c.Delete(ctx, "team", name, client.DeleteOptions{Version: first, IfMatch: `"x"`}), client.ErrPreconditionFailed, "a deletion on condition")
	mark := ""
	for v, err := range c.Versions(ctx, "team", client.ListOptions{}) {
		testenv.OK(t, err)
		if v.Deleted {
			mark = v.Version
		}
	}
	want := fmt.Sprintf("%[1]s %[2]s 0 false true\n%[1]s %[3]s 3 false false\n%[1]s %[4]s 3 false false\n%[1]s ", name, mark, copied.Version, first)
	for _, o := range []client.ListOptions{{}, {PageSize: 1}, {Prefix: name}, {After: "p/"}} {
		if got := listed(o); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 3 {
			t.Errorf("%+v: the versions are\n%s\nwant\n%s", o, got, want)
		}
	}
	testenv.Equal(t, listed(client.ListOptions{Delimiter: "/"}), "p/  0 false false", "groups")
	testenv.Equal(t, listed(client.ListOptions{After: name}), "", "versions behind the name")
	testenv.Is(t, testenv.Error(c.HeadVersion(ctx, "team", name, mark)), client.ErrNotFound, "a mark")
	testenv.Is(t, testenv.Error(c.Head(ctx, "team", name)), client.ErrNotFound, "a deleted blob")

	s.setHook(nil)
	for _, version := range []string{"..", "null", first + "0", strings.ToUpper("a" + first[1:]), first[1:] + "/"} {
		testenv.Is(t, testenv.Error(c.HeadVersion(ctx, "team", name, version)), client.ErrInvalid, "a request for the version %s", version)
		testenv.Is(t, c.Delete(ctx, "team", name, client.DeleteOptions{Version: version}), client.ErrInvalid, "a deletion of the version %s", version)
	}
	testenv.Equal(t, s.requests(func(request) bool { return true }), 0, "requests for what is no version")
}

// TestLocks locks versions as they are stored and afterwards, and shows, breaks and ends the locks.
func TestLocks(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	ctx := t.Context()
	set := testenv.Must(c.Admin().SetVersions(ctx, "team", wire.SetKeeping{Keep: wire.KeepOn, Locks: &wire.LockSetting{Mode: client.LockGovernance, For: "24h", Most: "72h"}}, client.UpdateOptions{}))(t)
	testenv.Equal(t, *set.Locks, wire.LockSetting{Mode: client.LockGovernance, For: "24h", Most: "72h"}, "the setting")
	until := time.Now().UTC().Truncate(time.Second).Add(48 * time.Hour)
	yes, no := true, false
	stated := client.Lock{Mode: client.LockCompliance, Until: until, Hold: true}
	lockOf := func(name, version string) client.Lock {
		t.Helper()
		b := testenv.Must(c.HeadVersion(ctx, "team", name, version))(t)
		for v, err := range c.Versions(ctx, "team", client.ListOptions{Prefix: name}) {
			testenv.OK(t, err)
			if v.Version == version {
				testenv.Equal(t, v.Lock, b.Lock, "the listed lock of %s", name)
			}
		}
		return b.Lock
	}
	for name, body := range map[string]string{"small": "x", "in parts": "in two parts"} {
		b := testenv.Must(c.Put(ctx, "team", name, strings.NewReader(body), client.PutOptions{PartSize: 8, Lock: stated}))(t)
		testenv.Equal(t, lockOf(name, b.Version), stated, "the lock of %s", name)
	}
	small := client.BlobName{Account: "team", Name: "small"}
	b := testenv.Must(c.Copy(ctx, small, client.BlobName{Account: "team", Name: "copy"}, client.CopyOptions{Lock: stated}))(t)
	testenv.Equal(t, lockOf("copy", b.Version), stated, "the copy's lock")
	b = testenv.Must(c.Copy(ctx, small, client.BlobName{Account: "team", Name: "other"}, client.CopyOptions{}))(t)
	testenv.Equal(t, lockOf("other", b.Version).Mode, client.LockGovernance, "the mode that the account sets")

	locked := func(err error) {
		t.Helper()
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != wire.CodeLocked || refused.Status != 403 {
			t.Errorf("%v, not that it is locked", err)
		}
	}
	setLock := func(o client.LockOptions) (client.Lock, error) { return c.SetLock(ctx, "team", "other", b.Version, o) }
	got := testenv.Must(setLock(client.LockOptions{Mode: client.LockGovernance, Until: until, Hold: &yes}))(t)
	testenv.Equal(t, got, client.Lock{Mode: client.LockGovernance, Until: until, Hold: true}, "the lock")
	locked(testenv.Error(setLock(client.LockOptions{End: true})))
	testenv.Equal(t, testenv.Must(setLock(client.LockOptions{End: true, Bypass: true}))(t), client.Lock{Hold: true}, "the lock without its retention")
	locked(c.Delete(ctx, "team", "other", client.DeleteOptions{Version: b.Version, Bypass: true}))
	testenv.Is(t, testenv.Error(setLock(client.LockOptions{Hold: &no, IfMatch: `"other"`})), client.ErrPreconditionFailed, "a change on condition")
	testenv.Equal(t, testenv.Must(setLock(client.LockOptions{Hold: &no, Mode: client.LockGovernance, Until: until}))(t), client.Lock{Mode: client.LockGovernance, Until: until}, "the lock without its hold")
	locked(c.Delete(ctx, "team", "other", client.DeleteOptions{Version: b.Version}))
	testenv.OK(t, c.Delete(ctx, "team", "other", client.DeleteOptions{Version: b.Version, Bypass: true}))
	testenv.Is(t, testenv.Error(setLock(client.LockOptions{Hold: &yes})), client.ErrNotFound, "the lock of a version that was deleted")
	for _, o := range []client.LockOptions{{Mode: client.LockGovernance, Until: until, End: true}} {
		testenv.Is(t, testenv.Error(setLock(o)), client.ErrInvalid, "%+v", o)
	}
	testenv.Is(t, testenv.Error(c.SetLock(ctx, "team", "small", "", client.LockOptions{Hold: &yes})), client.ErrInvalid, "a lock of no version")
}
