package httpapi

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The blob of these tests was modified within this second.
var (
	modifiedAt = time.Date(2025, 3, 9, 8, 49, 37, 654321000, time.UTC)
	dateBefore = "Sun, 09 Mar 2025 08:49:36 GMT"
	dateSame   = "Sun, 09 Mar 2025 08:49:37 GMT"
	dateAfter  = "Sun, 09 Mar 2025 08:49:38 GMT"
)

// headerOf makes a header of "Name: value" lines.
func headerOf(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestConditions(t *testing.T) {
	current := validators{etag: `"a,b"`, modified: modifiedAt.Truncate(time.Second), exact: true}
	for _, tc := range []struct {
		lines []string
		read  verdict // of the blob
		write verdict // to the blob
		fresh verdict // to a name without a blob
	}{
		{nil, conditionHolds, conditionHolds, conditionHolds},

		{[]string{`If-Match: *`}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match:  * `}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: "a,b"`}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: "x", "a,b"`}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: "x" ,,	"a,b",`}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: "x"`, `If-Match: "a,b"`}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: W/"a,b"`}, conditionFailed, conditionFailed, conditionFailed},
		{[]string{`If-Match: W/"a,b", "a,b"`}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: "x"`}, conditionFailed, conditionFailed, conditionFailed},
		{[]string{`If-Match: "A,B"`}, conditionFailed, conditionFailed, conditionFailed},
		{[]string{`If-Match: "a", "b"`}, conditionFailed, conditionFailed, conditionFailed},
		{[]string{`If-Match: ""`}, conditionFailed, conditionFailed, conditionFailed},

		{[]string{`If-None-Match: *`}, conditionNotModified, conditionFailed, conditionHolds},
		{[]string{`If-None-Match: "a,b"`}, conditionNotModified, conditionFailed, conditionHolds},
		{[]string{`If-None-Match: W/"a,b"`}, conditionNotModified, conditionFailed, conditionHolds},
		{[]string{`If-None-Match: "x", W/"a,b"`}, conditionNotModified, conditionFailed, conditionHolds},
		{[]string{`If-None-Match: "x"`, `If-None-Match: "a,b"`}, conditionNotModified, conditionFailed, conditionHolds},
		{[]string{`If-None-Match: "x"`}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{`If-None-Match: "a", "b"`}, conditionHolds, conditionHolds, conditionHolds},

		{[]string{"If-Unmodified-Since: " + dateBefore}, conditionFailed, conditionFailed, conditionHolds},
		{[]string{"If-Unmodified-Since: " + dateSame}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{"If-Unmodified-Since: " + dateAfter}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{"If-Unmodified-Since: Sunday, 09-Mar-25 08:49:36 GMT"}, conditionFailed, conditionFailed, conditionHolds},
		{[]string{"If-Unmodified-Since: Sun Mar  9 08:49:36 2025"}, conditionFailed, conditionFailed, conditionHolds},
		{[]string{"If-Unmodified-Since: yesterday"}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{"If-Unmodified-Since: 2025-03-09T08:49:36Z"}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{"If-Unmodified-Since: "}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{"If-Unmodified-Since: " + dateBefore, "If-Unmodified-Since: " + dateBefore}, conditionHolds, conditionHolds, conditionHolds},

		{[]string{"If-Modified-Since: " + dateBefore}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{"If-Modified-Since: " + dateSame}, conditionNotModified, conditionHolds, conditionHolds},
		{[]string{"If-Modified-Since: " + dateAfter}, conditionNotModified, conditionHolds, conditionHolds},
		{[]string{"If-Modified-Since: nonsense"}, conditionHolds, conditionHolds, conditionHolds},

		// Precedence: a tag silences the date of its pair; the first pair
		// comes before the second.
		{[]string{`If-Match: "a,b"`, "If-Unmodified-Since: " + dateBefore}, conditionHolds, conditionHolds, conditionFailed},
		{[]string{`If-Match: "x"`, "If-Unmodified-Since: " + dateAfter}, conditionFailed, conditionFailed, conditionFailed},
		{[]string{`If-None-Match: "x"`, "If-Modified-Since: " + dateAfter}, conditionHolds, conditionHolds, conditionHolds},
		{[]string{`If-None-Match: "a,b"`, "If-Modified-Since: " + dateBefore}, conditionNotModified, conditionFailed, conditionHolds},
		{[]string{`If-Match: "x"`, `If-None-Match: "a,b"`}, conditionFailed, conditionFailed, conditionFailed},
		{[]string{`If-Match: "a,b"`, `If-None-Match: "a,b"`}, conditionNotModified, conditionFailed, conditionFailed},
		{[]string{`If-Match: *`, `If-None-Match: *`}, conditionNotModified, conditionFailed, conditionFailed},
		{[]string{"If-Unmodified-Since: " + dateBefore, `If-None-Match: "a,b"`}, conditionFailed, conditionFailed, conditionHolds},
		{[]string{"If-Unmodified-Since: " + dateAfter, "If-Modified-Since: " + dateAfter}, conditionNotModified, conditionHolds, conditionHolds},
		{[]string{"If-Unmodified-Since: " + dateBefore, "If-Modified-Since: " + dateAfter}, conditionFailed, conditionFailed, conditionHolds},
	} {
		c := parseConditions(headerOf(tc.lines...))
		if err := c.malformed(); err != nil {
			t.Errorf("%q: %v", tc.lines, err)
		}
		for range 2 { // they can be evaluated again
			if got := c.forRead(&current); got != tc.read {
				t.Errorf("%q: read %d, want %d", tc.lines, got, tc.read)
			}
			if got := c.forWrite(&current); got != tc.write {
				t.Errorf("%q: write %d, want %d", tc.lines, got, tc.write)
			}
			if got := c.forWrite(nil); got != tc.fresh {
				t.Errorf("%q: write to nothing %d, want %d", tc.lines, got, tc.fresh)
			}
		}
		if (tc.write == conditionFailed || tc.fresh == conditionFailed) && !c.any() {
			t.Errorf("%q: not conditional", tc.lines)
		}
	}
	for _, line := range []string{"If-Modified-Since: " + dateSame, `If-Range: "a"`, "If-Unmodified-Since: never", "Range: bytes=0-"} {
		if c := parseConditions(headerOf(line)); c.any() {
			t.Errorf("%s makes a write conditional", line)
		}
	}
}

// A list that cannot be read never lets a write through, and is told.
func TestMalformedTagLists(t *testing.T) {
	current := validators{etag: `"a"`, modified: modifiedAt.Truncate(time.Second), exact: true}
	for _, list := range []string{
		"", " ", ",", "a", `a"`, `"a`, `"`, `W/`, `W/a`, `w/"a"`, `"a" "b"`, `"a""b"`, `"a";"b"`, `"a", b`, `"a", *`, `*, "a"`, `* *`, `*,`, `**`,
		`"a b"`, "\"a\x00b\"", "\"a\x7f\"", "\"a\tb\"", `'a'`, `W/ "a"`, `"a", "`, `W/W/"a"`,
	} {
		c := parseConditions(http.Header{"If-Match": {list}})
		err := c.malformed()
		if !errors.Is(err, errMalformedCondition) || !strings.Contains(err.Error(), "If-Match") {
			t.Errorf("If-Match: %q: error %v", list, err)
		}
		if c.forRead(&current) != conditionFailed || c.forWrite(&current) != conditionFailed || c.forWrite(nil) != conditionFailed || !c.any() {
			t.Errorf("If-Match: %q does not fail", list)
		}
		c = parseConditions(http.Header{"If-None-Match": {list}})
		err = c.malformed()
		if !errors.Is(err, errMalformedCondition) || !strings.Contains(err.Error(), "If-None-Match") {
			t.Errorf("If-None-Match: %q: error %v", list, err)
		}
		if c.forRead(&current) != conditionHolds || c.forWrite(&current) != conditionFailed || c.forWrite(nil) != conditionFailed || !c.any() {
			t.Errorf("If-None-Match: %q lets a write through, or stops a read", list)
		}
	}
	c := parseConditions(http.Header{"If-Match": {`"a"`, `"b`}, "If-None-Match": {"*", "*"}})
	if err := c.malformed(); err == nil ||
		!strings.Contains(err.Error(), "If-Match") || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("two malformed headers: error %v", err)
	}
}

