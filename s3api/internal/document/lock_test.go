package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestDecodeObjectLock lists configurations of a bucket's locks.
func TestDecodeObjectLock(t *testing.T) {
	const enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
	rule := func(inner string) string {
		return enabled + "<Rule><DefaultRetention>" + inner + "</DefaultRetention></Rule>"
	}
	const mode = "<Mode>GOVERNANCE</Mode>"
	for _, test := range []struct{ name, inner, want string }{
		{"no default", enabled, " 0s"},
		{"days", rule(mode + "<Days>36500</Days>"), "GOVERNANCE 876000h0m0s"},
		{"years", rule("<Years> 1 </Years><Mode>COMPLIANCE</Mode>"), "COMPLIANCE 8760h0m0s"},
		{"nothing", "", "malformed"},
		{"not enabled", "<ObjectLockEnabled>Disabled</ObjectLockEnabled>", "malformed"},
		{"enabled twice", enabled + enabled, "malformed"},
		{"an empty rule", enabled + "<Rule/>", "malformed"},
		{"two rules", rule(mode+"<Days>1</Days>") + "<Rule><DefaultRetention>" + mode + "<Days>1</Days></DefaultRetention></Rule>", "malformed"},
		{"no mode", rule("<Days>1</Days>"), "malformed"},
		{"a mode in lower case", rule("<Mode>governance</Mode><Days>1</Days>"), "malformed"},
		{"a mode alone", rule(mode), "malformed"},
		{"days and years", rule(mode + "<Days>1</Days><Years>1</Years>"), "malformed"},
		{"days twice", rule(mode + "<Days>1</Days><Days>1</Days>"), "malformed"},
		{"a fraction", rule(mode + "<Days>1.5</Days>"), "malformed"},
		{"beyond 32 bits", rule(mode + "<Days>4294967297</Days>"), "malformed"},
		{"another element", enabled + "<Token/>", "malformed"},
		{"another element inside", rule(mode + "<Days>1</Days><Weeks>1</Weeks>"), "malformed"},
		{"no days", rule(mode + "<Days>0</Days>"), "period"},
		{"negative", rule(mode + "<Years>-1</Years>"), "period"},
		{"too many days", rule(mode + "<Days>36501</Days>"), "period"},
		{"too many years", rule(mode + "<Years>101</Years>"), "period"},
	} {
		mode, period, err := DecodeObjectLock([]byte("<ObjectLockConfiguration>" + test.inner + "</ObjectLockConfiguration>"))
		testenv.Equal(t, answer(fmt.Sprint(mode, " ", period), err), test.want, "%s", test.name)
		if err == nil {
			again, same, err := DecodeObjectLock(Encode(ObjectLock(mode, period)))
			testenv.Equal(t, fmt.Sprint(again, same, err), fmt.Sprint(mode, period, nil), "%s that is written", test.name)
		}
	}
	testenv.Equal(t, strings.Contains(string(Encode(ObjectLock(Governance, 25*time.Hour))), "<Days>2</Days>"), true, "the days of 25 hours")
}

