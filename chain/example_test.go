package chain_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"sluice/chain"
	"sluice/micropay"
)

// The client asks a fullnode for a transaction's outcome.
func Example() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		w.Header().Set("X-Aptos-Chain-Id", "4")
		w.Header().Set("X-Aptos-Ledger-TimestampUsec", "1760000000000000")
		_, _ = io.WriteString(w, `{"type":"user_transaction","hash":"`+hash+`","success":true,"vm_status":"Executed successfully","gas_used":"12"}`)
	}))
	defer node.Close()

	c, err := chain.New(chain.Options{Nodes: []string{node.URL + "/v1"}, ChainID: 4})
	check(err)
	t, err := c.Transaction(context.Background(), micropay.Hash{1})
	check(err)
	fmt.Println(t.State == chain.StateExecuted, t.Success, t.VMStatus, t.At)
	// Output: true true Executed successfully 2025-10-09 08:53:20 +0000 UTC
}

// check panics on an error. A server handles it.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
