package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"sluice/internal/logbuffer"
	"sluice/node"
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
	settings := commands.Serve.effective(&console{parser: p, parsed: parsed})
	var line bytes.Buffer
	slog.New(slog.NewJSONHandler(&line, nil)).Info("serving", slog.Group("settings", settingAttrs(settings)...))
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
	for _, s := range settings {
		if _, has := logged.Settings[s.Name]; has == slices.Contains([]string{"", "[]"}, fmt.Sprint(s.Value)) {
			t.Errorf("%s with the value %v is logged: %v", s.Name, s.Value, has)
		}
	}
}

// TestLogForADeveloper checks when the lines about requests may show names: on a terminal, of a
// local instance, in the format for people.
// Invariant 50.
func TestLogForADeveloper(t *testing.T) {
	for _, test := range []struct {
		profile    node.Profile
		format     logbuffer.Format
		onTerminal bool
		want       bool
	}{
		{node.Local, logbuffer.Text, true, true},
		{node.Local, logbuffer.Text, false, false},
		{node.Local, logbuffer.JSON, true, false},
		{node.Hosted, logbuffer.Text, true, false},
	} {
		c := configuration{logFormat: test.format}
		c.node.Profile = test.profile
		testenv.Equal(t, c.forDeveloper(test.onTerminal), test.want, "%+v", test)
	}
}
