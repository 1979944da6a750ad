package memory_test

import (
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/memory"
)

func newHarness(testing.TB) bytetest.Harness {
	s := memory.New()
	return bytetest.Harness{Open: func() (bytestore.Store, error) { return s, nil }}
}

func TestConformance(t *testing.T) { bytetest.Run(t, newHarness) }
