package metastore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// TestDaysOfRules checks the times of rules. The first ones are the examples in the Amazon S3 User
// Guide ("Lifecycle configuration elements"): three days are rounded up to the next midnight.
func TestDaysOfRules(t *testing.T) {
	made := at("2014-01-15T10:30:00Z")
	never := time.Time{}
	blob := metastore.Blob{Name: "logs/a", Size: 10, Modified: made, Metadata: "Cache-Control:no-cache\nX-Amz-Tagging:k&v&n&\n"}
	mark := metastore.Blob{Name: "logs/a", Mark: true, Modified: made}
	for name, c := range map[string]struct{ got, want time.Time }{
		"three days":                  {(&metastore.Rule{ExpireDays: 3}).Expires(&blob), at("2014-01-19T00:00:00Z")},
		"three days as a version":     {(&metastore.Rule{DropDays: 3}).Drops(&blob, made, metastore.Newer{}), at("2014-01-19T00:00:00Z")},
		"three days of an upload":     {(&metastore.Rule{AbortDays: 3}).Aborts(&metastore.Upload{Created: made}), at("2014-01-19T00:00:00Z")},
		"from a midnight":             {(&metastore.Rule{ExpireDays: 1}).Expires(&metastore.Blob{Modified: at("2014-01-15T00:00:00Z")}), at("2014-01-17T00:00:00Z")},
		"before a midnight":           {(&metastore.Rule{ExpireDays: 1}).Expires(&metastore.Blob{Modified: at("2014-01-15T23:59:59Z")}), at("2014-01-17T00:00:00Z")},
		"in another zone":             {(&metastore.Rule{ExpireDays: 1}).Expires(&metastore.Blob{Modified: made.In(time.FixedZone("", 14*3600))}), at("2014-01-17T00:00:00Z")},
		"a date":                      {(&metastore.Rule{ExpireOn: at("2013-01-01T00:00:00Z")}).Expires(&blob), at("2013-01-01T00:00:00Z")},
		"no expiration":               {(&metastore.Rule{DropDays: 1, AbortDays: 1, LoneMarks: true}).Expires(&blob), never},
		"disabled":                    {(&metastore.Rule{Disabled: true, ExpireDays: 1}).Expires(&blob), never},
		"disabled for uploads":        {(&metastore.Rule{Disabled: true, AbortDays: 1}).Aborts(&metastore.Upload{Created: made}), never},
		"another prefix":              {(&metastore.Rule{Prefix: "logs/b", ExpireDays: 1}).Expires(&blob), never},
		"another prefix of an upload": {(&metastore.Rule{Prefix: "b", AbortDays: 1}).Aborts(&metastore.Upload{Name: "a", Created: made}), never},
		"a lone mark":                 {(&metastore.Rule{LoneMarks: true}).Expires(&mark), made},
		"a lone mark after days":      {(&metastore.Rule{ExpireDays: 3}).Expires(&mark), at("2014-01-19T00:00:00Z")},
		"beyond a number":             {(&metastore.Rule{DropBeyond: 2}).Drops(&blob, made, metastore.Newer{Versions: 2}), made},
		"not beyond":                  {(&metastore.Rule{DropBeyond: 2}).Drops(&blob, made, metastore.Newer{Versions: 1, Marks: 9}), never},
		"a mark beyond":               {(&metastore.Rule{DropBeyond: 2}).Drops(&mark, made, metastore.Newer{Versions: 1, Marks: 2}), made},
		"beyond and days":             {(&metastore.Rule{DropBeyond: 2, DropDays: 1}).Drops(&blob, made, metastore.Newer{Versions: 2}), at("2014-01-17T00:00:00Z")},
		"not beyond and days":         {(&metastore.Rule{DropBeyond: 2, DropDays: 1}).Drops(&blob, made, metastore.Newer{Versions: 1}), never},
		"dropped by no rule":          {(&metastore.Rule{ExpireDays: 1}).Drops(&blob, made, metastore.Newer{Versions: 100}), never},
	} {
		testenv.Equal(t, c.got, c.want, "%s", name)
	}
}

// TestSelectionOfRules: prefix, tags and sizes must all match.
func TestSelectionOfRules(t *testing.T) {
	blob := metastore.Blob{Name: "logs/a", Size: 10, Metadata: "Blob-Meta-X:X-Amz-Tagging:no&no\nX-Amz-Tagging:k&v&n&\n"}
	tags := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for i, c := range []struct {
		rule metastore.Rule
		want bool
	}{
		{metastore.Rule{}, true}, {metastore.Rule{Prefix: "logs/"}, true}, {metastore.Rule{Prefix: "logs/a"}, true}, {metastore.Rule{Prefix: "logs/a/"}, false},
		{metastore.Rule{AtLeast: 10}, true}, {metastore.Rule{AtLeast: 11}, false}, {metastore.Rule{Below: 11}, true}, {metastore.Rule{Below: 10}, false},
		{metastore.Rule{Tags: tags("k", "v")}, true}, {metastore.Rule{Tags: tags("k", "v", "n", "")}, true}, {metastore.Rule{Tags: tags("k", "")}, false},
		{metastore.Rule{Tags: tags("v", "n")}, false}, {metastore.Rule{Tags: tags("no", "no")}, false}, {metastore.Rule{Tags: tags("k", "v", "x", "y")}, false},
		{metastore.Rule{Prefix: "logs/", Tags: tags("k", "v"), AtLeast: 1, Below: 20}, true}, {metastore.Rule{Prefix: "logs/", Tags: tags("k", "v"), AtLeast: 11}, false},
		{metastore.Rule{Prefix: "other", Tags: tags("k", "v")}, false},
	} {
		testenv.Equal(t, c.rule.Selects(&blob), c.want, "rule %d, %+v", i, c.rule)
	}
	if (&metastore.Rule{Tags: tags("k", "v")}).Selects(&metastore.Blob{}) {
		t.Error("a blob without tags has one")
	}
}

