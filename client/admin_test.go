package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/client"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

// losing loses the replies to the first requests with a method that end in a path.
func losing(method, path string, n int) func(*http.Request) fault.Kind {
	return func(r *http.Request) fault.Kind {
		if r.Method == method && strings.HasSuffix(r.URL.Path, path) {
			if n--; n >= 0 {
				return fault.Lose
			}
		}
		return fault.None
	}
}

// TestAdmin administers an instance by each method.
func TestAdmin(t *testing.T) {
	s := httptest.NewServer(newService(t, serviceOptions{}).handler)
	defer s.Close()
	a := testenv.Must(client.New(s.URL, client.Options{}))(t).Admin()
	ctx := t.Context()
	if now := testenv.Must(a.Now(ctx))(t); time.Since(now).Abs() > time.Minute {
		t.Errorf("the server's time is %v", now)
	}
	read := []wire.Grant{{Scopes: []string{"read"}, Accounts: []string{"team"}, Prefix: "a b/"}}
	issued := testenv.Must(a.CreateKey(ctx, wire.CreateKey{Label: "first", Grants: read, Group: "g", Limits: map[string]int64{"channels": 3}}, client.CreateKeyOptions{}))(t)
	if key := testenv.Must(a.Key(ctx, issued.ID))(t); key.ETag != issued.ETag || key.Grants[0].Prefix != "a b/" || key.Limits["channels"] != 3 {
		t.Errorf("created is %+v, and shown %+v", issued, key)
	}
	label := "second"
	updated := testenv.Must(a.UpdateKey(ctx, issued.ID, wire.UpdateKey{Label: &label, NewSecret: true}, client.UpdateOptions{IfMatch: issued.ETag}))(t)
	if updated.Label != label || updated.Secret == "" || updated.Secret == issued.Secret {
		t.Errorf("updated is %+v", updated)
	}
	checkError(t, testenv.Error(a.UpdateKey(ctx, issued.ID, wire.UpdateKey{Label: &label}, client.UpdateOptions{IfMatch: issued.ETag})), client.ErrPreconditionFailed, client.ErrOutcomeUnknown)
	testenv.Equal(t, testenv.Must(a.RevokeKey(ctx, issued.ID, false))(t).State, wire.KeyRevoked, "the state")
	group := testenv.Must(a.UpdateGroup(ctx, "g", wire.UpdateGroup{Limits: map[string]int64{"channels": 4}}, client.UpdateOptions{IfMatch: testenv.Must(a.Group(ctx, "g"))(t).ETag}))(t)
	testenv.Equal(t, group.Effective["channels"], 4, "the limit")
	testenv.Must(a.SetAlias(ctx, "photos", "team"))(t)
	for _, err := range []error{testenv.Error(a.SetAlias(ctx, "photos", "other")), testenv.Error(a.Key(ctx, "none")), testenv.Error(a.Key(ctx, "..")), a.DeleteAlias(ctx, "none")} {
		if !errors.Is(err, client.ErrConflict) && !errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrInvalid) {
			t.Errorf("error %v", err)
		}
	}
	testenv.OK(t, a.DeleteAlias(ctx, "photos"))
	for range 250 { // three pages
		testenv.Must(a.CreateKey(ctx, wire.CreateKey{Grants: read}, client.CreateKeyOptions{}))(t)
	}
	var ids, groups, actions []string
	for k, err := range a.Keys(ctx) {
		testenv.OK(t, err)
		ids = append(ids, k.ID)
	}
	for g, err := range a.Groups(ctx) {
		testenv.OK(t, err)
		groups = append(groups, g.Group)
	}
	for made, err := range a.Actions(ctx) {
		testenv.OK(t, err)
		actions = append(actions, made.Action)
	}
	slices.Reverse(actions)
	if len(ids) != 251 || !slices.IsSorted(ids) || len(groups) != 251 || !slices.Contains(ids, issued.ID) || !slices.Contains(groups, "g") {
		t.Errorf("listed are %d keys and %d groups", len(ids), len(groups))
	}
	testenv.Equal(t, strings.Join(actions[:7], " "), "key.create key.update key.revoke group.update alias.set alias.remove key.create", "the first actions")
	testenv.OK(t, errors.Join(last(a.Aliases(ctx)), last(a.Damaged(ctx)), last(a.Uploads(ctx))))
}

