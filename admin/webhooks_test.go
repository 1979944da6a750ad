package admin_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/database"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// hooked creates a webhook.
func (o *office) hooked(t *testing.T, by admin.By, in wire.CreateWebhook) wire.IssuedWebhook {
	t.Helper()
	in.URL = "https://example.org/"
	return testenv.Must(o.CreateWebhook(t.Context(), by, in, nil))(t)
}

// shownHooks returns the labels of the webhooks that they see, on pages of one.
func (o *office) shownHooks(t *testing.T, by admin.By) (labels []string) {
	t.Helper()
	for after := ""; ; {
		page := testenv.Must(o.Webhooks(t.Context(), by, after, 1))(t)
		for _, w := range page.Webhooks {
			labels = append(labels, w.Label)
		}
		if after = page.Next; after == "" {
			slices.Sort(labels)
			return labels
		}
	}
}

// TestWebhookRights: administrators see, change, test and delete the webhooks for accounts and
// names that they administer, and create no others.
// Invariant 237.
func TestWebhookRights(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		boss := o.hire(t, "ops", nil, on("admin"))
		tenant := o.hire(t, "tenant", nil, on("admin", "acca"), below(on("admin", "accb"), "x/"), on("write"))
		reader := o.hire(t, "tenant", nil, on("write"))
		ids := map[string]string{}
		for label, in := range map[string]wire.CreateWebhook{
			"all": {}, "a": {Account: "acca"}, "a/p": {Account: "acca", Prefix: "p"}, "b": {Account: "accb"}, "b/x": {Account: "accb", Prefix: "x/y"}, "c": {Account: "accc"},
		} {
			in.Label = label
			ids[label] = o.hooked(t, boss, in).ID
			_, err := o.CreateWebhook(t.Context(), reader, wire.CreateWebhook{URL: "https://e", Account: in.Account}, nil)
			testenv.Is(t, err, access.ErrScope, "a webhook by a key without admin")
		}
		testenv.Equal(t, fmt.Sprint(o.shownHooks(t, boss)), "[a a/p all b b/x c]", "the operator's webhooks")
		testenv.Equal(t, fmt.Sprint(o.shownHooks(t, tenant)), "[a a/p b/x]", "the tenant's webhooks")
		visible := o.shownHooks(t, tenant)
		for label, id := range ids {
			var want error
			if !slices.Contains(visible, label) {
				want = admin.ErrNotFound
			}
			testenv.Is(t, testenv.Error(o.Webhook(t.Context(), tenant, id)), want, "a look at %s", label)
			testenv.Is(t, testenv.Error(o.TestWebhook(t.Context(), tenant, id)), want, "a test of %s", label)
			testenv.Is(t, testenv.Error(o.UpdateWebhook(t.Context(), tenant, id, nil, wire.UpdateWebhook{NewSecret: true})), want, "a change of %s", label)
			testenv.Is(t, o.DeleteWebhook(t.Context(), tenant, id), want, "a deletion of %s", label)
		}
		for _, in := range []wire.CreateWebhook{{}, {Account: "accb"}, {Account: "accb", Prefix: "x"}, {Account: "accc"}} {
			in.URL = "https://e"
			testenv.Is(t, testenv.Error(o.CreateWebhook(t.Context(), tenant, in, nil)), admin.ErrBeyond, "%+v", in)
			own := o.hooked(t, tenant, wire.CreateWebhook{Account: "acca"})
			_, err := o.UpdateWebhook(t.Context(), tenant, own.ID, nil, wire.UpdateWebhook{Account: &in.Account, Prefix: &in.Prefix})
			testenv.Is(t, err, admin.ErrBeyond, "a change to %+v", in)
			testenv.Equal(t, testenv.Must(o.Webhook(t.Context(), tenant, own.ID))(t).Account, "acca", "the account after it")
		}
	})
}