// TestFirstRuleWins: of overlapping rules the earliest one holds, and of equal ones the first.
func TestFirstRuleWins(t *testing.T) {
	rules := []metastore.Rule{{ID: "late", ExpireDays: 9}, {ID: "none"}, {ID: "first", ExpireDays: 2}, {ID: "second", ExpireDays: 2}}
	b := metastore.Blob{Modified: at("2014-01-15T10:30:00Z")}
	rule, due := metastore.FirstRule(rules, func(r *metastore.Rule) time.Time { return r.Expires(&b) })
	if rule != &rules[2] || !due.Equal(at("2014-01-18T00:00:00Z")) {
		t.Errorf("%+v at %v", rule, due)
	}
	if rule, due := metastore.FirstRule(rules, func(*metastore.Rule) time.Time { return time.Time{} }); rule != nil || !due.IsZero() {
		t.Errorf("of no times: %+v at %v", rule, due)
	}
}

// TestCheckRules refuses rules that cannot be, with a reason, and those beyond the bounds.
func TestCheckRules(t *testing.T) {
	many := func(n, prefix int) (list []metastore.Rule) {
		for i := range n {
			list = append(list, metastore.Rule{ID: fmt.Sprint(i), Prefix: strings.Repeat("p", prefix), ExpireDays: 1})
		}
		return list
	}
	one := func(r metastore.Rule) []metastore.Rule {
		r.ID = "id"
		return []metastore.Rule{r}
	}
	midnight := at("2030-01-01T00:00:00Z")
	for name, c := range map[string]struct {
		rules  []metastore.Rule
		reason string // "": they are valid
	}{
		"none":              {nil, ""},
		"as many as can be": {many(100, 500), ""},
		"too many":          {many(101, 0), "at most 100"},
		"too large":         {many(100, 700), "more than 65536"},
		"everything":        {one(metastore.Rule{Prefix: "é", Tags: map[string]string{"k": ""}, AtLeast: 1, Below: 2, ExpireOn: midnight, DropDays: 36_500, DropBeyond: 100}), ""},
		"spaces in an id":   {[]metastore.Rule{{ID: "Archive all object same-day", ExpireDays: 1}}, ""},
		"no id":             {[]metastore.Rule{{ExpireDays: 1}}, "an id has"},
		"long id":           {[]metastore.Rule{{ID: strings.Repeat("é", 256), ExpireDays: 1}}, "an id has"},
		"same id":           {append(many(2, 0), many(1, 0)...), "same id"},
		"control in an id":  {[]metastore.Rule{{ID: "a\nb", ExpireDays: 1}}, "an id has"},
		"no action":         {one(metastore.Rule{Prefix: "p"}), "removes nothing"},
		"negative days":     {one(metastore.Rule{ExpireDays: -1}), "days are"},
		"many days":         {one(metastore.Rule{DropDays: 36_501}), "days are"},
		"many newer":        {one(metastore.Rule{DropBeyond: 101}), "dropBeyond is"},
		"no midnight":       {one(metastore.Rule{ExpireOn: midnight.Add(time.Second)}), "midnight"},
		"days and a date":   {one(metastore.Rule{ExpireDays: 1, ExpireOn: midnight}), "expireDays or expireOn"},
		"marks and days":    {one(metastore.Rule{ExpireDays: 1, LoneMarks: true}), "loneMarks"},
		"marks and tags":    {one(metastore.Rule{Tags: map[string]string{"k": "v"}, LoneMarks: true}), "loneMarks"},
		"uploads and sizes": {one(metastore.Rule{AtLeast: 1, AbortDays: 1}), "neither tags"},
		"no size":           {one(metastore.Rule{AtLeast: 5, Below: 5, ExpireDays: 1}), "no blob has"},
		"a tag with &":      {one(metastore.Rule{Tags: map[string]string{"a&b": ""}, ExpireDays: 1}), "such a tag"},
		"prefix of zero":    {one(metastore.Rule{Prefix: "\x00", ExpireDays: 1}), "a prefix"},
		"prefix not UTF-8":  {one(metastore.Rule{Prefix: "\xf8", ExpireDays: 1}), "a prefix"},
	} {
		err := metastore.CheckRules(c.rules)
		if c.reason == "" {
			testenv.OK(t, err)
			continue
		}
		testenv.Is(t, err, metastore.ErrRules, "%s", name)
		if err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, and not %q", name, err, c.reason)
		}
	}
}
