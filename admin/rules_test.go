package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestRules: whoever administers an account as a whole sees, counts and sets its rules, and sees no
// other account. A change is recorded, and a request that changes nothing is not.
// Invariant 213.
func TestRules(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		boss := o.hire(t, "ops", nil, on("admin"))
		tenant := o.hire(t, "tenant", nil, on("admin", "accc", "acca"), below(on("admin", "accb"), "x/"), on("read"))
		midnight := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		rules := []wire.Rule{{ID: "a b", Prefix: "p", Tags: map[string]string{"k": "v"}, AtLeast: 1, Below: 9, ExpireOn: midnight.In(time.FixedZone("", 3600)), DropDays: 2, DropBeyond: 3}, {ID: "u", AbortDays: 1}}
		set := func(by admin.By, account string, rules ...wire.Rule) error {
			return testenv.Error(o.SetRules(t.Context(), by, account, nil, wire.SetRules{Rules: rules}))
		}
		for _, account := range []string{"acca", "accb", "accc", "accd"} {
			testenv.OK(t, set(boss, account, rules...))
		}
		for account, want := range map[string]error{"acca": nil, "accb": admin.ErrBeyond, "accd": admin.ErrBeyond} {
			testenv.Is(t, set(tenant, account, rules...), want, "rules of %s", account)
			testenv.Is(t, testenv.Error(o.Rules(t.Context(), tenant, account)), want, "a look at %s", account)
			testenv.Is(t, testenv.Error(o.PreviewRules(t.Context(), tenant, account, wire.PreviewRules{})), want, "a count in %s", account)
		}
		pages := func(by admin.By) (accounts string) {
			for after := ""; ; {
				page := testenv.Must(o.RuledAccounts(t.Context(), by, after, 1))(t)
				for _, r := range page.Accounts {
					accounts += " " + r.Account
				}
				if after = page.Next; after == "" {
					return accounts
				}
			}
		}
		testenv.Equal(t, pages(boss), " acca accb accc accd", "the operator's accounts")
		testenv.Equal(t, pages(tenant), " acca accc", "the tenant's accounts")
		testenv.Equal(t, pages(o.hire(t, "none", nil, on("admin", "acce"))), "", "an account without rules")

		before := testenv.Must(o.Rules(t.Context(), tenant, "acca"))(t)
		rules[0].ExpireOn = midnight
		testenv.Equal(t, fmt.Sprintf("%+v", before.Rules), fmt.Sprintf("%+v", rules), "the rules")
		_, err := o.SetRules(t.Context(), tenant, "acca", func(tag string) bool { return tag != before.ETag }, wire.SetRules{})
		testenv.Is(t, err, admin.ErrChanged, "a change on condition")
		testenv.OK(t, set(tenant, "acca", rules...))
		after := testenv.Must(o.SetRules(t.Context(), tenant, "acca", func(tag string) bool { return tag == before.ETag }, wire.SetRules{Rules: rules[1:]}))(t)
		if after.ETag == before.ETag || len(after.Rules) != 1 {
			t.Errorf("the changed rules are %+v", after)
		}
		actions := testenv.Must(o.Actions(t.Context(), operator, "", 100))(t).Actions
		testenv.Equal(t, len(actions), 5, "recorded actions")
		testenv.Equal(t, fmt.Sprintf("%s %s %s", actions[0].Action, actions[0].Subject, actions[0].After), `rules.set acca {"rules":[{"id":"u","abortDays":1}]}`, "the last action")
		testenv.OK(t, set(tenant, "acca"))
		testenv.Equal(t, len(testenv.Must(o.store.Rules(t.Context(), "acca"))(t).Rules), 0, "rules after their removal")

		for _, rules := range [][]wire.Rule{make([]wire.Rule, 101), {{ID: "x"}}, {{ExpireDays: 1}}, {{ID: "x", ExpireDays: -1}}} {
			testenv.Is(t, set(boss, "accc", rules...), metastore.ErrRules, "%d rules", len(rules))
			testenv.Is(t, testenv.Error(o.PreviewRules(t.Context(), boss, "accc", wire.PreviewRules{Rules: &rules})), metastore.ErrRules, "a count of %d rules", len(rules))
		}
		testenv.Equal(t, len(testenv.Must(o.Rules(t.Context(), boss, "accc"))(t).Rules), 2, "rules after refused ones")
	})
}

// TestPagesOfRulesAreBounded lists accounts with large rules.
func TestPagesOfRulesAreBounded(t *testing.T) {
	o := open(t)
	var rules []wire.Rule
	for i := range 60 {
		rules = append(rules, wire.Rule{ID: fmt.Sprint(i), Prefix: strings.Repeat("p", 1000), ExpireDays: 1})
	}
	for i := range 20 {
		testenv.Must(o.SetRules(t.Context(), operator, fmt.Sprintf("acc%02d", i), nil, wire.SetRules{Rules: rules}))(t)
	}
	page := testenv.Must(o.RuledAccounts(t.Context(), operator, "", 100))(t)
	if n := len(page.Accounts); n < 5 || n > 9 || page.Next != page.Accounts[n-1].Account {
		t.Errorf("%d accounts with 61 KB of rules are on a page, next %q", n, page.Next)
	}
}
