package client

import "sluice/micropay"

// Terms are the terms of payment of a service.
type Terms struct {
	Receiver string `json:"receiver"` // address that is paid
	Asset    string `json:"asset"`    // address of the asset
	Module   string `json:"module"`   // address of the module that collects payments
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