// TestWebhookSettings creates, changes, rotates, turns off and on, and deletes a webhook. Its
// secret is shown once, and neither the database nor the record has it.
// Invariant 240.
func TestWebhookSettings(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		boss, other := o.hire(t, "ops", nil, on("admin")), o.hire(t, "others", nil, on("admin"))
		key := wire.CreateKey{Grants: wireGrants(on("read"))}
		testenv.Must(o.CreateKey(t.Context(), boss, key, nil))(t) // a change of keys
		created := o.hooked(t, boss, wire.CreateWebhook{Label: "l", Account: "acca", Prefix: "p/", Kinds: []string{"deleted", "stored"}})
		random, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(created.Secret, "whsec_"))
		if err != nil || len(random) != 32 || created.State != wire.WebhookOn || created.Key != boss.Caller.ID() || fmt.Sprint(created.Kinds) != "[stored deleted]" || created.After == "" {
			t.Errorf("the created webhook is %+v", created)
		}
		shown := testenv.Must(o.Webhook(t.Context(), boss, created.ID))(t)
		testenv.Equal(t, fmt.Sprintf("%+v", shown), fmt.Sprintf("%+v", created.Webhook), "the webhook")
		update := func(by admin.By, etag string, in wire.UpdateWebhook) (wire.IssuedWebhook, error) {
			return o.UpdateWebhook(t.Context(), by, created.ID, func(tag string) bool { return tag == etag }, in)
		}
		text, empty, kinds, on, off := "https://other", "", []string{}, true, false
		testenv.Is(t, testenv.Error(update(boss, "x", wire.UpdateWebhook{URL: &text})), admin.ErrChanged, "a change on condition")
		same := testenv.Must(update(boss, shown.ETag, wire.UpdateWebhook{On: &on, Account: &shown.Account}))(t)
		testenv.Equal(t, same.ETag, shown.ETag, "the ETag after no change")
		changed := testenv.Must(update(other, shown.ETag, wire.UpdateWebhook{URL: &text, Label: &empty, Account: &empty, Prefix: &empty, Kinds: &kinds}))(t)
		if changed.URL != text || changed.Label+changed.Account+changed.Prefix != "" || changed.Kinds != nil || changed.Key != other.Caller.ID() || changed.Secret != "" || changed.ETag == shown.ETag {
			t.Errorf("the changed webhook is %+v", changed)
		}
		testenv.OK(t, o.store.AdvanceWebhook(t.Context(), created.ID, o.progress(t, created.ID), metastore.WebhookProgress{Off: metastore.WebhookFailed, Failures: 9, Ahead: 7, Last: &metastore.WebhookResult{Status: 500}}))
		turned := testenv.Must(update(boss, changed.ETag, wire.UpdateWebhook{On: &on}))(t)
		if p := o.progress(t, created.ID); turned.State != wire.WebhookOn || p.Off != "" || p.Failures != 0 || p.Ahead != 7 {
			t.Errorf("turned on: %+v, %+v", turned, p)
		}
		disabled := testenv.Must(update(boss, turned.ETag, wire.UpdateWebhook{On: &off}))(t)
		if disabled.State != wire.WebhookOff || disabled.Reason != "disabled" {
			t.Errorf("turned off: %+v", disabled)
		}
		rotated := testenv.Must(update(boss, disabled.ETag, wire.UpdateWebhook{NewSecret: true, Kinds: &[]string{"stored"}}))(t)
		if until := rotated.OldUntil.Sub(o.store.Now()); rotated.Secret == "" || rotated.Secret == created.Secret || until < 23*time.Hour || until > 24*time.Hour || rotated.State != wire.WebhookOff {
			t.Errorf("rotated: %+v", rotated)
		}
		testenv.Equal(t, o.progress(t, created.ID).Ahead, 0, "where the delivery ends that a changed filter begins anew")
		w := testenv.Must(o.store.Webhook(t.Context(), created.ID))(t)
		box := testenv.Must(sealed.Parse([]byte(strings.Repeat("ab", 32))))(t)
		for _, one := range []struct {
			sealed []byte
			want   string
		}{{w.Secret, rotated.Secret}, {w.Old, created.Secret}} {
			testenv.Equal(t, testenv.Must(box.Open(access.WebhookOwner(w.ID), one.sealed))(t), one.want, "a secret")
			testenv.Is(t, testenv.Error(box.Open(w.ID, one.sealed)), sealed.ErrDamaged, "a secret for another owner")
		}
		result := testenv.Must(o.TestWebhook(t.Context(), boss, created.ID))(t)
		testenv.Equal(t, fmt.Sprint(result.Status, result.Seconds)+result.Error, "204 1", "a test's result")
		busy := "busy"
		testenv.Must(update(boss, rotated.ETag, wire.UpdateWebhook{Label: &busy}))(t)
		testenv.Is(t, testenv.Error(o.TestWebhook(t.Context(), boss, created.ID)), admin.ErrConflict, "a second test")
		testenv.OK(t, o.DeleteWebhook(t.Context(), boss, created.ID))
		testenv.Is(t, o.DeleteWebhook(t.Context(), boss, created.ID), admin.ErrNotFound, "a second deletion")

		var made []string
		for _, a := range testenv.Must(o.store.ListActions(t.Context(), "", 100))(t) {
			if a.Subject == created.ID {
				made = append(made, a.Name)
			}
			if all := string(a.Before) + string(a.After); strings.Contains(all, "whsec_") || a.Name == "webhook.create" && (!strings.Contains(all, `"newSecret":true`) || fmt.Sprint(a.Accounts) != "[acca]") {
				t.Errorf("the record has %s for %v", all, a.Accounts)
			}
		}
		testenv.Equal(t, strings.Join(made, " "), "webhook.delete webhook.update webhook.update webhook.update webhook.update webhook.update webhook.create", "recorded actions")
	})
}

