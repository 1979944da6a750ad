package clients

import (
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestPublicClient uploads and downloads with the public npm client, unmodified, in its oldest and
// its newest version.
func TestPublicClient(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	tests := []struct {
		name    string
		version string
		base    string
		key     string
		cases   int
	}{
		{"0.1.0", "0.1.0", "", "", 25},
		{"0.1.0 with a key", "0.1.0", "", "a-key-that-means-nothing-here", 25},
		{"0.1.0 under a base path", "0.1.0", "/sluice", "", 25},
		{"0.0.4", "0.0.4", "", "", 21},
		{"0.0.4 with a key", "0.0.4", "", "a-key-that-means-nothing-here", 21},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := e2e.Options{Addr: "localhost:0"}
			if test.base != "" {
				o.Flags = []string{"--base-path", test.base}
			}
			s := e2e.Start(t, o)
			lines := e2e.RunClient(t, test.version, s.URL, test.key)
			if len(lines) != test.cases {
				t.Errorf("the client ran %d cases, want %d", len(lines), test.cases)
			}
			for _, line := range lines {
				e2e.CheckTransfer(t, s, line)
			}
		})
	}
}
