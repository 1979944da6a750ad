package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestRules sets, lists, previews and removes an account's rules.
func TestRules(t *testing.T) {
	s := newService(t, serviceOptions{})
	c := newClient(t, s)
	a, ctx := c.Admin(), t.Context()
	testenv.Must(c.Put(ctx, "team", "logs/a", strings.NewReader("hello"), client.PutOptions{}))(t)
	rules := []wire.Rule{{ID: "a b", Prefix: "logs/", ExpireDays: 30}}
	set := testenv.Must(a.SetRules(ctx, "team", rules, client.UpdateOptions{}))(t)
	checkError(t, testenv.Error(a.SetRules(ctx, "team", nil, client.UpdateOptions{IfMatch: `"x"`})), client.ErrPreconditionFailed, nil)
	testenv.Equal(t, fmt.Sprintf("%+v", testenv.Must(a.AccountRules(ctx, "team"))(t).Rules), fmt.Sprintf("%+v", rules), "the rules")
	listed := 0
	for r, err := range a.Rules(ctx) {
		testenv.OK(t, err)
		testenv.Equal(t, r.ETag, set.ETag, "the listed rules")
		listed++
	}
	testenv.Equal(t, listed, 1, "accounts with rules")
	want := map[string]int64{"": 0, "logs/": 1, "x": 0}
	for prefix, blobs := range want {
		var tried []wire.Rule
		if prefix != "" {
			tried = []wire.Rule{{ID: "r", Prefix: prefix, ExpireOn: set.Changed.UTC().Truncate(24 * 3600e9)}}
		}
		for p, err := range a.PreviewRules(ctx, "team", tried) {
			testenv.OK(t, err)
			testenv.Equal(t, p.Taken["r"].Blobs, blobs, "blobs taken of %q", prefix)
		}
	}
	checkError(t, last(a.PreviewRules(ctx, "team", []wire.Rule{{ID: "x"}})), client.ErrInvalid, nil)
	testenv.Equal(t, len(testenv.Must(a.SetRules(ctx, "team", nil, client.UpdateOptions{IfMatch: set.ETag}))(t).Rules), 0, "removed rules")
}

// TestPreviewRulesAddsUp sums the parts of a count, and ends with a repeated one.
func TestPreviewRulesAddsUp(t *testing.T) {
	parts := map[string]string{
		`{}`:            `{"looked":2,"taken":{"r":{"blobs":1,"bytes":5}},"next":"1"}`,
		`{"after":"1"}`: `{"looked":3,"taken":{"r":{"versions":2,"bytes":6},"s":{"marks":1}},"next":"2"}`,
		`{"after":"2"}`: `{"looked":1,"taken":{"r":{"uploads":4}}}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, parts[strings.TrimSpace(string(body))]); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	a := testenv.Must(client.New(s.URL, client.Options{}))(t).Admin()
	var looked []int64
	var all wire.RulesPreview
	for p, err := range a.PreviewRules(t.Context(), "team", nil) {
		testenv.OK(t, err)
		looked, all = append(looked, p.Looked), p
	}
	testenv.Equal(t, fmt.Sprint(looked), "[2 5 6]", "looked at")
	testenv.Equal(t, fmt.Sprintf("%+v", all.Taken), fmt.Sprintf("%+v", map[string]wire.RuleCounts{"r": {Blobs: 1, Versions: 2, Uploads: 4, Bytes: 11}, "s": {Marks: 1}}), "the sums")
	parts[`{"after":"2"}`] = `{"looked":1,"taken":{},"next":"2"}`
	if err := last(a.PreviewRules(t.Context(), "team", nil)); err == nil || !strings.Contains(err.Error(), "next") {
		t.Errorf("a next that is repeated: %v", err)
	}
}