func (o *office) progress(t *testing.T, id string) metastore.WebhookProgress {
	t.Helper()
	return testenv.Must(o.store.Webhook(t.Context(), id))(t).WebhookProgress
}

// TestWebhooksAreRefused: settings that no webhook has, more webhooks than a group may have, and
// webhooks without a key for secrets.
// Invariant 236.
func TestWebhooksAreRefused(t *testing.T) {
	o := open(t)
	boss := o.hire(t, "ops", nil, on("admin"))
	for name, in := range map[string]wire.CreateWebhook{
		"a url": {URL: "http://example.org"}, "no url": {}, "a label": {URL: "https://e", Label: "a\nb"}, "a long label": {URL: "https://e", Label: strings.Repeat("x", 129)},
		"a prefix": {URL: "https://e", Prefix: "\x00"}, "a kind": {URL: "https://e", Kinds: []string{"stored", "none"}},
	} {
		testenv.Is(t, testenv.Error(o.CreateWebhook(t.Context(), boss, in, nil)), admin.ErrInvalid, "%s", name)
	}
	testenv.Must(o.store.ListWebhooks(t.Context(), "", 1))(t)
	tenant := o.hire(t, "tenant", nil, on("admin", "acca"))
	for range admin.DefaultBounds.Webhooks {
		o.hooked(t, tenant, wire.CreateWebhook{Account: "acca"})
	}
	testenv.Is(t, testenv.Error(o.CreateWebhook(t.Context(), tenant, wire.CreateWebhook{URL: "https://e", Account: "acca"}, nil)), admin.ErrConflict, "one too many for the group")
	o.hooked(t, boss, wire.CreateWebhook{Account: "acca"})

	once := &database.Idempotency{Scope: "create", Key: "1", Owner: "ops"}
	create := func(by admin.By) (wire.IssuedWebhook, error) {
		return o.CreateWebhook(t.Context(), by, wire.CreateWebhook{URL: "https://e"}, once)
	}
	first := testenv.Must(create(boss))(t)
	again := testenv.Must(create(boss))(t)
	if again.ID != first.ID || again.Secret != "" || again.Remedy == "" {
		t.Errorf("a repeated creation: %+v", again)
	}
	for i := len(testenv.Must(o.store.ListWebhooks(t.Context(), "", 1000))(t)); i < metastore.MaxWebhooks; i++ {
		o.hooked(t, boss, wire.CreateWebhook{})
	}
	testenv.Is(t, testenv.Error(o.CreateWebhook(t.Context(), boss, wire.CreateWebhook{URL: "https://e"}, nil)), admin.ErrConflict, "one too many for the instance")
	bare := admin.New(o.store, admin.Options{})
	testenv.Is(t, testenv.Error(bare.CreateWebhook(t.Context(), operator, wire.CreateWebhook{URL: "https://e"}, nil)), admin.ErrInvalid, "a webhook without a key for secrets")
	testenv.Is(t, testenv.Error(bare.UpdateWebhook(t.Context(), operator, first.ID, nil, wire.UpdateWebhook{NewSecret: true})), admin.ErrInvalid, "a secret without a key for secrets")
	testenv.Is(t, testenv.Error(bare.TestWebhook(t.Context(), operator, first.ID)), admin.ErrConflict, "a test at the database")
}

// TestWebhookSecretsAreSealedAgain: with a new master key the secrets of webhooks are sealed by it.
// Invariant 240.
func TestWebhookSecretsAreSealedAgain(t *testing.T) {
	o := open(t)
	created := o.hooked(t, operator, wire.CreateWebhook{})
	rotated := testenv.Must(o.UpdateWebhook(t.Context(), operator, created.ID, nil, wire.UpdateWebhook{NewSecret: true}))(t)
	lost := testenv.Must(o.store.CreateWebhook(t.Context(), metastore.Webhook{ID: "lost", WebhookSettings: metastore.WebhookSettings{Secret: []byte("?")}}, nil, nil))(t)
	both := testenv.Must(sealed.Parse([]byte(strings.Repeat("cd", 32) + "\n" + strings.Repeat("ab", 32))))(t)
	n, err := admin.New(o.store, admin.Options{S3: both}).ResealS3Secrets(t.Context(), operator)
	if testenv.Is(t, err, sealed.ErrDamaged, "a secret that no key opens"); n != 1 || !strings.Contains(err.Error(), lost.ID) {
		t.Errorf("%d were sealed again, %v", n, err)
	}
	only := testenv.Must(sealed.Parse([]byte(strings.Repeat("cd", 32))))(t)
	w := testenv.Must(o.store.Webhook(t.Context(), created.ID))(t)
	testenv.Equal(t, testenv.Must(only.Open(access.WebhookOwner(w.ID), w.Secret))(t), rotated.Secret, "the secret")
	testenv.Equal(t, testenv.Must(only.Open(access.WebhookOwner(w.ID), w.Old))(t), created.Secret, "the secret before")
}
