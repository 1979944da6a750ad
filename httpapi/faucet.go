package httpapi

import (
	"net/http"
)

type faucetBody struct {
	Sender           *string `json:"sender"`
	Amount           *amount `json:"amount"`
	PaymentChannelID *amount `json:"paymentChannelId"`
}

// openFaucet opens a channel for a payer, or adds to the deposit of one. It never creates a
// session.
func (s *Server) openFaucet(x *call) error {
	var in faucetBody
	if _, err := readJSON(x.Request, &in); err != nil {
		return err
	}
	if in.Sender == nil {
		return missingMember("sender")
	}
	if in.Amount == nil {
		return missingMember("amount")
	}
	sender, err := address("sender", in.Sender)
	if err != nil {
		return err
	}
	number := int64(0)
	if in.PaymentChannelID != nil {
		number = int64(*in.PaymentChannelID)
	}
	funded, opened, err := s.channels.Fund(x.Request.Context(), sender, int64(*in.Amount), number)
	if err != nil {
		return inDoubt(channelError(err), doubtError{channelID: funded.ID})
	}
	status := http.StatusOK
	if opened {
		status = http.StatusCreated
	}
	return s.writeChanged(x, status, funded)
}
