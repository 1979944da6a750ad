package conformance

import (
	"testing"

	"sluice/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
