package paychan

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/micropay"
)

// Localnet is the name of the default chain: a local network with the asset and the module that the
// public client expects.
const Localnet = "localnet"

// Chain identifies a chain, and the addresses that micropayments name on it.
type Chain struct {
	ID     uint8
	Asset  string // metadata address of the asset in which to pay
	Module string // address that deployed the module which micropayments call
}

// localnet returns the chain that is named Localnet.
func localnet() Chain { return Chain{DefaultChainID, DefaultAsset, DefaultModule} }

// UnmarshalText parses Localnet, or the members that differ from it, such as
// "id=99,asset=0x11,module=0x12".
func (c *Chain) UnmarshalText(text []byte) error {
	parsed := localnet()
	if string(text) == Localnet {
		*c = parsed
		return nil
	}
	for member := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(member, "=")
		if err := parsed.set(name, value); err != nil {
			return fmt.Errorf("%s: want %s, or a private chain's id=N,asset=ADDRESS,module=ADDRESS", member, Localnet)
		}
	}
	*c = parsed
	return nil
}

func (c *Chain) set(name, value string) error {
	switch name {
	case "id":
		id, err := strconv.ParseUint(value, 0, 8)
		c.ID = uint8(id)
		return err
	case "asset", "module":
		address, err := micropay.ParseAddress(value)
		if name == "asset" {
			c.Asset = address.String()
		} else {
			c.Module = address.String()
		}
		return err
	}
	return fmt.Errorf("there is no %q", name)
}

// String returns the chain as UnmarshalText parses it.
func (c Chain) String() string {
	if c == localnet() {
		return Localnet
	}
	return fmt.Sprintf("id=%d,asset=%s,module=%s", c.ID, c.Asset, c.Module)
}
