package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"sluice/cmd/sluice/internal/settings"
	"sluice/test/testenv"
)

// TestStartLineHasTheSettings checks that the line at the start has every effective setting that
// has a value, and no password.
// Invariant 136.
func TestStartLineHasTheSettings(t *testing.T) {
	ownContexts(t)
	t.Setenv("SLUICE_META", "postgres://u:canary@h/n?sslpassword=canary")
	t.Setenv("SLUICE_BYTES", "s3://bucket/prefix?endpoint=https://h")
	commands := newCommands()
	p := testenv.Must(newParser(commands))(t)
	parsed, err := p.parse([]string{"serve", "--allowed-hosts", "a.example,b.example", "--cors-origins", "https://a.example,https://b.example", "--verify-ttl", "5m"})
	testenv.OK(t, err)
	values := commands.Serve.Effective(parsed, &p.read)
	var line bytes.Buffer
	slog.New(slog.NewJSONHandler(&line, nil)).Info("serving", slog.Group("settings", settings.Attrs(values)...))
	if bytes.Contains(line.Bytes(), []byte("canary")) {
		t.Errorf("a password is logged: %s", &line)
	}
	var logged struct{ Settings map[string]string }
	testenv.OK(t, json.Unmarshal(line.Bytes(), &logged))
	for name, want := range map[string]string{
		"meta": "postgres://u:xxxxx@h/n?sslpassword=xxxxx", "bytes": "s3://bucket/prefix?endpoint=https://h", "addr": "localhost:9090", "profile": "local",
		"verify-ttl": "5m0s", "allowed-hosts": "a.example,b.example", "cors-origins": "https://a.example,https://b.example", "garbage-grace": "24h0m0s", "log-format": "text", "log-requests": "all",
	} {
		if logged.Settings[name] != want {
			t.Errorf("%s is %q, want %q", name, logged.Settings[name], want)
		}
	}
	for _, s := range values {
		if _, has := logged.Settings[s.Name]; has == slices.Contains([]string{"", "[]"}, fmt.Sprint(s.Value)) {
			t.Errorf("%s with the value %v is logged: %v", s.Name, s.Value, has)
		}
	}
}
