package conformance

import (
	"strings"
)

// oddName is a name that a file system, a URL parser or a normalizer could change.
type oddName struct{ name, blob string }

var nameCases = rows("name", namesAccounts, Extended, []oddName{
	{"space", "hello world.txt"},
	{"percent", "100%"},
	{"escaped-percent", "%41"},
	{"plus", "a+b"},
	{"question-mark", "a?b=c"},
	{"hash", "a#b"},
	{"ampersand", "a&b=c;d"},
	{"quotes", `a"b'c`},
	{"backslash", `a\b`},
	{"colon", "a:b"},
	{"double-slash", "a//b"},
	{"leading-slash", "/a"},
	{"dot", "a/./b"},
	{"dot-dot", "a/../b"},
	{"only-dots", ".."},
	{"hidden", ".hidden"},
	{"trailing-dot", "a."},
	{"trailing-space", "a "},
	{"tilde", "~"},
	{"latin", "é"},
	{"decomposed", "e\u0301"},
	{"japanese", "日本語"},
	{"emoji", "😀"},
	{"last-code-point", "\U0010FFFF"},
	{"no-break-space", "a\u00a0b"},
	{"right-to-left", "\u202eabc"},
	{"next-line", "a\u0085b"},
	{"upper-case", "README"},
}, func(n oddName) string { return n.name }, func(c *trial, n oddName) {
	c.put(n.blob, n.name).want(204)
	c.get(n.blob).want(200).wantBody(n.name)
	if got := names(c.list("", "")); len(got) != 1 || got[0] != n.blob {
		c.fatalf("the list has %q, want %q", got, n.blob)
	}
})

// badName is a path below an account that is no name.
type badName struct {
	name, path string
}

var badNameCases = rows("name/refused", namesAccounts, Extended, []badName{
	{"slash-at-the-end", "a/"},
	{"escaped-slash-at-the-end", "a%2F"},
	{"nul", "a%00b"},
	{"tab", "a%09b"},
	{"newline", "a%0Ab"},
	{"delete", "a%7Fb"},
	{"not-utf-8", "a%FFb"},
	{"surrogate", "a%ED%A0%80b"},
	{"overlong", "a%C0%AFb"},
}, func(n badName) string { return n.name }, func(c *trial, n badName) {
	c.putTo("/v1/blobs/"+c.account+"/"+escaped(c.prefix)+n.path, "x").want(400)
})

// moreNameCases check lengths and spellings of names.
var moreNameCases = []Case{
	{Name: "name/longest", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put(c.ofLength(1024), "x").want(204)
		c.get(c.ofLength(1024)).want(200).wantBody("x")
	}},
	{Name: "name/too-long", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put(c.ofLength(1025), "x").refused(400, "bad_name")
	}},
	{Name: "name/longest-target", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		name := strings.Repeat("日", len(c.ofLength(1024))) // 3 bytes each, and 9 in the target
		c.put(name, "x").want(204)
		c.get(name).want(200).wantBody("x")
		if got := names(c.list(name, "")); len(got) != 1 || got[0] != name {
			c.fatalf("the list with the whole name as prefix has %d names", len(got))
		}
		c.delete(name).want(204)
	}},
	{Name: "name/length-in-code-units", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		rest := len(c.ofLength(1024))
		fits := strings.Repeat("😀", rest/2) // two code units each
		c.put(fits, "x").want(204)
		c.put(fits+"ab", "x").refused(400, "bad_name")
	}},
	{Name: "name/escaped-slash", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put("a/b", "x").want(204)
		c.read("GET", strings.Replace(c.blob("a/b"), "a/b", "a%2Fb", 1)).want(200).wantBody("x")
		c.read("GET", strings.Replace(c.blob("a/b"), "a/b", "a%2fb", 1)).want(200).wantBody("x")
	}},
	{Name: "name/everything-escaped", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put("abc", "x").want(204)
		c.read("GET", strings.TrimSuffix(c.blob("abc"), "abc")+"%61%62%63").want(200).wantBody("x")
	}},
	{Name: "name/decoded-once", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put("%41", "escaped").want(204)
		c.get("A").want(404)
		c.put("A", "plain").want(204)
		c.get("%41").want(200).wantBody("escaped")
	}},
	{Name: "name/plus-is-no-space", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put("a+b", "plus").want(204)
		c.put("a b", "space").want(204)
		c.read("GET", strings.TrimSuffix(c.blob("x"), "x")+"a+b").want(200).wantBody("plus")
		c.get("a b").want(200).wantBody("space")
	}},
	{Name: "name/never-normalised", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		all := []string{"foo", "foo/bar", "foo//bar", "foo/./bar", "foo/../bar", "bar", "/bar", "FOO", "é", "e\u0301"}
		for _, name := range all {
			c.put(name, name).want(204)
		}
		for _, name := range all {
			c.get(name).want(200).wantBody(name)
		}
	}},
	{Name: "name/empty", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.putTo("/v1/blobs/"+c.account+"/", "x").refused(400, "bad_name")
	}},
}

// spelling is another way to write the run's account.
type spelling struct {
	name string
	of   func(address string) string
}

var spellingCases = needing(rows("account/same", namesAccounts, Extended, []spelling{
	{"upper-case", func(a string) string { return "0x" + strings.ToUpper(a[2:]) }},
	{"without-prefix", func(a string) string { return a[2:] }},
	{"without-zeros", func(a string) string { return "0x" + strings.TrimLeft(a[2:], "0") }},
}, func(s spelling) string { return s.name }, func(c *trial, s spelling) {
	c.put("a", "hello").want(204)
	c.in(s.of(c.account)).get("a").want(200).wantBody("hello")
}), addressAccount)

var badAccountCases = rows("account/refused", namesAccounts, Extended, []badName{
	{"upper-case", "Alice"},
	{"underscore-first", "_a"},
	{"dot-first", ".a"},
	{"65-characters", strings.Repeat("a", 32) + strings.Repeat("z", 33)},
	{"65-digits", "0x" + strings.Repeat("1", 65)},
	{"prefix-alone", "0x"},
	{"not-hexadecimal", "0xg"},
	{"space", "a%20b"},
	{"escaped-letter", "caf%C3%A9"},
}, func(n badName) string { return n.name }, func(c *trial, n badName) {
	c.putTo("/v1/blobs/"+n.path+"/"+escaped(c.prefix)+"a", "x").refused(400, "bad_account")
})

// accountCases check that accounts are apart.
var accountCases = []Case{
	{Name: "account/plain-name", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		plain := c.in("conformance.plain_name-1")
		plain.put("a", "plain").want(204)
		plain.get("a").want(200).wantBody("plain")
		c.get("a").want(404)
	}},
	{Name: "account/longest-plain-name", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.in(strings.Repeat("conformance-", 5)+"zzzz").put("a", "x").want(204)
	}},
	{Name: "account/escaped-slash", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.putTo("/v1/blobs/a%2Fb/"+escaped(c.prefix)+"a", "x").refused(400, "bad_request")
	}},
}
