package s3api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/metastore"
	"sluice/test/testenv"
)

// lifecycleOf returns a document with rules.
func lifecycleOf(rules ...string) string {
	return "<LifecycleConfiguration><Rule>" + strings.Join(rules, "</Rule><Rule>") + "</Rule></LifecycleConfiguration>"
}

// Rules in the old and the new form.
const (
	oldRule = "<ID>old</ID><Prefix>old/</Prefix><Status>Enabled</Status><Expiration><Days>30</Days></Expiration>"
	newRule = "<Filter><And><Prefix>new/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration>"
)

// TestLifecycle sets, reads and removes a bucket's rules, which are its account's.
// Invariant 218.
func TestLifecycle(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket", "")
	s.refused(t, 404, "NoSuchLifecycleConfiguration", "GET", "/bucket?lifecycle", "")
	s.want(t, 200, "PUT", "/bucket?lifecycle", lifecycleOf(oldRule, newRule), "X-Amz-Transition-Default-Minimum-Object-Size", "all_storage_classes_128K")
	got := s.want(t, 200, "GET", "/bucket?lifecycle", "").body
	for _, want := range []string{"<ID>old</ID><Prefix>old/</Prefix><Status>Enabled</Status>", "<ID>rule-2</ID>", "<Filter><And><Prefix>new/</Prefix><Tag>"} {
		testenv.Equal(t, strings.Contains(got, want), true, "%s in %s", want, got)
	}
	stored := testenv.Must(s.database.Rules(t.Context(), "bucket"))(t)
	testenv.Equal(t, len(stored.Rules) == 2 && stored.Rules[1].ExpireDays == 1 && stored.Rules[1].Tags["k"] == "v", true, "the account's rules: %+v", stored.Rules)
	s.want(t, 200, "PUT", "/bucket?lifecycle", got)
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket?lifecycle", "").body, got, "rules that are set as they were read")

	const days = "<Status>Enabled</Status><Expiration><Days>1</Days></Expiration><Prefix/>"
	for rules, want := range map[string]string{
		lifecycleOf(days, strings.Replace(days, "Days>1", "Days>0", 1)):                                   "400 InvalidArgument",
		lifecycleOf(oldRule, oldRule):                                                                     "400 InvalidArgument",
		lifecycleOf("<ID>" + strings.Repeat("i", 256) + "</ID>" + days):                                   "400 InvalidArgument",
		lifecycleOf("<Status>Enabled</Status><Prefix/>"):                                                  "400 InvalidArgument",
		lifecycleOf(strings.Replace(newRule, "Days>1</Days", "Date>2030-01-01T01:00:00Z</Date", 1)):       "400 InvalidArgument",
		lifecycleOf(strings.Replace(oldRule, "Enabled", "enabled", 1)):                                    "400 MalformedXML",
		lifecycleOf(strings.Repeat(days+"</Rule><Rule>", 100) + days):                                     "400 InvalidArgument",
		"<LifecycleConfiguration/>":                                                                       "400 MalformedXML",
		lifecycleOf(days + "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"): "501 NotImplemented",
		strings.Repeat(" ", mostLifecycle+1):                                                              "400 EntityTooLarge",
	} {
		res := s.do(t, "PUT", "/bucket?lifecycle", rules)
		e := decodedAs[sentError](t, res.body)
		if got := strings.TrimSuffix(res.Status, " "+http.StatusText(res.StatusCode)) + " " + e.Code; got != want {
			t.Errorf("%.200s: %s, want %s", rules, res.body, want)
		}
		if want == "501 NotImplemented" && !strings.Contains(e.Message, "Transition") {
			t.Errorf("the refusal does not name the transition: %s", e.Message)
		}
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket?lifecycle", "").body, got, "the rules after refusals")
	s.want(t, 204, "DELETE", "/bucket?lifecycle", "")
	s.refused(t, 404, "NoSuchLifecycleConfiguration", "GET", "/bucket?lifecycle", "")
}

// TestReadersOfLifecycle: who does not administer the whole account reads no rule, as natively.
// Invariants 187, 213.
func TestReadersOfLifecycle(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	grant := func(scope, prefix string) keys.Grant {
		return keys.Grant{Scopes: []string{scope}, Accounts: []string{"ours"}, Prefix: prefix}
	}
	ask := func(method, body string, grant keys.Grant) response {
		key := h.key(t, access.NewKey{Grants: []keys.Grant{grant}})
		return send(t, key.sign(h.request(t, method, "/ours?lifecycle", body)))
	}
	whole := grant("admin", "")
	owner := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{"ours"}})
	testenv.Equal(t, send(t, owner.sign(h.request(t, "PUT", "/ours", ""))).StatusCode, 200, "the bucket")
	testenv.Equal(t, ask("PUT", lifecycleOf(oldRule), whole).StatusCode, 200, "the rules are set")
	testenv.Equal(t, strings.Contains(ask("GET", "", whole).body, oldRule), true, "the account's administrator reads its rules")
	for _, g := range []keys.Grant{grant("read", ""), grant("read", "old/"), grant("write", ""), grant("admin", "old/")} {
		wantError(t, ask("GET", "", g), http.StatusForbidden, "AccessDenied")
	}
	wantError(t, send(t, h.request(t, "GET", "/ours?lifecycle", "")), http.StatusForbidden, "AccessDenied")
}

