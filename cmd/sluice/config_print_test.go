package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// printedSettings parses the output of config print --json.
func printedSettings(t *testing.T, args ...string) map[string]effectiveSetting {
	t.Helper()
	r := must(t, append([]string{"config", "print", "--json"}, args...)...)
	settings := map[string]effectiveSetting{}
	d := json.NewDecoder(strings.NewReader(r.stdout))
	for d.More() {
		var s effectiveSetting
		testenv.OK(t, d.Decode(&s))
		settings[s.Name] = s
	}
	return settings
}

// TestConfigPrint checks the effective values and their sources.
func TestConfigPrint(t *testing.T) {
	ownContexts(t)
	file := configFileOf(t, "chunkset-price: 3\nallowed-hosts: [a.example, b.example]\n# comment\nsession-ttl: 5d\nmeta: postgres://u:canary@h/n\nkey-stored-bytes: 10G\nprofile: local\n")
	t.Setenv("SLUICE_CHUNKSET_PRICE", "4")
	t.Setenv("SLUICE_ADDR", "localhost:1")
	got := printedSettings(t, "--config", file, "--addr", "localhost:2", "--profile", "hosted", "--base-path", "/x", "--external-url", "https://h/x",
		"--reads", "paid", "--receiver", "0x1", "--allowed-hosts", "")
	for name, want := range map[string]effectiveSetting{
		"addr":                        {"addr", "localhost:2", "the command line"},
		"profile":                     {"profile", "hosted", "the command line"},
		"chunkset-price":              {"chunkset-price", "4", "SLUICE_CHUNKSET_PRICE"},
		"session-ttl":                 {"session-ttl", "120h0m0s", file + ":4"},
		"meta":                        {"meta", "postgres://u:xxxxx@h/n", file + ":5"},
		"key-stored-bytes":            {"key-stored-bytes", "10G", file + ":6"},
		"drain-wait":                  {"drain-wait", "5s", "the default"},
		"console":                     {"console", "false", "the default"},
		"admin-addr":                  {"admin-addr", "localhost:9091", "the default"},
		"garbage-grace":               {"garbage-grace", "24h0m0s", "the default"},
		"key-requests-per-second":     {"key-requests-per-second", "1000", "the default"},
		"address-bytes-in-per-second": {"address-bytes-in-per-second", "32MiB", "the default"},
		"log-level":                   {"log-level", "info", "the default"},
		"open-to-network":             {"open-to-network", "false", "the default"},
		"max-requests":                {"max-requests", "4096", "the default"},
		"cache-size":                  {"cache-size", "10GiB", "the default"},
		"trusted-proxies":             {"trusted-proxies", []any{}, "the default"},
	} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
	p := testenv.Must(newParser(newCommands()))(t)
	for name := range settingsOf(p.kong.Model) {
		if _, printed := got[name]; !printed && name != "config" && name != "help" {
			t.Errorf("%s is not printed", name)
		}
	}
}

// TestPrintedConfigurationIsAConfiguration checks that the output is a configuration file with the
// same meaning.
func TestPrintedConfigurationIsAConfiguration(t *testing.T) {
	ownContexts(t)
	args := []string{"--chunkset-price", "7", "--allowed-hosts", "a.example,b.example", "--receiver", "0x10", "--base-path", "/x", "--garbage-grace", "1h"}
	onChain := append(slices.Clone(args), "--chain-url", "https://node.example/v1", "--receiver-key-file", "/key", "--settle-parallel", "9")
	printed := must(t, append([]string{"config", "print"}, args...)...).stdout
	for _, want := range []string{"chunkset-price: \"7\"", "# the command line\n", "allowed-hosts: [a.example, b.example]"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s lacks %q", printed, want)
		}
	}
	for _, args := range [][]string{args, onChain} {
		printed := must(t, append([]string{"config", "print"}, args...)...).stdout
		again := printedSettings(t, "--config", configFileOf(t, printed))
		for name, s := range printedSettings(t, args...) {
			if !reflect.DeepEqual(again[name].Value, s.Value) {
				t.Errorf("%s is %v, and from the printed file %v", name, s.Value, again[name].Value)
			}
		}
	}
	settings := printedSettings(t, onChain...)
	for name, want := range map[string]string{"starting-limit": "10000", "settle-at": "500000", "settle-within": "24h0m0s", "coin-price": "0", "settle-parallel": "9", "max-settle-gas": "100000000", "channel-refresh": "30s"} {
		if settings[name].Value != want {
			t.Errorf("%s is %v with a chain, want %s", name, settings[name].Value, want)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	ownContexts(t)
	testenv.Equal(t, must(t, "config", "check").stdout, "The configuration is valid.\n", "printed")
}
