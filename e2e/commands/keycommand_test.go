package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestLimitsChangeWhileAServerRuns checks that a group's new limits, and a key's new accounts,
// apply to a running service.
// Invariant 37.
func TestLimitsChangeWhileAServerRuns(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--profile", "hosted", "--base-path", "/sluice", "--reads", "key", "--receiver", "0x1",
		"--external-url", "https://blobs.example.org/sluice", "--admin-addr", "off", "--drain-wait", "0s"}})
	secret := strings.TrimSpace(e2e.Key(t, s.Data, "create", "--scopes", "read,write", "--accounts", "0xAB", "--group", "team").Stdout)
	bearer := []string{"Authorization", "Bearer " + secret}
	put := func(account string) int {
		return s.Do("PUT", e2e.BlobTarget(account, "name"), []byte("x"), bearer...).Status
	}
	if got := put("0xab"); got != 204 {
		t.Fatalf("PUT: %d", got)
	}
	set := func(args ...string) {
		t.Helper()
		if r := e2e.SluiceRuns(t, append([]string{"group", "set", "--data", s.Data, "team"}, args...)...); r.Code != 0 {
			t.Fatalf("group set %q: %+v", args, r)
		}
	}
	set("--stored-bytes", "1")
	s.Await("the new quota does not apply", func() bool { return put("0xab") == 403 })
	show := e2e.SluiceRuns(t, "group", "show", "--data", s.Data, "--json", "team")
	var shown struct{ Used map[string]int64 }
	if err := json.Unmarshal([]byte(show.Stdout), &shown); err != nil || shown.Used["storedObjects"] != 1 {
		t.Errorf("group show: %+v, %v, want one object", show, err)
	}
	set("--default", "stored-bytes")
	s.Await("the quota still applies", func() bool { return put("0xab") == 204 })
	e2e.Key(t, s.Data, "update", "--accounts", "0xcd", secret)
	s.Await("the new accounts do not apply", func() bool { return put("0xab") == 403 && put("0xcd") == 204 })
}
