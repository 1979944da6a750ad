package instances

import (
	"encoding/json"
	"testing"

	"sluice/test/testenv"
	"sluice/wire"
)

// TestActionsShowTheirChange: in the table, a block differs from its end, and two limits differ.
func TestActionsShowTheirChange(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`{"account":"a"}`, `{"account":"a","blocked":{"reason":"order"}}`, `blocked {"reason":"order"}`},
		{`{"account":"a","blocked":{"reason":"order"}}`, `{"account":"a"}`, `no blocked`},
		{`{"limits":{"channels":1}}`, `{"limits":{"channels":2}}`, `limits {"channels":2}`},
		{`{"a":1,"b":2,"c":3}`, `{"b":3,"a":1,"d":4}`, `b 3, d 4, no c`},
		{`{"label":"x"}`, "{\"label\":\"\u202ey\"}", `label "\u202ey"`}, {`{"a":1}`, `{"a":1}`, ``},
		{``, `{"label":"x"}`, ``}, {`{"label":"x"}`, ``, ``},
	} {
		testenv.Equal(t, changeText(wire.Action{Before: json.RawMessage(c.before), After: json.RawMessage(c.after)}), c.want, "the change from %s to %s", c.before, c.after)
	}
}