// TestAdminOfPlacesAndTasks administers places and tasks by each method.
func TestAdminOfPlacesAndTasks(t *testing.T) {
	a := newClient(t, newService(t, serviceOptions{})).Admin()
	ctx, yes, free, reason := t.Context(), true, "free", "an order"
	testenv.Must(a.ChangePlace(ctx, client.PlaceName{Account: "team"}, wire.ChangePlace{MayOpen: &yes}))(t)
	folder, one := client.PlaceName{Account: "team", Prefix: "a b/"}, client.PlaceName{Account: "team", Blob: "a b/c"}
	testenv.Must(a.ChangePlace(ctx, folder, wire.ChangePlace{Reads: &free}))(t)
	testenv.Must(a.ChangePlace(ctx, one, wire.ChangePlace{Block: &reason}))(t)
	shown := testenv.Must(a.Place(ctx, one))(t)
	if shown.Blob != "a b/c" || shown.InForce.Reads != "free" || shown.InForce.Blocked == nil || shown.InForce.Blocked.Reason != reason {
		t.Errorf("the place is %+v", shown)
	}
	var places []string
	for p, err := range a.Places(ctx, "team") {
		testenv.OK(t, err)
		places = append(places, p.Prefix+p.Blob)
	}
	testenv.Equal(t, strings.Join(places, ","), ",a b/,a b/c", "the places")
	testenv.OK(t, last(a.Places(ctx, "")))
	paused := testenv.Must(a.PauseTask(ctx, "sweep"))(t)
	checkError(t, testenv.Error(a.StartTask(ctx, "sweep")), client.ErrConflict, nil)
	resumed := testenv.Must(a.ResumeTask(ctx, "sweep"))(t)
	wanted := testenv.Must(a.StartTask(ctx, "sweep"))(t)
	if paused.Paused.IsZero() || !resumed.Paused.IsZero() || wanted.Wanted.IsZero() || len(testenv.Must(a.Tasks(ctx))(t)) < 5 {
		t.Errorf("the task was %+v, %+v, %+v", paused, resumed, wanted)
	}
	testenv.Must(a.Nodes(ctx))(t)
	checkError(t, testenv.Error(a.PauseTask(ctx, "none")), client.ErrNotFound, nil)
}

// TestAdminOfWebhooks administers webhooks by each method, and loses replies.
// Invariant 240.
func TestAdminOfWebhooks(t *testing.T) {
	s := newService(t, serviceOptions{})
	a, ctx := newClient(t, s).Admin(), t.Context()
	lost := func(method, path string) *client.Admin {
		return newClient(t, &faulty{s, losing(method, path, 1)}).Admin()
	}
	in := wire.CreateWebhook{URL: "https://e/x?y=z", Label: "l", Account: "team", Prefix: "a b/", Kinds: []string{"stored"}}
	made := testenv.Must(a.CreateWebhook(ctx, in, client.CreateKeyOptions{}))(t)
	shown := testenv.Must(a.Webhook(ctx, made.ID))(t)
	if made.Secret == "" || shown.URL != in.URL || shown.Prefix != in.Prefix || fmt.Sprint(shown.Kinds) != "[stored]" || shown.ETag != made.ETag {
		t.Errorf("created is %+v, and shown %+v", made, shown)
	}
	second, err := lost("POST", "/v1/admin/webhooks").CreateWebhook(ctx, in, client.CreateKeyOptions{})
	if testenv.Is(t, err, client.ErrSecretLost, "a creation with a lost reply"); second.ID == "" || second.ID == made.ID {
		t.Errorf("the second webhook is %+v", second)
	}
	rotated := testenv.Must(a.UpdateWebhook(ctx, made.ID, wire.UpdateWebhook{NewSecret: true}, client.UpdateOptions{IfMatch: made.ETag}))(t)
	if rotated.Secret == "" || rotated.Secret == made.Secret || rotated.OldUntil.IsZero() {
		t.Errorf("rotated is %+v", rotated)
	}
	checkError(t, testenv.Error(a.UpdateWebhook(ctx, made.ID, wire.UpdateWebhook{}, client.UpdateOptions{IfMatch: made.ETag})), client.ErrPreconditionFailed, client.ErrOutcomeUnknown)
	off, busy := false, "busy"
	testenv.Equal(t, testenv.Must(a.UpdateWebhook(ctx, made.ID, wire.UpdateWebhook{On: &off, Label: &busy}, client.UpdateOptions{}))(t).State, wire.WebhookOff, "the state")
	result := testenv.Must(a.TestWebhook(ctx, second.ID))(t)
	testenv.Equal(t, fmt.Sprint(result.Status, result.Seconds, " ")+result.Error, "500 1 status", "a test's result")
	checkError(t, testenv.Error(a.TestWebhook(ctx, made.ID)), client.ErrConflict, nil)
	for range 150 { // two pages
		testenv.Must(a.CreateWebhook(ctx, in, client.CreateKeyOptions{}))(t)
	}
	var ids []string
	for w, err := range a.Webhooks(ctx) {
		testenv.OK(t, err)
		ids = append(ids, w.ID)
	}
	if len(ids) != 152 || !slices.IsSorted(ids) {
		t.Errorf("listed are %d webhooks", len(ids))
	}
	testenv.OK(t, lost("DELETE", "/v1/admin/webhooks/"+made.ID).DeleteWebhook(ctx, made.ID))
	testenv.Is(t, a.DeleteWebhook(ctx, made.ID), client.ErrNotFound, "a second deletion")
	testenv.Is(t, testenv.Error(a.Webhook(ctx, "..")), client.ErrInvalid, "an id that is none")
}

