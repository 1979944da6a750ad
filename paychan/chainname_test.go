package paychan_test

import (
	"strings"
	"testing"

	"sluice/paychan"
	"sluice/test/testenv"
)

// TestChain parses chains, and checks that each is written so that it is parsed as the same one.
func TestChain(t *testing.T) {
	localnet := paychan.Chain{ID: paychan.DefaultChainID, Asset: paychan.DefaultAsset, Module: paychan.DefaultModule}
	address := func(digits string) string { return "0x" + strings.Repeat("0", 64-len(digits)) + digits }
	for text, want := range map[string]paychan.Chain{
		"localnet":                       localnet,
		"id=4":                           localnet,
		"id=99":                          {ID: 99, Asset: localnet.Asset, Module: localnet.Module},
		"module=0x11,asset=0x12,id=0x02": {ID: 2, Asset: address("12"), Module: address("11")},
	} {
		var got paychan.Chain
		testenv.OK(t, got.UnmarshalText([]byte(text)))
		testenv.Equal(t, got, want, "%s", text)
		var again paychan.Chain
		testenv.OK(t, again.UnmarshalText([]byte(got.String())))
		testenv.Equal(t, again, got, "%s, written as %s", text, got)
	}
	for _, text := range []string{"", "mainnet", "id=256", "id=-1", "id=", "asset=nowhere", "module=0x", "id=1,", "key=1", "id=1 "} {
		var c paychan.Chain
		if err := c.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "want localnet, or a private chain's id=N,asset=ADDRESS,module=ADDRESS") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
