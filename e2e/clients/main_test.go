package clients

import (
	"testing"

	"sluice/e2e"
)

func TestMain(m *testing.M) {
	if runTransfer() || runPurchases() {
		return
	}
	e2e.Main(m)
}
