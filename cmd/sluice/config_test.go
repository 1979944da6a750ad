package main

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/node"
	"sluice/test/testenv"
)

// parse returns the node's configuration for arguments of serve.
func parse(t *testing.T, args ...string) (node.Config, error) {
	t.Helper()
	commands := newCommands()
	p := testenv.Must(newParser(commands))(t)
	_, err := p.parse(append([]string{"serve"}, args...))
	return commands.Serve.Read().NodeConfig(), err
}

func configFileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(testenv.MemoryDir(t), "sluice.yaml")
	testenv.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestFlagWinsOverVariableOverFile(t *testing.T) {
	file := configFileOf(t, "chunkset-price: 3\nreads: paid\nallowed-hosts: [a.example, b.example]\nopen-to-network: true\nscrub-period: 5h\nreceiver: 0x10\n")
	c, err := parse(t, "--config", file)
	if err != nil || c.ChunksetPrice != 3 || c.Reads != "paid" || !c.OpenToNetwork || c.ScrubPeriod.Hours() != 5 || c.Receiver != "0x10" || strings.Join(c.AllowedHosts, " ") != "a.example b.example" {
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

// TestConfigurationInTheHomeFolder checks that ~ is expanded where the shell does not do it.
func TestConfigurationInTheHomeFolder(t *testing.T) {
	current, err := user.Current() // as kong.ExpandPath does
	testenv.OK(t, err)
	want := "--config: there is no file " + filepath.Join(current.HomeDir, "nonexistent-sluice.yaml") + ":"
	if _, err := parse(t, "--config=~/nonexistent-sluice.yaml"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want one that begins with %q", err, want)
	}
}

// TestBadConfiguration checks why flags' values are refused, beside the rows of wrongCalls.
func TestBadConfiguration(t *testing.T) {
	for want, args := range map[string][]string{
		"base path":                     {"--base-path", "no-slash"},
		"requires no keys":              {"--reads", "key"},
		"requires the hosted profile":   {"--public-cache-control", "max-age=60"},
		"--receiver zz":                 {"--receiver", "zz"},
		"--drain-deadline":              {"--drain-deadline", "0s"},
		"--allowed-hosts":               {"--allowed-hosts", "name:8080"},
		"--allowed-hosts [::1":          {"--allowed-hosts", "[::1]:8080"},
		"xn--bcher-kva":                 {"--allowed-hosts", "bücher.example"},
		"--cors-origins https://bü":     {"--cors-origins", "https://bücher.example"},
		"--cors-origins":                {"--cors-origins", "*"},
		"--verify-ttl":                  {"--verify-ttl", "-1s"},
		"--reads sometimes":             {"--reads", "sometimes"},
		"--admin-addr 9091":             {"--admin-addr", "9091"},
		"--admin-addr localhost:x":      {"--admin-addr", "localhost:x"},
		"--external-url host/sluice":    {"--external-url", "host/sluice"},
		"--external-url ftp":            {"--external-url", "ftp://host"},
		"--external-url https://u:p@":   {"--external-url", "https://u:p@host"},
		"neither a query":               {"--external-url", "https://host?"},
		"nor a fragment":                {"--external-url", "https://host#f"},
		"must end in the base path":     {"--external-url", "https://host/sluice", "--base-path", "/other"},
		"the base path, \"/sluice\"":    {"--external-url", "https://host/sluice/", "--base-path", "/sluice"},
		"--trusted-proxies 10.0.0.0":    {"--trusted-proxies", "10.0.0.0/33"},
		"--trusted-proxies ::ffff":      {"--trusted-proxies", "::ffff:10.0.0.0/104"},
		"--trusted-proxies proxy":       {"--trusted-proxies", "10.0.0.1,proxy"},
		"either requires the other":     {"--tls-key", "tls.key"},
		"--drain-wait -1s":              {"--drain-wait=-1s"},
		"--staging-size 31MiB: must be": {"--staging-size", "31MiB"},
	} {
		if _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one that says %q", args, err, want)
		}
	}
}

// inProduction are the flags that the hosted profile requires.
var inProduction = []string{"--profile", "hosted", "--base-path", "/sluice", "--reads", "key", "--receiver", "0x1", "--external-url", "https://host/sluice"}

// TestHostedRequiresFlags checks that the defaults of development are rejected, each
// by the name of its flag.
// Invariant 46.
func TestHostedRequiresFlags(t *testing.T) {
	_, err := parse(t, "--profile", "hosted")
	for _, flag := range []string{"--base-path", "--reads", "--receiver", "--external-url"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("error %v, want one that names %s", err, flag)
		}
	}
	for want, args := range map[string][]string{
		"--open-to-network": {"--open-to-network"},
		"--allowed-hosts":   {"--allowed-hosts", "blobs.example.org"},
		"--cors-origins":    {"--cors-origins", "https://app.example.org"},
		"--reads sometimes": {"--reads", "sometimes"},

		`--public-cache-control "max-age": malformed`: {"--public-cache-control", "max-age", "--reads", "public"},
	} {
		if _, err := parse(t, slices.Concat(inProduction, args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one that says %q", args, err, want)
		}
	}
	for _, reads := range []access.Reads{"public", "key", "paid"} {
		if c, err := parse(t, slices.Concat(inProduction, []string{"--reads", string(reads), "--addr", "0.0.0.0:443"})...); err != nil || c.Reads != reads {
			t.Errorf("--reads %s: %q, %v", reads, c.Reads, err)
		}
	}
}

func TestDefaultsOfTheProfiles(t *testing.T) {
	const none = keys.Unlimited
	for _, test := range []struct {
		args         []string
		reads        access.Reads
		admin        string
		wait         time.Duration
		key, address keys.Limits
	}{
		{
			args: nil, reads: "public", admin: "",
			key:     keys.Limits{RequestsPerSecond: none, BytesInPerSecond: none, BytesOutPerSecond: none, ConcurrentRequests: none, StoredBytes: none, OccupiedBytes: none, StoredObjects: none, OpenUploads: none, Channels: none},
			address: keys.Limits{RequestsPerSecond: none, BytesInPerSecond: none, BytesOutPerSecond: none, ConcurrentRequests: none, StoredBytes: none, OccupiedBytes: none, StoredObjects: none, OpenUploads: none, Channels: none},
		},
		{
			args: inProduction, reads: "key", admin: "localhost:9091", wait: 5 * time.Second,
			key:     keys.Limits{RequestsPerSecond: 1000, BytesInPerSecond: 512 << 20, BytesOutPerSecond: 512 << 20, ConcurrentRequests: 1024, StoredBytes: none, OccupiedBytes: none, StoredObjects: none, OpenUploads: none, Channels: none},
			address: keys.Limits{RequestsPerSecond: 100, BytesInPerSecond: 32 << 20, BytesOutPerSecond: 32 << 20, ConcurrentRequests: 64, StoredBytes: none, OccupiedBytes: none, StoredObjects: none, OpenUploads: none, Channels: none},
		},
		{
			args: slices.Concat(inProduction, []string{"--admin-addr", "off", "--drain-wait", "0s", "--key-limits", "requests-per-second=unlimited,stored-bytes=5TiB,open-uploads=9,channels=4",
				"--address-limits", "bytes-in-per-second=100kB"}),
			reads: "key", admin: "",
			key:     keys.Limits{RequestsPerSecond: none, BytesInPerSecond: 512 << 20, BytesOutPerSecond: 512 << 20, ConcurrentRequests: 1024, StoredBytes: 5 << 40, OccupiedBytes: 20 << 40, StoredObjects: none, OpenUploads: 9, Channels: 4},
			address: keys.Limits{RequestsPerSecond: 100, BytesInPerSecond: 100_000, BytesOutPerSecond: 32 << 20, ConcurrentRequests: 64, StoredBytes: none, OccupiedBytes: none, StoredObjects: none, OpenUploads: none, Channels: none},
		},
	} {
		c := testenv.Must(parse(t, test.args...))(t)
		if c.Reads != test.reads || c.AdminAddr != test.admin || c.DrainWait != test.wait || c.KeyLimits != test.key || c.AddressLimits != test.address {
			t.Errorf("%v: %+v", test.args, c)
		}
	}
}
