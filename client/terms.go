package client

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/micropay"
)

// Terms are a service's terms of payment.
type Terms struct {
	Receiver string `json:"receiver"` // address that is paid
	Asset    string `json:"asset"`    // the asset's address
	Module   string `json:"module"`   // the module that collects payments
	ChainID  uint8  `json:"chainId"`
}

// canonical returns the terms with their addresses in canonical form.
func (t Terms) canonical() (Terms, error) {
	for _, a := range []*string{&t.Receiver, &t.Asset, &t.Module} {
		address, err := micropay.ParseAddress(*a)
		if err != nil {
			return Terms{}, err
		}
		*a = address.String()
	}
	return t, nil
}

// changes describes the differences between the terms and pinned ones.
func (t Terms) changes(pinned Terms) string {
	var texts []string
	for _, member := range []struct{ name, is, was string }{
		{"receiver", t.Receiver, pinned.Receiver},
		{"asset", t.Asset, pinned.Asset},
		{"module", t.Module, pinned.Module},
		{"chain", strconv.Itoa(int(t.ChainID)), strconv.Itoa(int(pinned.ChainID))},
	} {
		if member.is != member.was {
			texts = append(texts, fmt.Sprintf("the %s is %s, and was %s", member.name, member.is, member.was))
		}
	}
	return strings.Join(texts, "; ")
}
