package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/wire"
)

// listed has names that sort differently by bytes, by UTF-16 and by locale, in byte order.
var listed = []string{"%", "/", "A", "Z", "a", "a b", "a+b", "a/b", "a/b/c", "a//b", "a0", "ab", "b/x", "b/y", "b/z/1", "é", "é/x", "日本", "\U0010FFFF", "😀"}

// putListed stores an empty blob for each of these names, and returns them sorted. A name that ends
// in a slash is left out.
func (c *trial) putListed(all []string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.HasSuffix(name, "/") })
	slices.Sort(all)
	for _, name := range all {
		c.put(name, "").want(204)
	}
	return all
}

// grouped returns the entries of a list: names, and the prefixes by which a delimiter groups them.
func grouped(all []string, prefix, delimiter string) (blobs, prefixes []string) {
	for _, name := range all {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if before, _, found := strings.Cut(rest, delimiter); found && delimiter != "" {
			prefixes = append(prefixes, prefix+before+delimiter)
		} else {
			blobs = append(blobs, name)
		}
	}
	return blobs, slices.Compact(prefixes)
}

// listQuery is a list, of all pages.
type listQuery struct {
	name, prefix, delimiter string
	limit                   int
}

var listCases = rows("list/all", listing, Extended, []listQuery{
	{"everything", "", "", 1000},
	{"in-pages-of-1", "", "", 1},
	{"in-pages-of-3", "", "", 3},
	{"prefix", "a", "", 1000},
	{"prefix-in-pages", "a", "", 2},
	{"prefix-with-slash", "a/", "", 1000},
	{"prefix-is-a-name", "a/b", "", 1000},
	{"prefix-of-nothing", "nothing", "", 1000},
	{"prefix-not-ascii", "é", "", 1000},
	{"delimiter", "", "/", 1000},
	{"delimiter-in-pages-of-1", "", "/", 1},
	{"delimiter-in-pages-of-2", "", "/", 2},
	{"delimiter-below-a-prefix", "b/", "/", 1000},
	{"delimiter-and-part-of-a-name", "b", "/", 1000},
	{"delimiter-of-two-characters", "", "//", 1000},
	{"delimiter-that-is-a-letter", "", "b", 1000},
	{"delimiter-letter-in-pages", "", "b", 2},
	{"delimiter-not-ascii", "", "é", 1000},
	{"delimiter-not-contained", "", "|", 1000},
}, func(q listQuery) string { return q.name }, func(c *trial, q listQuery) {
	blobs, prefixes := grouped(c.putListed(listed), q.prefix, q.delimiter)
	gotBlobs, gotPrefixes := c.pages(q)
	if !slices.Equal(gotBlobs, blobs) || !slices.Equal(gotPrefixes, prefixes) {
		c.fatalf("the pages have %q and the prefixes %q, want %q and %q", gotBlobs, gotPrefixes, blobs, prefixes)
	}
})

// pages returns the entries on all of a list's pages. Each page must continue where the one before
// ended, and have the limit's number of entries unless it is the last one.
func (c *trial) pages(q listQuery) (blobs, prefixes []string) {
	query, after := fmt.Sprintf("limit=%d", q.limit), ""
	if q.delimiter != "" {
		query += "&delimiter=" + escaped(q.delimiter)
	}
	for range 100 {
		continued := query
		if after != "" {
			continued += "&" + c.after(after)
		}
		page := c.list(q.prefix, continued)
		n := len(page.Blobs) + len(page.Prefixes)
		if n > q.limit || page.Next != "" && n == 0 {
			c.fatalf("a page of %d entries with limit %d and next %q", n, q.limit, page.Next)
		}
		blobs, prefixes = append(blobs, names(page)...), append(prefixes, page.Prefixes...)
		if page.Next == "" {
			return blobs, prefixes
		}
		next := strings.TrimPrefix(page.Next, c.prefix)
		if next <= after {
			c.fatalf("next is %q after %q", next, after)
		}
		after = next
	}
	c.fatalf("the list has not ended after 100 pages")
	return nil, nil
}

// listAfter is a list that begins after a name.
var listAfterCases = rows("list/after", listing, Extended, []string{"A", "a", "a/", "a/b", "a/zzz", "b/z", "é", "\U0010FFFF", "zzz"}, func(after string) string {
	return escaped(strings.ReplaceAll(after, "/", "_"))
}, func(c *trial, after string) {
	all := c.putListed(listed)
	want := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name <= after })
	if got := names(c.list("", c.after(after))); !slices.Equal(got, want) {
		c.fatalf("after %q the list has %q, want %q", after, got, want)
	}
	blobs, prefixes := grouped(all, "", "/")
	blobs = slices.DeleteFunc(blobs, func(entry string) bool { return entry <= after })
	prefixes = slices.DeleteFunc(prefixes, func(entry string) bool { return entry <= after })
	page := c.list("", "delimiter=/&"+c.after(after))
	if got := names(page); !slices.Equal(got, blobs) || !slices.Equal(page.Prefixes, prefixes) && len(prefixes)+len(page.Prefixes) > 0 {
		c.fatalf("after %q, by delimiter, the list has %q and %q, want %q and %q", after, got, page.Prefixes, blobs, prefixes)
	}
})