// TestExpirationByRules: responses have the rule that is due first and its time, and a rule has an
// effect at once on the node that has set it.
// Invariant 218.
func TestExpirationByRules(t *testing.T) {
	s := newService(t)
	s.keep(t, "Enabled")
	s.want(t, 200, "PUT", "/bucket?lifecycle", lifecycleOf(oldRule, newRule))
	in := func(days int) string {
		return metastore.NextMidnight(time.Now()).AddDate(0, 0, days).Format(http.TimeFormat)
	}
	shows := func(res response, days int, id string) {
		t.Helper()
		want := ""
		if id != "" {
			want = `expiry-date="` + in(days) + `", rule-id="` + id + `"`
		}
		testenv.Equal(t, res.Header.Get("X-Amz-Expiration"), want, "%s %s: the expiration", res.Request.Method, res.Request.URL)
	}
	first := s.want(t, 200, "PUT", "/bucket/old/a", "x")
	shows(first, 30, "old")
	for _, method := range []string{"GET", "HEAD"} {
		shows(s.want(t, 200, method, "/bucket/old/a", ""), 30, "old")
		shows(s.want(t, 200, method, "/bucket/old/a?versionId="+first.Header.Get("X-Amz-Version-Id"), ""), 30, "old")
	}
	shows(s.want(t, 200, "PUT", "/bucket/new/a", "x"), 0, "")
	shows(s.want(t, 200, "PUT", "/bucket/new/a", "x", "X-Amz-Tagging", "k=v"), 1, "rule-2")
	shows(s.want(t, 200, "PUT", "/bucket/new/b", "", "X-Amz-Copy-Source", "/bucket/new/a"), 1, "rule-2")
	id := s.begin(t, "/bucket/old/parts")
	shows(s.want(t, 200, "POST", "/bucket/old/parts?uploadId="+id, completion(named{1, s.part(t, "/bucket/old/parts", id, 1, "x")})), 30, "old")
	body, mediaType := form(t, "key", "old/posted", "file", "x")
	shows(s.want(t, 204, "POST", "/bucket", body, "Content-Type", mediaType), 30, "old")
	s.want(t, 204, "DELETE", "/bucket/new/a?tagging", "")
	shows(s.want(t, 200, "HEAD", "/bucket/new/a", ""), 0, "")
	own := s.want(t, 200, "PUT", "/bucket/old/b", "x", "X-Amz-Meta-Expiration-Seconds", "60").Header.Get("X-Amz-Expiration")
	testenv.Equal(t, strings.Contains(own, `rule-id="x-amz-meta-expiration-seconds"`), true, "what is due first: %s", own)

	s.put(t, "old/a", "y")
	shows(s.want(t, 200, "GET", "/bucket/old/a?versionId="+first.Header.Get("X-Amz-Version-Id"), ""), 0, "")
	s.want(t, 200, "PUT", "/bucket?lifecycle", lifecycleOf(strings.Replace(oldRule, "<ID>old</ID>", `<ID>"é" 1</ID>`, 1)))
	shows(s.want(t, 200, "HEAD", "/bucket/old/a", ""), 30, "%22%C3%A9%22+1")
	s.want(t, 204, "DELETE", "/bucket?lifecycle", "")
	shows(s.want(t, 200, "HEAD", "/bucket/old/a", ""), 0, "")

}