// TestAdminErrorsNameTheOperation is refused each operation.
func TestAdminErrorsNameTheOperation(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer s.Close()
	a := testenv.Must(client.New(s.URL, client.Options{}))(t).Admin()
	ctx, place := t.Context(), client.PlaceName{Account: "a"}
	for operation, err := range map[string]error{
		"list keys": last(a.Keys(ctx)), "list groups": last(a.Groups(ctx)), "list aliases": last(a.Aliases(ctx)), "list damaged": last(a.Damaged(ctx)), "list uploads": last(a.Uploads(ctx)),
		"list actions": last(a.Actions(ctx)), "list places": last(a.Places(ctx, "")), "list tasks": testenv.Error(a.Tasks(ctx)), "list nodes": testenv.Error(a.Nodes(ctx)),
		"show a key": testenv.Error(a.Key(ctx, "k")), "create a key": testenv.Error(a.CreateKey(ctx, wire.CreateKey{}, client.CreateKeyOptions{})),
		"update a key": testenv.Error(a.UpdateKey(ctx, "k", wire.UpdateKey{}, client.UpdateOptions{})), "revoke a key": testenv.Error(a.RevokeKey(ctx, "k", false)),
		"show a group": testenv.Error(a.Group(ctx, "g")), "update a group": testenv.Error(a.UpdateGroup(ctx, "g", wire.UpdateGroup{}, client.UpdateOptions{})),
		"set an alias": testenv.Error(a.SetAlias(ctx, "b", "a")), "remove an alias": a.DeleteAlias(ctx, "b"),
		"show a place": testenv.Error(a.Place(ctx, place)), "change a place": testenv.Error(a.ChangePlace(ctx, place, wire.ChangePlace{})),
		"list versions": last(a.Versions(ctx)), "show the versions of an account": testenv.Error(a.AccountVersions(ctx, "a")),
		"set the versions of an account": testenv.Error(a.SetVersions(ctx, "a", wire.SetKeeping{}, client.UpdateOptions{})),
		"list rules":                     last(a.Rules(ctx)), "show the rules of an account": testenv.Error(a.AccountRules(ctx, "a")), "preview rules": last(a.PreviewRules(ctx, "a", nil)),
		"set the rules of an account": testenv.Error(a.SetRules(ctx, "a", nil, client.UpdateOptions{})),
		"list webhooks":               last(a.Webhooks(ctx)), "show a webhook": testenv.Error(a.Webhook(ctx, "w")), "create a webhook": testenv.Error(a.CreateWebhook(ctx, wire.CreateWebhook{}, client.CreateKeyOptions{})),
		"update a webhook": testenv.Error(a.UpdateWebhook(ctx, "w", wire.UpdateWebhook{}, client.UpdateOptions{})), "delete a webhook": a.DeleteWebhook(ctx, "w"), "test a webhook": testenv.Error(a.TestWebhook(ctx, "w")),
		"start a task": testenv.Error(a.StartTask(ctx, "t")), "pause a task": testenv.Error(a.PauseTask(ctx, "t")), "resume a task": testenv.Error(a.ResumeTask(ctx, "t")),
	} {
		if !errors.Is(err, client.ErrForbidden) || !strings.HasPrefix(err.Error(), "client: "+operation+": ") {
			t.Errorf("%s: the error is %v", operation, err)
		}
	}
}

// TestAdminRepeatsRequests loses replies: no operation has its effect twice, and a lost secret is
// reported.
// Invariant 204.
func TestAdminRepeatsRequests(t *testing.T) {
	s := newService(t, serviceOptions{})
	a := newClient(t, s).Admin()
	ctx, in := t.Context(), wire.CreateKey{Grants: []wire.Grant{{Scopes: []string{"read"}}}}
	lost := func(method, path string) *client.Admin {
		return newClient(t, &faulty{s, losing(method, path, 1)}).Admin()
	}

	key, err := lost("POST", "/keys").CreateKey(ctx, in, client.CreateKeyOptions{})
	if !errors.Is(err, client.ErrSecretLost) || key.ID == "" || key.Secret != "" || !strings.Contains(err.Error(), key.ID) {
		t.Errorf("the reply to a creation was lost: %+v, %v", key, err)
	}
	renewed, err := lost("PATCH", key.ID).UpdateKey(ctx, key.ID, wire.UpdateKey{NewSecret: true}, client.UpdateOptions{})
	if err != nil || renewed.Secret == "" {
		t.Errorf("the reply to an update was lost: %+v, %v", renewed, err)
	}
	_, err = lost("PATCH", key.ID).UpdateKey(ctx, key.ID, wire.UpdateKey{NewSecret: true}, client.UpdateOptions{IfMatch: renewed.ETag})
	checkError(t, err, client.ErrOutcomeUnknown, nil)
	testenv.Must(a.SetAlias(ctx, "photos", "team"))(t)
	testenv.OK(t, lost("DELETE", "/photos").DeleteAlias(ctx, "photos"))
	keys := 0
	for _, err := range a.Keys(ctx) {
		testenv.OK(t, err)
		keys++
	}
	testenv.Equal(t, keys, 1, "keys")
}
