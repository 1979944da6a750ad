package wire_test

import (
	"encoding/json"
	"fmt"
	"log"

	"sluice/wire"
)

// A client decides by an error's code, never by its text.
func ExampleProblem() {
	body := `{"type":"urn:sluice:error:insufficient_funds","title":"Insufficient funds","status":402,
		"detail":"...","error":"...","code":"insufficient_funds","requestId":"r1","required":"120","available":"45"}`
	var problem wire.Problem
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		log.Fatal(err)
	}
	switch wire.Code(problem.Code) {
	case wire.CodeInsufficientFunds:
		fmt.Println("pay", problem.Required, "instead of", problem.Available)
	case wire.CodeRateLimited:
		fmt.Println("retry later")
	}
	// Output:
	// pay 120 instead of 45
}

// Amounts of money are decimal strings, because a JSON number cannot hold all of them exactly.
func ExamplePayment() {
	text, err := json.Marshal(wire.Payment{
		Receiver: "0x1", Asset: "0x2", Module: "0x3", ChainID: 4,
		ChunksetPrice: "1", UnsettledLimit: "9223372036854775807", Settlement: wire.SettlementLedger,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output:
	// {"receiver":"0x1","asset":"0x2","module":"0x3","chainId":4,"chunksetPrice":"1","unsettledLimit":"9223372036854775807","settlement":"ledger"}
}
