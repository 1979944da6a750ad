package settings

import (
	"testing"

	"sluice/internal/logbuffer"
	"sluice/node"
	"sluice/test/testenv"
)

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
		c := Configuration{LogFormat: test.format}
		c.Node.Profile = test.profile
		testenv.Equal(t, c.ForDeveloper(test.onTerminal), test.want, "%+v", test)
	}
}
