package headers

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// modifiedAt is when the blob of these tests was modified; the dates are around it.
var (
	modifiedAt = time.Date(2025, 3, 9, 8, 49, 37, 654321000, time.UTC)
	dateBefore = "Sun, 09 Mar 2025 08:49:36 GMT"
	dateSame   = "Sun, 09 Mar 2025 08:49:37 GMT"
	dateAfter  = "Sun, 09 Mar 2025 08:49:38 GMT"
)

// headerOf returns a header of "Name: value" lines.
func headerOf(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestConditions(t *testing.T) {
	current := Validators{ETag: `"a,b"`, Modified: modifiedAt.Truncate(time.Second), exact: true}
	for _, tc := range []struct {
		lines []string
		read  Verdict // the blob's
		write Verdict // to the blob
		fresh Verdict // to a name without a blob
	}{
		{nil, ConditionHolds, ConditionHolds, ConditionHolds},

		{[]string{`If-Match: *`}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match:  * `}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: "a,b"`}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: "x", "a,b"`}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: "x" ,,	"a,b",`}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: "x"`, `If-Match: "a,b"`}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: W/"a,b"`}, ConditionFailed, ConditionFailed, ConditionFailed},
		{[]string{`If-Match: W/"a,b", "a,b"`}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: "x"`}, ConditionFailed, ConditionFailed, ConditionFailed},
		{[]string{`If-Match: "A,B"`}, ConditionFailed, ConditionFailed, ConditionFailed},
		{[]string{`If-Match: "a", "b"`}, ConditionFailed, ConditionFailed, ConditionFailed},
		{[]string{`If-Match: ""`}, ConditionFailed, ConditionFailed, ConditionFailed},

		{[]string{`If-None-Match: *`}, NotModified, ConditionFailed, ConditionHolds},
		{[]string{`If-None-Match: "a,b"`}, NotModified, ConditionFailed, ConditionHolds},
		{[]string{`If-None-Match: W/"a,b"`}, NotModified, ConditionFailed, ConditionHolds},
		{[]string{`If-None-Match: "x", W/"a,b"`}, NotModified, ConditionFailed, ConditionHolds},
		{[]string{`If-None-Match: "x"`, `If-None-Match: "a,b"`}, NotModified, ConditionFailed, ConditionHolds},
		{[]string{`If-None-Match: "x"`}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{`If-None-Match: "a", "b"`}, ConditionHolds, ConditionHolds, ConditionHolds},

		{[]string{"If-Unmodified-Since: " + dateBefore}, ConditionFailed, ConditionFailed, ConditionHolds},
		{[]string{"If-Unmodified-Since: " + dateSame}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{"If-Unmodified-Since: " + dateAfter}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{"If-Unmodified-Since: Sunday, 09-Mar-25 08:49:36 GMT"}, ConditionFailed, ConditionFailed, ConditionHolds},
		{[]string{"If-Unmodified-Since: Sun Mar  9 08:49:36 2025"}, ConditionFailed, ConditionFailed, ConditionHolds},
		{[]string{"If-Unmodified-Since: yesterday"}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{"If-Unmodified-Since: 2025-03-09T08:49:36Z"}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{"If-Unmodified-Since: "}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{"If-Unmodified-Since: " + dateBefore, "If-Unmodified-Since: " + dateBefore}, ConditionHolds, ConditionHolds, ConditionHolds},

		{[]string{"If-Modified-Since: " + dateBefore}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{"If-Modified-Since: " + dateSame}, NotModified, ConditionHolds, ConditionHolds},
		{[]string{"If-Modified-Since: " + dateAfter}, NotModified, ConditionHolds, ConditionHolds},
		{[]string{"If-Modified-Since: nonsense"}, ConditionHolds, ConditionHolds, ConditionHolds},

		// Precedence: a tag overrides the date of its pair, and the first pair is evaluated before
		// the second.
		{[]string{`If-Match: "a,b"`, "If-Unmodified-Since: " + dateBefore}, ConditionHolds, ConditionHolds, ConditionFailed},
		{[]string{`If-Match: "x"`, "If-Unmodified-Since: " + dateAfter}, ConditionFailed, ConditionFailed, ConditionFailed},
		{[]string{`If-None-Match: "x"`, "If-Modified-Since: " + dateAfter}, ConditionHolds, ConditionHolds, ConditionHolds},
		{[]string{`If-None-Match: "a,b"`, "If-Modified-Since: " + dateBefore}, NotModified, ConditionFailed, ConditionHolds},
		{[]string{`If-Match: "x"`, `If-None-Match: "a,b"`}, ConditionFailed, ConditionFailed, ConditionFailed},
		{[]string{`If-Match: "a,b"`, `If-None-Match: "a,b"`}, NotModified, ConditionFailed, ConditionFailed},
		{[]string{`If-Match: *`, `If-None-Match: *`}, NotModified, ConditionFailed, ConditionFailed},
		{[]string{"If-Unmodified-Since: " + dateBefore, `If-None-Match: "a,b"`}, ConditionFailed, ConditionFailed, ConditionHolds},
		{[]string{"If-Unmodified-Since: " + dateAfter, "If-Modified-Since: " + dateAfter}, NotModified, ConditionHolds, ConditionHolds},
		{[]string{"If-Unmodified-Since: " + dateBefore, "If-Modified-Since: " + dateAfter}, ConditionFailed, ConditionFailed, ConditionHolds},
	} {
		c := ParseConditions(headerOf(tc.lines...))
		if err := c.Malformed(); err != nil {
			t.Errorf("%q: %v", tc.lines, err)
		}
		for range 2 { // they can be evaluated again
			if got := c.ForRead(&current); got != tc.read {
				t.Errorf("%q: read %d, want %d", tc.lines, got, tc.read)
			}
			if got := c.ForWrite(&current); got != tc.write {
				t.Errorf("%q: write %d, want %d", tc.lines, got, tc.write)
			}
			if got := c.ForWrite(nil); got != tc.fresh {
				t.Errorf("%q: write to nothing %d, want %d", tc.lines, got, tc.fresh)
			}
		}
		if (tc.write == ConditionFailed || tc.fresh == ConditionFailed) && !c.Any() {
			t.Errorf("%q: not conditional", tc.lines)
		}
	}
	for _, line := range []string{"If-Modified-Since: " + dateSame, `If-Range: "a"`, "If-Unmodified-Since: never", "Range: bytes=0-"} {
		if c := ParseConditions(headerOf(line)); c.Any() {
			t.Errorf("%s makes a write conditional", line)
		}
	}
}

// TestMalformedTagLists: a malformed list makes every write fail and is reported.
func TestMalformedTagLists(t *testing.T) {
	current := Validators{ETag: `"a"`, Modified: modifiedAt.Truncate(time.Second), exact: true}
	for _, list := range []string{
		"", " ", ",", "a", `a"`, `"a`, `"`, `W/`, `W/a`, `w/"a"`, `"a" "b"`, `"a""b"`, `"a";"b"`, `"a", b`, `"a", *`, `*, "a"`, `* *`, `*,`, `**`,
		`"a b"`, "\"a\x00b\"", "\"a\x7f\"", "\"a\tb\"", `'a'`, `W/ "a"`, `"a", "`, `W/W/"a"`,
	} {
		for name, read := range map[string]Verdict{"If-Match": ConditionFailed, "If-None-Match": ConditionHolds} {
			c := ParseConditions(http.Header{name: {list}})
			if err := c.Malformed(); !errors.Is(err, ErrMalformedCondition) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %q: error %v", name, list, err)
			}
			if got := c.ForRead(&current); got != read {
				t.Errorf("%s: %q: read %d, want %d", name, list, got, read)
			}
			if c.ForWrite(&current) != ConditionFailed || c.ForWrite(nil) != ConditionFailed || !c.Any() {
				t.Errorf("%s: %q allows a write", name, list)
			}
		}
	}
	c := ParseConditions(http.Header{"If-Match": {`"a"`, `"b`}, "If-None-Match": {"*", "*"}})
	if err := c.Malformed(); err == nil ||
		!strings.Contains(err.Error(), "If-Match") || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("two malformed headers: error %v", err)
	}
}

