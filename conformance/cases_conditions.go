package conformance

import (
	"net/http"
	"strings"
	"time"
)

// condition is a read with conditions. ETAG, DATE, BEFORE and AFTER in its headers stand for the
// blob's ETag and date, and for dates an hour before and after.
type condition struct {
	name   string
	header []string
	status int
}

// filled returns the headers for a blob.
func (t condition) filled(c *trial, stored *response) []string {
	date, err := http.ParseTime(stored.header.Get("Last-Modified"))
	c.ok(err)
	replacer := strings.NewReplacer("ETAG", stored.header.Get("ETag"), "DATE", date.Format(http.TimeFormat),
		"BEFORE", date.Add(-time.Hour).Format(http.TimeFormat), "AFTER", date.Add(time.Hour).Format(http.TimeFormat))
	filled := make([]string, len(t.header))
	for i, text := range t.header {
		filled[i] = replacer.Replace(text)
	}
	return filled
}

var readConditions = []condition{
	{"none-match", []string{"If-None-Match", "ETAG"}, 304},
	{"none-match-weak", []string{"If-None-Match", "W/ETAG"}, 304},
	{"none-match-any", []string{"If-None-Match", "*"}, 304},
	{"none-match-list", []string{"If-None-Match", `"x", ETAG`}, 304},
	{"none-match-two-lines", []string{"If-None-Match", `"x"`, "If-None-Match", "ETAG"}, 304},
	{"none-match-other", []string{"If-None-Match", `"x"`}, 200},
	{"none-match-malformed", []string{"If-None-Match", `x"`}, 200},
	{"none-match-before-range", []string{"If-None-Match", "ETAG", "Range", "bytes=0-0"}, 304},
	{"none-match-other-range", []string{"If-None-Match", `"x"`, "Range", "bytes=0-0"}, 206},
	{"none-match-before-416", []string{"If-None-Match", "ETAG", "Range", "bytes=99999999-"}, 304},
	{"match", []string{"If-Match", "ETAG"}, 200},
	{"match-any", []string{"If-Match", "*"}, 200},
	{"match-list", []string{"If-Match", `"x", ETAG`}, 200},
	{"match-other", []string{"If-Match", `"x"`}, 412},
	{"match-weak", []string{"If-Match", "W/ETAG"}, 412},
	{"match-before-none-match", []string{"If-Match", `"x"`, "If-None-Match", "ETAG"}, 412},
	{"match-then-none-match", []string{"If-Match", "ETAG", "If-None-Match", "ETAG"}, 304},
	{"match-before-416", []string{"If-Match", `"x"`, "Range", "bytes=99999999-"}, 412},
	{"match-then-416", []string{"If-Match", "ETAG", "Range", "bytes=99999999-"}, 416},
	{"modified-since", []string{"If-Modified-Since", "DATE"}, 304},
	{"modified-since-later", []string{"If-Modified-Since", "AFTER"}, 304},
	{"modified-since-earlier", []string{"If-Modified-Since", "BEFORE"}, 200},
	{"modified-since-malformed", []string{"If-Modified-Since", "yesterday"}, 200},
	{"none-match-overrides-date", []string{"If-Modified-Since", "DATE", "If-None-Match", `"x"`}, 200},
	{"none-match-overrides-earlier", []string{"If-Modified-Since", "BEFORE", "If-None-Match", "ETAG"}, 304},
	{"unmodified-since", []string{"If-Unmodified-Since", "DATE"}, 200},
	{"unmodified-since-later", []string{"If-Unmodified-Since", "AFTER"}, 200},
	{"unmodified-since-earlier", []string{"If-Unmodified-Since", "BEFORE"}, 412},
	{"unmodified-since-malformed", []string{"If-Unmodified-Since", "yesterday"}, 200},
	{"match-overrides-date", []string{"If-Unmodified-Since", "BEFORE", "If-Match", "ETAG"}, 200},
	{"match-other-overrides-date", []string{"If-Unmodified-Since", "AFTER", "If-Match", `"x"`}, 412},
}

var readConditionCases = rows("condition/read", reading, Extended, readConditions, func(t condition) string { return t.name }, func(c *trial, t condition) {
	put := c.put("a", content(40_000)).want(204)
	header := t.filled(c, c.head("a").want(200))
	r := c.get("a", header...).want(t.status)
	switch t.status {
	case 304:
		r.wantBody("").wantHeader("ETag", put.header.Get("ETag"))
	case 412:
		r.refused(412, "precondition_failed")
	}
	if t.status != 206 && t.status != 416 { // HEAD ignores ranges
		c.head("a", header...).want(t.status)
	}
})