// moreListCases check entries, and which writes a list sees.
var moreListCases = []Case{
	{Name: "list/entry", Section: listing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", content(3000), "Content-Type", "text/x-demo").want(204).header.Get("ETag")
		modified, err := http.ParseTime(c.head("a").want(200).header.Get("Last-Modified"))
		c.ok(err)
		b := c.list("", "").Blobs[0]
		if b.Name != "a" || b.Size != 3000 || b.ETag != etag || b.ContentType != "text/x-demo" || !b.LastModified.Truncate(time.Second).Equal(modified) {
			c.fatalf("the entry is %+v, want a, 3000 bytes, %s, text/x-demo, %v", b, etag, modified)
		}
	}},
	{Name: "list/absent-members", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		r := c.send(request{method: "GET", target: c.listTarget("", "")}).want(200)
		o := r.members()
		if _, ok := o["next"]; ok {
			r.fatalf("next is present on the last page: %s", printable(r.body))
		}
		if prefixes, ok := o["prefixes"].([]any); !ok || len(prefixes) != 0 {
			r.fatalf("prefixes is %v, want an empty list", o["prefixes"])
		}
		if strings.Contains(r.body, "expires") || strings.Contains(r.body, "null") {
			r.fatalf("a member without a value is present: %s", printable(r.body))
		}
	}},
	{Name: "list/nothing", Section: listing, Level: Extended, check: func(c *trial) {
		page := c.list("", "")
		if len(page.Blobs) != 0 || len(page.Prefixes) != 0 || page.Next != "" {
			c.fatalf("the list of nothing is %+v", page)
		}
	}},
	{Name: "list/sees-each-write", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		if b := c.list("", "").Blobs; len(b) != 1 || b[0].Size != 1 {
			c.fatalf("after PUT the list has %+v", b)
		}
		c.put("a", "longer").want(204)
		if b := c.list("", "").Blobs; len(b) != 1 || b[0].Size != 6 {
			c.fatalf("after a replacement the list has %+v", b)
		}
		c.delete("a").want(204)
		if b := c.list("", "").Blobs; len(b) != 0 {
			c.fatalf("after DELETE the list has %+v", b)
		}
	}},
	{Name: "list/large-limit", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		if page := c.list("", "limit=1000000"); len(page.Blobs) != 1 {
			c.fatalf("with a limit of 1000000 the list has %+v", page)
		}
	}},
	{Name: "list/exactly-the-limit", Section: listing, Level: Extended, check: func(c *trial) {
		c.putListed([]string{"a", "b"})
		if page := c.list("", "limit=2"); len(page.Blobs) != 2 {
			c.fatalf("with a limit of 2 the list has %+v", page)
		}
	}},
	{Name: "list/other-accounts-are-apart", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.in("conformance-other").put("b", "x").want(204)
		c.put("a", "x").want(204)
		if got := names(c.list("", "")); !slices.Equal(got, []string{"a"}) {
			c.fatalf("the list has %q, want a alone", got)
		}
	}},
	{Name: "list/no-body-of-head", Section: operations, Level: Extended, check: func(c *trial) {
		if r := c.send(request{method: "HEAD", target: c.listTarget("", "")}).want(200); r.body != "" {
			r.fatalf("the response has a body")
		}
	}},
}

var wrongListCases = rows("list/refused", listing, Extended, [][2]string{
	{"limit-zero", "limit=0"}, {"limit-negative", "limit=-1"}, {"limit-letters", "limit=ten"}, {"limit-fraction", "limit=1.5"}, {"limit-empty", "limit="},
	{"limit-twice", "limit=1&limit=2"}, {"prefix-twice", "prefix=a"}, {"delimiter-not-utf-8", "delimiter=%FF"}, {"after-not-utf-8", "after=%C0%AF"},
	{"include-unknown", "include=everything"}, {"include-list", "include=metadata,"}, {"include-twice", "include=metadata&include=metadata"},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	c.send(request{method: "GET", target: c.listTarget("", r[1])}).refused(400, "bad_parameter")
})

// accountListCases check the list of accounts, which is for everyone on a local instance.
var accountListCases = needing([]Case{
	{Name: "accounts/counts", Section: listAccounts, Level: Extended, check: func(c *trial) {
		own := c.in(randomAddress())
		own.put("a", "12345").want(204)
		own.put("b", "678").want(204)
		own.put("b", "67").want(204)
		if a, ok := own.listedAccount(); !ok || a.Blobs != 2 || a.Bytes != 7 {
			c.fatalf("the account is %+v (%v), want 2 blobs with 7 bytes", a, ok)
		}
		own.delete("a").want(204)
		if a, ok := own.listedAccount(); !ok || a.Blobs != 1 || a.Bytes != 2 {
			c.fatalf("after a DELETE the account is %+v (%v), want 1 blob with 2 bytes", a, ok)
		}
		own.delete("b").want(204)
		if a, ok := own.listedAccount(); ok {
			c.fatalf("an account without blobs is listed: %+v", a)
		}
	}},
	{Name: "accounts/sorted", Section: listAccounts, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		var page wire.AccountPage
		c.send(request{method: "GET", target: "/v1/accounts"}).want(200).json(&page)
		if !slices.IsSortedFunc(page.Accounts, func(a, b wire.Account) int { return strings.Compare(a.Account, b.Account) }) {
			c.fatalf("the accounts are not sorted: %+v", page.Accounts)
		}
	}},
	{Name: "accounts/refused", Section: listAccounts, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: "/v1/accounts?limit=0"}).refused(400, "bad_parameter")
	}},
}, localInstance)

// listedAccount returns the trial's account as the list of accounts has it.
func (c *trial) listedAccount() (wire.Account, bool) {
	before := c.account[:len(c.account)-1] // sorts directly before the account
	var page wire.AccountPage
	c.send(request{method: "GET", target: "/v1/accounts?limit=2&after=" + before}).want(200).json(&page)
	for _, a := range page.Accounts {
		if a.Account == c.account {
			return a, true
		}
	}
	return wire.Account{}, false
}