func TestIfRange(t *testing.T) {
	current := validators{etag: `"a,b"`, modified: modifiedAt.Truncate(time.Second), exact: true}
	for value, want := range map[string]bool{
		`"a,b"`:                          true,
		`W/"a,b"`:                        false,
		`"x"`:                            false,
		`"x", "a,b"`:                     false,
		`"a,b", "a,b"`:                   false,
		`*`:                              false,
		`a`:                              false,
		`"a,b`:                           false,
		dateSame:                         true,
		dateBefore:                       false,
		dateAfter:                        false,
		dateSame + ", " + dateSame:       false,
		"Sunday, 09-Mar-25 08:49:37 GMT": true,
		"nonsense":                       false,
	} {
		c := parseConditions(http.Header{"If-Range": {value}})
		if c.malformed() != nil || c.rangeApplies(&current) != want {
			t.Errorf("If-Range: %s: %v, want %v", value, c.rangeApplies(&current), want)
		}
	}
	if !(conditions{}).rangeApplies(&current) {
		t.Error("without If-Range the range does not apply")
	}
	if c := parseConditions(http.Header{"If-Range": {`"a,b"`, `"a,b"`}}); c.rangeApplies(&current) {
		t.Error("two If-Range headers were taken for one")
	}
}

func TestTagList(t *testing.T) {
	got, ok := parseTagList("\t, \"\" ,W/\"\x80,*\"\t,\"W/\"")
	want := tagList{tags: []entityTag{{`""`, false}, {"\"\x80,*\"", true}, {`"W/"`, false}}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func FuzzEntityTags(f *testing.F) {
	for _, s := range []string{`*`, `"a"`, `W/"a,b", "c"`, ``, `"a" "b"`, `"`, `W/`, ", ,\t\"\"", "\"\xff\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, ok := parseTagList(s)
		if !ok {
			if list.any || list.tags != nil {
				t.Fatalf("%q: refused, but gave %+v", s, list)
			}
			return
		}
		if list.any != (len(list.tags) == 0) {
			t.Fatalf("%q: %+v", s, list)
		}
		if list.any {
			return
		}
		// Written out, it reads back the same.
		var tags []string
		for _, tag := range list.tags {
			text := tag.opaque
			if tag.weak {
				text = "W/" + text
			}
			if !strings.Contains(s, text) {
				t.Fatalf("%q does not hold %q", s, text)
			}
			tags = append(tags, text)
		}
		again, ok := parseTagList(strings.Join(tags, ", "))
		if !ok || !reflect.DeepEqual(again, list) {
			t.Fatalf("%q: %+v, then %+v", s, list, again)
		}
	})
}

// TestIfRangeOfALaterDate: a version that was stored later than this node's clock
// shows is sent with the date of the reply, which other versions may have had.
func TestIfRangeOfALaterDate(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for ahead, want := range map[time.Duration]bool{0: true, 2 * time.Second: false} {
		v := newValidators(`"e"`, now.Add(ahead), false, now)
		c := parseConditions(http.Header{"If-Range": {now.Format(http.TimeFormat)}})
		if !v.modified.Equal(now.Truncate(time.Second)) || c.rangeApplies(&v) != want {
			t.Errorf("%v ahead: Last-Modified %v, a range of that date applies: %t", ahead, v.modified, !want)
		}
	}
}
