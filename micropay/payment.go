package micropay

import (
	"fmt"
	"time"
)

// The function that every micropayment calls, and its module.
const (
	ModuleName   = "micropayments"
	FunctionName = "receiver_withdraw"
)

// NoAccountSequence is the account sequence number that the public client sets in a payment with a
// nonce. Verification ignores it.
const NoAccountSequence = 0xdeadbeef

// Form is how the transaction wraps the call to the entry function.
type Form uint8

// The payload's forms.
const (
	FormNonce    Form = iota // versioned payload with a replay protection nonce
	FormSequence             // versioned payload without a nonce
	FormPlain                // plain entry function, without a nonce
)

// String returns the form's name.
func (f Form) String() string {
	switch f {
	case FormNonce:
		return "nonce"
	case FormSequence:
		return "sequence"
	case FormPlain:
		return "plain"
	default:
		return fmt.Sprintf("Form(%d)", uint8(f))
	}
}

// Payment holds the terms that a sender signs. Amounts are in units of the asset. All numbers may
// have any value of their type.
type Payment struct {
	Sender           Address // pays and signs
	Receiver         Address // is paid; the only secondary signer
	Asset            Address // the fungible asset's metadata address
	Amount           uint64  // paid in the channel so far, this payment included
	PaymentChannelID uint64  // the channel's number, between sender and receiver
	Sequence         uint64  // number of this payment in its channel
	ModuleAddress    Address // account that deployed the module
	ChainID          uint8   // chain on which it can be collected
	Expiration       uint64  // Unix seconds from which on the chain refuses it

	Form            Form   // the payload's
	Nonce           uint64 // replay protection; only in FormNonce, else 0
	AccountSequence uint64 // the sender's account sequence number
	MaxGas          uint64 // gas units
	GasPrice        uint64 // chain's smallest coin per gas unit
}

// Expires returns Expiration as a time in UTC, at most the year 9999's last second, which RFC 3339
// can just represent.
func (p *Payment) Expires() time.Time {
	last := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC).Unix()
	return time.Unix(int64(min(p.Expiration, uint64(last))), 0).UTC()
}

// The variants of transaction payloads.
const (
	payloadEntryFunction = 2
	payloadVersioned     = 4
	payloadKinds         = 5 // script, module bundle, entry function, multisig, versioned

	executableEntryFunction = 1
	executableKinds         = 3 // script, entry function, empty
)
