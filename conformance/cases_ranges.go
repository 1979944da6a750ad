package conformance

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// rangeRow is a Range header, and the bytes that it selects from a blob of 3,000 bytes.
type rangeRow struct {
	name, header string
	first, last  int
}

// oneRangeCases check headers that select one range, also by several specifications.
var oneRangeCases = rows("range/one", reading, Extended, []rangeRow{
	{"first-byte", "bytes=0-0", 0, 0},
	{"middle", "bytes=5-9", 5, 9},
	{"open", "bytes=2990-", 2990, 2999},
	{"all-open", "bytes=0-", 0, 2999},
	{"last-byte", "bytes=2999-2999", 2999, 2999},
	{"suffix", "bytes=-5", 2995, 2999},
	{"suffix-of-one", "bytes=-1", 2999, 2999},
	{"suffix-of-all", "bytes=-3000", 0, 2999},
	{"suffix-of-more", "bytes=-3005", 0, 2999},
	{"to-the-end", "bytes=10-2999", 10, 2999},
	{"beyond-the-end", "bytes=10-3000", 10, 2999},
	{"far-beyond-the-end", "bytes=10-99999999999999999999999", 10, 2999},
	{"suffix-of-far-more", "bytes=-99999999999999999999999", 0, 2999},
	{"leading-zeros", "bytes=00005-0009", 5, 9},
	{"unit-in-upper-case", "Bytes=5-9", 5, 9},
	{"white-space", "bytes=5-9 ,\t", 5, 9},
	{"with-one-beyond", "bytes=5-9,3000-", 5, 9},
	{"between-two-beyond", "bytes=3000-,5-9,3001-3002", 5, 9},
	{"twice-the-same", "bytes=5-9,5-9", 5, 9},
	{"adjacent", "bytes=5-9,10-19", 5, 19},
	{"overlapping", "bytes=8-19,5-10", 5, 19},
	{"contained", "bytes=5-19,7-9", 5, 19},
}, func(r rangeRow) string { return r.name }, func(c *trial, r rangeRow) {
	body := content(3000)
	etag := c.put("a", body).want(204).header.Get("ETag")
	answer := c.get("a", "Range", r.header).want(206).wantHeader("Content-Range", fmt.Sprintf("bytes %d-%d/3000", r.first, r.last))
	answer.wantBody(body[r.first:r.last+1]).wantLength(r.last-r.first+1).wantHeader("ETag", etag)
})

