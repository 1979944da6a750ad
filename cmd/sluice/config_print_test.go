package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/settings"
	"sluice/test/testenv"
)

// printedSettings parses the output of config print --json.
func printedSettings(t *testing.T, args ...string) map[string]settings.Value {
	t.Helper()
	r := must(t, append([]string{"config", "print", "--json"}, args...)...)
	values := map[string]settings.Value{}
	d := json.NewDecoder(strings.NewReader(r.stdout))
	for d.More() {
		var s settings.Value
		testenv.OK(t, d.Decode(&s))
		values[s.Name] = s
	}
	return values
}

// TestConfigPrint checks the effective values and their sources.
func TestConfigPrint(t *testing.T) {
	ownContexts(t)
	file := configFileOf(t, "chunkset-price: 3\nallowed-hosts: [a.example, b.example]\n# comment\nscrub-period: 5d\nmeta: postgres://u:canary@h/n\nkey-limits: {stored-bytes: 10G}\nprofile: local\n")
	t.Setenv("SLUICE_CHUNKSET_PRICE", "4")
	t.Setenv("SLUICE_ADDR", "localhost:1")
	got := printedSettings(t, "--config", file, "--addr", "localhost:2", "--profile", "hosted", "--base-path", "/x", "--external-url", "https://h/x",
		"--reads", "paid", "--receiver", "0x1", "--allowed-hosts", "")
	for name, want := range map[string]settings.Value{
		"addr":            {Name: "addr", Value: "localhost:2", Source: "the command line"},
		"profile":         {Name: "profile", Value: "hosted", Source: "the command line"},
		"chunkset-price":  {Name: "chunkset-price", Value: "4", Source: "SLUICE_CHUNKSET_PRICE"},
		"scrub-period":    {Name: "scrub-period", Value: "120h0m0s", Source: file + ":4"},
		"meta":            {Name: "meta", Value: "postgres://u:xxxxx@h/n", Source: file + ":5"},
		"key-limits":      {Name: "key-limits", Value: "requests-per-second=1000,bytes-in-per-second=512MiB,bytes-out-per-second=512MiB,concurrent-requests=1024,stored-bytes=10G,occupied-bytes=40G,stored-objects=unlimited,open-uploads=unlimited,channels=unlimited", Source: file + ":6"},
		"drain-wait":      {Name: "drain-wait", Value: "5s", Source: "the default"},
		"console":         {Name: "console", Value: "false", Source: "the default"},
		"admin-addr":      {Name: "admin-addr", Value: "localhost:9091", Source: "the default"},
		"garbage-grace":   {Name: "garbage-grace", Value: "24h0m0s", Source: "the default"},
		"address-limits":  {Name: "address-limits", Value: "requests-per-second=100,bytes-in-per-second=32MiB,bytes-out-per-second=32MiB,concurrent-requests=64", Source: "the default"},
		"log-level":       {Name: "log-level", Value: "info", Source: "the default"},
		"open-to-network": {Name: "open-to-network", Value: "false", Source: "the default"},
		"max-requests":    {Name: "max-requests", Value: "4096", Source: "the default"},
		"cache-size":      {Name: "cache-size", Value: "10GiB", Source: "the default"},
		"trusted-proxies": {Name: "trusted-proxies", Value: []any{}, Source: "the default"},
	} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
	p := testenv.Must(newParser(newCommands()))(t)
	for name := range settings.Of(p.kong.Model) {
		if _, printed := got[name]; !printed && name != "config" && name != "help" {
			t.Errorf("%s is not printed", name)
		}
	}
}

// TestPrintedConfigurationIsAConfiguration checks that the output is a configuration file with the
// same meaning.
func TestPrintedConfigurationIsAConfiguration(t *testing.T) {
	ownContexts(t)
	args := []string{"--chunkset-price", "7", "--allowed-hosts", "a.example,b.example", "--receiver", "0x10", "--base-path", "/x", "--garbage-grace", "1h", "--address-limits", "concurrent-requests=7"}
	onChain := append(slices.Clone(args), "--chain-url", "https://node.example/v1", "--receiver-key-file", "/key", "--chain", "id=9")
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
	onChainValues := printedSettings(t, onChain...)
	for name, want := range map[string]string{"coin-price": "0", "chain": "id=9,asset=0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1,module=0xb42ac038b6dae86f6171e28e297aab9555ce09909445ec579e4ffe6b8d4d63bf"} {
		if onChainValues[name].Value != want {
			t.Errorf("%s is %v with a chain, want %s", name, onChainValues[name].Value, want)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	ownContexts(t)
	testenv.Equal(t, must(t, "config", "check").stdout, "The configuration is valid.\n", "printed")
}
