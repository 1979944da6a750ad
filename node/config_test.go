package node

import (
	"strings"
	"testing"

	"sluice/test/testenv"
)

func TestTrustedProxies(t *testing.T) {
	c := Config{Network: Network{TrustedProxies: []string{"10.1.2.3/8", "192.0.2.7", "2001:db8::/32", "::1"}}}
	networks, err := parseProxies("--trusted-proxies", c.TrustedProxies)
	var texts []string
	for _, network := range networks {
		texts = append(texts, network.String())
	}
	if got := strings.Join(texts, " "); err != nil || got != "10.0.0.0/8 192.0.2.7/32 2001:db8::/32 ::1/128" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestAdminAPINeedsItsAddress: administrators at the admin address need one.
func TestAdminAPINeedsItsAddress(t *testing.T) {
	for _, c := range []struct {
		at    AdminAPI
		addr  string
		valid bool
	}{{AdminApart, "", false}, {AdminApart, "localhost:9091", true}, {AdminPublic, "", true}, {AdminOff, "", true}} {
		err := (&Config{Network: Network{Addr: "localhost:9090", AdminAddr: c.addr, AdminAPI: c.at}}).validateNetwork()
		testenv.Equal(t, err == nil, c.valid, "--admin-api %s with --admin-addr %q", c.at, c.addr)
	}
}