// ignoredRangeCases check headers that are no set of byte ranges.
var ignoredRangeCases = rows("range/ignored", reading, Extended, [][2]string{
	{"empty-set", "bytes="},
	{"letters", "bytes=a-b"},
	{"backwards", "bytes=5-4"},
	{"dash-alone", "bytes=-"},
	{"negative", "bytes=--1"},
	{"one-malformed", "bytes=1-2,x"},
	{"semicolon", "bytes=0-0;"},
	{"plus-sign", "bytes=+1-2"},
	{"fraction", "bytes=1.5-2"},
	{"hexadecimal", "bytes=0x1-2"},
	{"no-equals-sign", "bytes 0-1"},
	{"other-unit", "items=0-1"},
	{"unit-alone", "bytes"},
	{"no-unit", "=0-1"},
	{"spaces-within", "bytes=0 - 1"},
	{"65-ranges", "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 65), ",")},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	body := content(3000)
	c.put("a", body).want(204)
	c.get("a", "Range", r[1]).want(200).wantBody(body).wantNo("Content-Range")
})

// unsatisfiableRangeCases check headers without a range in the blob.
var unsatisfiableRangeCases = rows("range/unsatisfiable", reading, Extended, [][2]string{
	{"at-the-end", "bytes=3000-"},
	{"beyond-the-end", "bytes=3000-3005"},
	{"far-beyond", "bytes=99999999999999999999999-"},
	{"suffix-of-nothing", "bytes=-0"},
	{"several", "bytes=3000-,-0"},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	c.put("a", content(3000)).want(204)
	c.get("a", "Range", r[1]).refused(416, "range_not_satisfiable").wantHeader("Content-Range", "bytes */3000")
})

// boundary is a range across a byte at which servers divide content.
type boundary struct {
	name        string
	first, last int
}

var boundaryCases = rows("range/boundary", reading, Extended, []boundary{
	{"32KiB", 32<<10 - 2, 32<<10 + 1}, {"64KiB", 64<<10 - 2, 64<<10 + 1}, {"1MiB", 1<<20 - 2, 1<<20 + 1},
	{"1MiB-from", 1 << 20, 1<<20 + 5}, {"1MiB-to", 1<<20 - 5, 1<<20 - 1}, {"whole-block", 0, 1<<20 - 1}, {"two-blocks", 100, 2<<20 + 3},
}, func(b boundary) string { return b.name }, func(c *trial, b boundary) {
	body := content(2<<20 + 17)
	c.put("a", body).want(204)
	c.get("a", "Range", fmt.Sprintf("bytes=%d-%d", b.first, b.last)).want(206).wantBody(body[b.first : b.last+1])
})

// rangeCases check several ranges, and ranges of special blobs.
var rangeCases = []Case{
	{Name: "range/several", Section: reading, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body, "Content-Type", "text/x-demo").want(204)
		wantParts(c.get("a", "Range", "bytes=0-4,100-109,-10"), body, "text/x-demo", [][2]int{{0, 4}, {100, 109}, {2990, 2999}})
	}},
	{Name: "range/in-the-request's-order", Section: reading, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body, "Content-Type", "text/x-demo").want(204)
		wantParts(c.get("a", "Range", "bytes=1000-1009,0-4"), body, "text/x-demo", [][2]int{{1000, 1009}, {0, 4}})
	}},
	{Name: "range/several-merged", Section: reading, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body, "Content-Type", "text/x-demo").want(204)
		wantParts(c.get("a", "Range", "bytes=0-4,5-9,100-109"), body, "text/x-demo", [][2]int{{0, 9}, {100, 109}})
	}},
	{Name: "range/several-in-large-blob", Section: reading, Level: Extended, check: func(c *trial) {
		body := content(2<<20 + 17)
		c.put("a", body, "Content-Type", "text/x-demo").want(204)
		wantParts(c.get("a", "Range", "bytes=2097152-2097160,10-19,1048570-1048580"), body, "text/x-demo",
			[][2]int{{2097152, 2097160}, {10, 19}, {1048570, 1048580}})
	}},
	{Name: "range/64-ranges", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		body := content(3000)
		c.put("a", body, "Content-Type", "text/x-demo").want(204)
		var asked []string
		var want [][2]int
		for i := range 64 {
			asked = append(asked, fmt.Sprintf("%d-%d", 10*i, 10*i+1))
			want = append(want, [2]int{10 * i, 10*i + 1})
		}
		wantParts(c.get("a", "Range", "bytes="+strings.Join(asked, ",")), body, "text/x-demo", want)
	}},
	{Name: "range/head-ignores-it", Section: reading, Level: Client, check: func(c *trial) {
		c.put("a", content(3000)).want(204)
		c.head("a", "Range", "bytes=0-0").want(200).wantLength(3000).wantNo("Content-Range")
	}},
	{Name: "range/after-replacement", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", content(40_000)).want(204)
		c.get("a", "Range", "bytes=20000-20009").want(206)
		body := content(50_000)[10_000:]
		c.put("a", body).want(204)
		c.get("a", "Range", "bytes=20000-20009").want(206).wantBody(body[20_000:20_010])
	}},
	{Name: "range/empty-blob", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "").want(204)
		for _, header := range []string{"bytes=0-", "bytes=0-0", "bytes=5-"} {
			c.get("a", "Range", header).refused(416, "range_not_satisfiable").wantHeader("Content-Range", "bytes */0")
		}
	}},
	{Name: "range/suffix-of-empty-blob", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "").want(204)
		c.get("a", "Range", "bytes=-5").want(200).wantBody("")
	}},
	{Name: "range/one-byte-blob", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		c.get("a", "Range", "bytes=0-").want(206).wantBody("x").wantHeader("Content-Range", "bytes 0-0/1")
		c.get("a", "Range", "bytes=-1").want(206).wantBody("x")
		c.get("a", "Range", "bytes=1-").want(416)
	}},
}

// wantParts expects a multipart/byteranges response (RFC 9110, section 14.6) with these ranges, in
// this order.
func wantParts(r *response, body, contentType string, want [][2]int) {
	r.want(206).wantNo("Content-Range").wantLength(len(r.body))
	kind, parameters, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		r.fatalf("Content-Type is %q, want multipart/byteranges", r.header.Get("Content-Type"))
	}
	reader := multipart.NewReader(strings.NewReader(r.body), parameters["boundary"])
	for i, span := range want {
		part, err := reader.NextRawPart()
		if err != nil {
			r.fatalf("part %d: %v", i, err)
		}
		got, err := io.ReadAll(part)
		if err != nil {
			r.fatalf("part %d: %v", i, err)
		}
		field := fmt.Sprintf("bytes %d-%d/%d", span[0], span[1], len(body))
		if part.Header.Get("Content-Range") != field || part.Header.Get("Content-Type") != contentType || string(got) != body[span[0]:span[1]+1] {
			r.fatalf("part %d has Content-Range %q and %d bytes, want %q and its bytes", i, part.Header.Get("Content-Range"), len(got), field)
		}
	}
	if _, err := reader.NextRawPart(); !errors.Is(err, io.EOF) {
		r.fatalf("there are more than %d parts", len(want))
	}
}
