package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// parse gives the configuration of a command line, without running it.
func parse(t *testing.T, args ...string) (config, error) {
	t.Helper()
	var cmds commands
	parser, err := kong.New(&cmds, parserOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"serve"}, args...))
	return cmds.Serve.config, err
}

func configFileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFlagWinsOverVariableOverFile(t *testing.T) {
	file := configFileOf(t, "chunkset-price: 3\nreads: paid\nallowed-hosts: [a.example, b.example]\nopen-to-network: true\nsession-ttl: 5h\nreceiver: 0x10\n")
	c, err := parse(t, "--config", file)
	if err != nil || c.ChunksetPrice != 3 || c.Reads != "paid" || !c.OpenToNetwork || c.SessionTTL.Hours() != 5 || c.Receiver != "0x10" || strings.Join(c.AllowedHosts, " ") != "a.example b.example" {
		t.Fatalf("the file: %+v, %v", c, err)
	}
	t.Setenv("SLUICE_CHUNKSET_PRICE", "4")
	if c, err = parse(t, "--config", file); err != nil || c.ChunksetPrice != 4 || c.Reads != "paid" {
		t.Fatalf("a variable and the file: %+v, %v", c, err)
	}
	if c, err = parse(t, "--config", file, "--chunkset-price", "5"); err != nil || c.ChunksetPrice != 5 {
		t.Fatalf("a flag, a variable and the file: %+v, %v", c, err)
	}
	t.Setenv("SLUICE_CONFIG", file)
	if c, err = parse(t); err != nil || c.Reads != "paid" {
		t.Fatalf("the file named by a variable: %+v, %v", c, err)
	}
}

func TestBadConfiguration(t *testing.T) {
	cases := map[string][]string{
		"--addr nonsense":               {"--addr", "nonsense"},
		"the port must be":              {"--addr", "localhost:http"},
		"--open-to-network":             {"--addr", "0.0.0.0:9090"},
		"base path":                     {"--base-path", "no-slash"},
		"--reads":                       {"--reads", "key"},
		"--chunkset-price 0":            {"--chunkset-price", "0"},
		"--unsettled-limit":             {"--unsettled-limit", "0"},
		"--receiver zz":                 {"--receiver", "zz"},
		"--session-ttl":                 {"--session-ttl", "-1s"},
		"--drain-deadline":              {"--drain-deadline", "0s"},
		"--allowed-hosts":               {"--allowed-hosts", "name:8080"},
		"--cors-origins":                {"--cors-origins", "*"},
		"--verify-ttl":                  {"--verify-ttl", "-1s"},
		"\"no-such-flag\", which is no": {"--config", configFileOf(t, "no-such-flag: 1\n")},
		"reading the configuration":     {"--config", configFileOf(t, "[1, 2]")},
	}
	for want, args := range cases {
		if _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one that says %q", args, err, want)
		}
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	_, err := parse(t, "--chunkset-price", "0", "--base-path", "x")
	if err == nil || !strings.Contains(err.Error(), "--chunkset-price") || !strings.Contains(err.Error(), "--base-path") {
		t.Errorf("error %v", err)
	}
}