func TestIfRange(t *testing.T) {
	current := Validators{ETag: `"a,b"`, Modified: modifiedAt.Truncate(time.Second), exact: true}
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
		c := ParseConditions(http.Header{"If-Range": {value}})
		if c.Malformed() != nil || c.RangeApplies(&current) != want {
			t.Errorf("If-Range: %s: %v, want %v", value, c.RangeApplies(&current), want)
		}
	}
	if !(Conditions{}).RangeApplies(&current) {
		t.Error("without If-Range the range does not apply")
	}
	if c := ParseConditions(http.Header{"If-Range": {`"a,b"`, `"a,b"`}}); c.RangeApplies(&current) {
		t.Error("two If-Range headers were accepted")
	}
}

// TestUnevaluated checks that conditions that must disclose nothing have the same result whether or
// not they hold, and that a range stays a range unless it depends on a validator.
func TestUnevaluated(t *testing.T) {
	current := Validators{ETag: `"a"`, Modified: modifiedAt.Truncate(time.Second), exact: true}
	for _, tag := range []string{`"a"`, `"x"`} {
		c := ParseConditions(http.Header{"If-Match": {tag}, "If-None-Match": {tag}}).Unevaluated()
		if !c.RangeApplies(&current) {
			t.Errorf("%s: without If-Range the range does not apply", tag)
		}
		if got := c.ForRead(&current); got != (Conditions{}).ForRead(&current) {
			t.Errorf("%s: the conditions were evaluated: %v", tag, got)
		}
		if c := ParseConditions(http.Header{"If-Range": {tag}}).Unevaluated(); c.RangeApplies(&current) {
			t.Errorf("If-Range: %s: the range applies", tag)
		}
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
				t.Fatalf("%q: refused, but returned %+v", s, list)
			}
			return
		}
		if list.any != (len(list.tags) == 0) {
			t.Fatalf("%q: %+v", s, list)
		}
		if list.any {
			return
		}
		// The formatted list is parsed to the same list.
		var tags []string
		for _, tag := range list.tags {
			text := tag.opaque
			if tag.weak {
				text = "W/" + text
			}
			if !strings.Contains(s, text) {
				t.Fatalf("%q does not contain %q", s, text)
			}
			tags = append(tags, text)
		}
		again, ok := parseTagList(strings.Join(tags, ", "))
		if !ok || !reflect.DeepEqual(again, list) {
			t.Fatalf("%q: %+v, then %+v", s, list, again)
		}
	})
}

