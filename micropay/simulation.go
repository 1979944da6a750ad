package micropay

import (
	"fmt"
	"slices"
)

// Simulation returns the transaction that collects the micropayment as its receiver, with
// signatures of zeros, as application/x.aptos.signed_transaction+bcs. A fullnode simulates only
// transactions that nobody can execute, so it refuses valid signatures. All authenticators keep
// their public keys, so that the chain compares them with the accounts' present keys. The sender's
// keeps its number of signatures, so that the size, which costs gas, is the [Transaction]'s.
// Simulation returns ErrKey if the signer is not the receiver's.
//
// The bytes are those that the npm package @aptos-labs/ts-sdk simulates, except where the package
// does not know which keys signed: for SchemeMultiKey it adds a signature for each key, and
// SchemeMultiEd25519 it does not support.
func (m *Micropayment) Simulation(receiver *Signer) ([]byte, error) {
	if receiver.Address() != m.Receiver {
		return nil, fmt.Errorf("%w: the signer is %v, the receiver is %v", ErrKey, receiver.Address(), m.Receiver)
	}
	payer := receiver.auth
	for _, key := range receiver.indices {
		payer.signatures = append(payer.signatures, signature{key: key})
	}
	return m.complete(m.auth.unsigned().append(nil), payer.unsigned().append(nil)), nil
}

// unsigned returns the authenticator with zeros in place of its signatures. Their type is Ed25519,
// whatever the key is, as in the npm package: all have the same size, and a signature is never
// valid if its type is not its key's.
func (a authenticator) unsigned() *authenticator {
	a.signatures = slices.Clone(a.signatures)
	for i := range a.signatures {
		a.signatures[i].kind, a.signatures[i].bytes = KeyEd25519, make([]byte, signatureSize)
	}
	return &a
}

// Form returns a short text that is the same for micropayments that differ only in the contract's
// concerns (channel, sequence number and amount) and in time and nonce: it names the payload's
// form, the scheme, how many keys and signatures there are, the maximum gas and the gas price. If
// the chain executed one of them, it accepts every such one from this sender, unless its state has
// changed.
func (m *Micropayment) Form() string {
	return fmt.Sprintf("%v %v %d/%d gas %d at %d", m.Payment.Form, m.auth.scheme, len(m.auth.signatures), len(m.auth.keys), m.MaxGas, m.GasPrice)
}

// UsesAccountSequence reports whether the chain executes the micropayment only while
// AccountSequence is the sender's sequence number. Otherwise a nonce protects it from being
// executed again.
func (m *Micropayment) UsesAccountSequence() bool { return m.Payment.Form != FormNonce }