var ifRangeCases = rows("condition/if-range", reading, Extended, []condition{
	{"etag", []string{"If-Range", "ETAG"}, 206},
	{"other", []string{"If-Range", `"x"`}, 200},
	{"weak", []string{"If-Range", "W/ETAG"}, 200},
	{"earlier-date", []string{"If-Range", "BEFORE"}, 200},
	{"later-date", []string{"If-Range", "AFTER"}, 200},
	{"malformed", []string{"If-Range", "nonsense"}, 200},
}, func(t condition) string { return t.name }, func(c *trial, t condition) {
	body := content(40_000)
	c.put("a", body).want(204)
	r := c.get("a", append(t.filled(c, c.head("a").want(200)), "Range", "bytes=3-9")...).want(t.status)
	if t.status == 206 {
		r.wantBody(body[3:10])
	} else {
		r.wantBody(body)
	}
})

// conditionCases check conditions of writes, and of requests for blobs that do not exist.
var conditionCases = []Case{
	{Name: "condition/absent-blob", Section: reading, Level: Extended, check: func(c *trial) {
		c.get("a", "If-None-Match", "*").refused(404, "blob_not_found")
		c.get("a", "If-Match", "*").refused(404, "blob_not_found")
	}},
	{Name: "condition/if-range-alone", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.get("a", "If-Range", `"x"`).want(200).wantBody("hello")
	}},
	{Name: "condition/if-range-before-416", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.get("a", "If-Range", `"x"`, "Range", "bytes=99-").want(200).wantBody("hello")
	}},
	{Name: "condition/create", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "first", "If-None-Match", "*").want(204)
		c.put("a", "second", "If-None-Match", "*").refused(412, "precondition_failed")
		c.get("a").want(200).wantBody("first")
	}},
	{Name: "condition/create-after-delete", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "first").want(204)
		c.delete("a").want(204)
		c.put("a", "second", "If-None-Match", "*").want(204)
	}},
	{Name: "condition/create-large", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "first").want(204)
		c.put("a", content(200_000), "If-None-Match", "*").refused(412, "precondition_failed")
		c.get("a").want(200).wantBody("first")
	}},
	{Name: "condition/replace", Section: storing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "first").want(204).header.Get("ETag")
		c.put("a", "second", "If-Match", `"x", `+etag).want(204)
		c.put("a", "third", "If-Match", etag).refused(412, "precondition_failed")
		c.get("a").want(200).wantBody("second")
	}},
	{Name: "condition/replace-any", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "first", "If-Match", "*").refused(412, "precondition_failed")
		c.get("a").want(404)
		c.put("a", "first").want(204)
		c.put("a", "second", "If-Match", "*").want(204)
	}},
	{Name: "condition/replace-weak", Section: storing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "first").want(204).header.Get("ETag")
		c.put("a", "second", "If-Match", "W/"+etag).refused(412, "precondition_failed")
	}},
	{Name: "condition/replace-other-content", Section: storing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "first").want(204).header.Get("ETag")
		c.put("a", "second", "If-None-Match", etag).refused(412, "precondition_failed")
		c.put("a", "second", "If-None-Match", `"x"`).want(204)
	}},
	{Name: "condition/replace-if-unmodified", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "first").want(204)
		date, err := http.ParseTime(c.head("a").want(200).header.Get("Last-Modified"))
		c.ok(err)
		c.put("a", "second", "If-Unmodified-Since", date.Add(-time.Hour).Format(http.TimeFormat)).refused(412, "precondition_failed")
		c.put("a", "second", "If-Unmodified-Since", date.Add(time.Hour).Format(http.TimeFormat)).want(204)
	}},
	{Name: "condition/write-malformed", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "If-Match", `"unterminated`).refused(400, "bad_header")
		c.put("a", "x", "If-None-Match", "unquoted").refused(400, "bad_header")
		c.get("a").want(404)
	}},
	{Name: "condition/delete", Section: storing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "first").want(204).header.Get("ETag")
		c.delete("a", "If-Match", `"x"`).refused(412, "precondition_failed")
		c.get("a").want(200)
		c.delete("a", "If-Match", etag).want(204)
		c.get("a").want(404)
	}},
	{Name: "condition/delete-absent", Section: storing, Level: Extended, check: func(c *trial) {
		c.delete("a", "If-Match", "*").refused(412, "precondition_failed")
	}},
	{Name: "condition/delete-weak", Section: storing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "first").want(204).header.Get("ETag")
		c.delete("a", "If-Match", "W/"+etag).refused(412, "precondition_failed")
	}},
}