// TestIfRangeOfALaterDate: a version stored later than the clock of this node shows is sent with
// the response's date, which other versions may have had.
func TestIfRangeOfALaterDate(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for ahead, want := range map[time.Duration]bool{0: true, 2 * time.Second: false} {
		v := NewValidators(`"e"`, now.Add(ahead), false, now)
		c := ParseConditions(http.Header{"If-Range": {now.Format(http.TimeFormat)}})
		if !v.Modified.Equal(now.Truncate(time.Second)) || c.RangeApplies(&v) != want {
			t.Errorf("%v ahead: Last-Modified %v, a range of that date applies: %t", ahead, v.Modified, !want)
		}
	}
}

// TestDatesOfAVersionThatIsCurrentAgain: dates from behind Modified until Again may be a newer
// version's, which was removed.
func TestDatesOfAVersionThatIsCurrentAgain(t *testing.T) {
	modified := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	v := NewValidators(`"e"`, modified, true, modified.Add(time.Hour))
	v.Again = modified.Add(time.Minute + time.Second/2)
	for after, unchanged := range map[time.Duration]bool{-time.Second: false, 0: true, time.Second: false, time.Minute: false, time.Minute + time.Second: true} {
		at := modified.Add(after).Format(http.TimeFormat)
		since, until := ParseConditions(http.Header{"If-Modified-Since": {at}}), ParseConditions(http.Header{"If-Unmodified-Since": {at}})
		if (since.ForRead(&v) == NotModified) != unchanged || (until.ForWrite(&v) == ConditionHolds) != unchanged || (until.ForRead(&v) == ConditionHolds) != unchanged {
			t.Errorf("%v after Modified: %v, %v, %v", after, since.ForRead(&v), until.ForWrite(&v), until.ForRead(&v))
		}
		tagged := ParseConditions(http.Header{"If-Modified-Since": {at}, "If-None-Match": {`"e"`}, "If-Match": {`"e"`}})
		if tagged.ForRead(&v) != NotModified {
			t.Errorf("with its tag: %v", tagged.ForRead(&v))
		}
	}
}

// TestOnlyTag checks which If-Match states one version.
func TestOnlyTag(t *testing.T) {
	for value, want := range map[string]string{
		`"a"`: `"a"`, `, "a" ,`: `"a"`, `W/"a"`: "", `"a", "b"`: "", `*`: "", `a`: "", "": "",
	} {
		tag, ok := ParseConditions(http.Header{"If-Match": {value}}).OnlyTag()
		if tag != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", value, tag, ok)
		}
	}
	if tag, ok := ParseConditions(http.Header{}).OnlyTag(); ok {
		t.Errorf("no header: %q", tag)
	}
}