// answer returns a decoder's answer.
func answer(value string, err error) string {
	for is, name := range map[error]string{ErrMalformed: "malformed", ErrPeriod: "period", ErrLifecycle: "invalid", ErrTransition: "transition"} {
		if errors.Is(err, is) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return value
}

// TestDecodeRetention lists retentions and legal holds.
func TestDecodeRetention(t *testing.T) {
	const mode, until = "<Mode>COMPLIANCE</Mode>", "<RetainUntilDate>2030-01-01T01:00:00+01:00</RetainUntilDate>"
	for inner, want := range map[string]string{
		mode + until: "COMPLIANCE 2030-01-01T00:00:00Z",
		"<RetainUntilDate>2030-01-01T00:00:00.000001Z</RetainUntilDate>" + mode: "COMPLIANCE 2030-01-01T00:00:00.000001Z",
		"": " 0001-01-01T00:00:00Z", "<Mode/><RetainUntilDate/>": " 0001-01-01T00:00:00Z",
		mode: "malformed", until: "malformed", mode + until + until: "malformed", "<Mode>compliance</Mode>" + until: "malformed",
		mode + "<RetainUntilDate>tomorrow</RetainUntilDate>": "malformed", mode + until + "<Hold/>": "malformed",
	} {
		mode, until, err := DecodeRetention([]byte("<Retention>" + inner + "</Retention>"))
		testenv.Equal(t, answer(mode+" "+until.Format(time.RFC3339Nano), err), want, "%s", inner)
	}
	for inner, want := range map[string]string{
		"<Status>ON</Status>": "true", "<Status>OFF</Status>": "false", "": "malformed", "<Status>on</Status>": "malformed", "<Status/>": "malformed",
		"<Status>ON</Status><Status>OFF</Status>": "malformed", "<Status>ON</Status><Mode/>": "malformed",
	} {
		on, err := DecodeLegalHold([]byte("<LegalHold>" + inner + "</LegalHold>"))
		testenv.Equal(t, answer(fmt.Sprint(on), err), want, "%s", inner)
	}
}

// lifecycleOf returns a document with a rule.
func lifecycleOf(rule string) string {
	return "<LifecycleConfiguration><Rule>" + rule + "</Rule></LifecycleConfiguration>"
}

// everyElement has each element that a rule can have.
const everyElement = `<ID>id</ID><Status>Enabled</Status><Filter><And><Prefix>p/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><Tag><Key>a</Key><Value/></Tag>` +
	`<ObjectSizeGreaterThan>0</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter><Expiration><Days>1</Days></Expiration>` +
	`<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays><NewerNoncurrentVersions>3</NewerNoncurrentVersions></NoncurrentVersionExpiration>` +
	`<AbortIncompleteMultipartUpload><DaysAfterInitiation>4</DaysAfterInitiation></AbortIncompleteMultipartUpload>`

// TestDecodeLifecycle lists rules in both forms, and compares each with its document that is
// written.
func TestDecodeLifecycle(t *testing.T) {
	const on, days, all = "<Status>Enabled</Status>", "<Expiration><Days>1</Days></Expiration>", "<Prefix/>"
	filter := func(inner string) string { return on + days + "<Filter>" + inner + "</Filter>" }
	tag := func(key string) string { return "<Tag><Key>" + key + "</Key><Value>v</Value></Tag>" }
	for _, test := range []struct{ rule, want string }{
		{everyElement, `id false "p/" false map[a: k:v] 1 9 1 0001-01-01 false 2 3 4`},
		{on + days + all, `"" true map[]`}, {on + days + "<Prefix>a</Prefix>", `"a" true map[]`},
		{filter(""), `"" false map[]`}, {filter("<Prefix>a</Prefix>"), `"a" false map[]`}, {filter(tag("k")), `"" false map[k:v]`},
		{filter("<And><Prefix>a</Prefix>" + tag("k") + "</And>"), `"a" false map[k:v]`},
		{filter("<And>" + tag("k") + tag("l") + "</And>"), `"" false map[k:v l:v]`},
		{"<Status>Disabled</Status>" + days + all, " true "},
		{on + all + "<Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>", "2030-01-01"},
		{on + all + "<Expiration><Date>2030-01-01</Date></Expiration>", "2030-01-01"},
		{on + all + "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>", "0001-01-01 true"},

		{"", "malformed"}, {days + all, "malformed"}, {"<Status>enabled</Status>" + days + all, "malformed"}, {on + days, "malformed"},
		{filter("") + all, "malformed"}, {on + days + all + all, "malformed"}, {on + days + days + all, "malformed"}, {on + days + all + "<Color/>", "malformed"},
		{filter("<Color/>"), "malformed"}, {filter("<And><And/></And>"), "malformed"}, {filter("<And/><Prefix/>"), "malformed"},
		{filter("<And/>" + tag("k")), "malformed"}, {filter("<And>" + tag("k") + tag("k") + "</And>"), "malformed"}, {filter(tag("k") + tag("l")), "malformed"},
		{filter("<Prefix>a</Prefix>" + tag("k")), "malformed"}, {filter("<Prefix/><ObjectSizeLessThan>9</ObjectSizeLessThan>"), "malformed"},
		{filter("<ObjectSizeGreaterThan>1</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan>"), "malformed"}, {filter("<Tag><Key>k</Key></Tag>"), "malformed"},
		{filter("<Tag><Value>v</Value></Tag>"), "malformed"}, {filter("<ObjectSizeLessThan>-1</ObjectSizeLessThan>"), "malformed"},
		{filter("<ObjectSizeLessThan>9223372036854775808</ObjectSizeLessThan>"), "malformed"},
		{on + all + "<Expiration/>", "malformed"}, {on + all + "<Expiration><Days>1</Days><Date>2030-01-01</Date></Expiration>", "malformed"},
		{on + all + "<Expiration><Date>January</Date></Expiration>", "malformed"}, {on + all + "<Expiration><Days>1</Days><Hours>1</Hours></Expiration>", "malformed"},
		{on + all + days + "<NoncurrentVersionExpiration/>", "malformed"},
		{on + all + days + "<AbortIncompleteMultipartUpload/>", "malformed"}, {on + all + "<Transition><Date>x</Date></Transition>", "malformed"},

		{filter("<ObjectSizeLessThan>0</ObjectSizeLessThan>"), "invalid"}, {on + all + "<Expiration><Days>0</Days></Expiration>", "invalid"},
		{on + all + days + "<NoncurrentVersionExpiration><NoncurrentDays>-2</NoncurrentDays></NoncurrentVersionExpiration>", "invalid"},
		{on + all + "<Transition><Date>2030-01-01T01:00:00Z</Date></Transition>", "invalid"},
		{on + all + "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>", "transition"},
		{on + all + days + "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionTransition>", "transition"},
	} {
		rules, err := DecodeLifecycle([]byte(lifecycleOf(test.rule)))
		got := ""
		if err == nil {
			r := rules[0]
			got = fmt.Sprintf("%s %t %q %t %v %d %d %d %s %t %d %d %d", r.ID, r.Disabled, r.Prefix, r.OldForm, r.Tags, r.AtLeast, r.Below,
				r.ExpireDays, r.ExpireOn.Format(time.DateOnly), r.LoneMarks, r.DropDays, r.DropBeyond, r.AbortDays)
			again := Encode(Lifecycle(rules))
			same, err := DecodeLifecycle(again)
			testenv.OK(t, err)
			testenv.Equal(t, string(Encode(Lifecycle(same))), string(again), "%s that is written", test.rule)
		}
		if got = answer(got, err); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", test.rule, got, test.want)
		}
	}
}
